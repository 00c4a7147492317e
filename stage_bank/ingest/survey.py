"""The first look at a file: whose it is, which series it belongs to, and whether its header promises an image."""

from __future__ import annotations

from dataclasses import dataclass

from pydicom.dataset import FileDataset
from pydicom.uid import MediaStorageDirectoryStorage

from stage_bank.deidentify.dataset import MODALITIES
from stage_bank.deidentify.heads import Shown, Slice, slices_of
from stage_bank.deidentify.series import SeriesFile
from stage_bank.dicom.decode import frame_count
from stage_bank.dicom.identifiers import collect_identifiers
from stage_bank.dicom.identity import Identity, read_identity
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import Found
from stage_bank.ingest.render import MIN_SIDE
from stage_bank.ingest.site_map import SiteMap

__all__ = ["Candidate", "survey"]

_NO_IMAGE = frozenset(
    {
        "AR", "ECG", "EPS", "HC", "HD", "KER", "KO", "LEN", "OAM", "OPV", "PLAN", "PR", "REG", "RESP",
        "RTDOSE", "RTPLAN", "RTRECORD", "RTSTRUCT", "RWV", "SEG", "SMR", "SR", "SRF", "STAIN", "TG", "VA",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A file that may give pictures. It holds original identifiers and stays in memory.

    Args:
        found: where it is.
        identity: whose it is.
        series: series instance UID; empty when absent.
        instance: SOP instance UID; empty when absent.
        frame_of_reference: UID; empty when absent.
        file: what de-identification must know of it.
        places: geometry of each frame.
    """

    found: Found
    identity: Identity
    series: str
    instance: str
    frame_of_reference: str
    file: SeriesFile
    places: tuple[Slice | None, ...]

    @property
    def perhaps_head(self) -> bool:
        """Whether the face may be in view."""
        return self.file.shown is not Shown.OTHER


def survey(found: Found, site_map: SiteMap | None, identifiers: set[str]) -> Candidate:
    """Read one file's header.

    Args:
        found: what the walk met.
        site_map: the site's own identities.
        identifiers: receives what could name a patient, also when the file is refused.

    Raises:
        Refused: not an image, or nobody can tell whose.
    """
    if found.reason is not None:
        raise Refused(found.reason)
    dataset = read_dataset(found.path)
    identifiers |= collect_identifiers(dataset)
    _check_header(dataset)
    mapped = None if site_map is None else site_map.identity(found.name, dataset)
    identity = read_identity(dataset) if mapped is None else mapped
    file = SeriesFile.look(found.path, dataset)
    return Candidate(
        found,
        identity,
        series=_uid(dataset, "SeriesInstanceUID"),
        instance=_uid(dataset, "SOPInstanceUID"),
        frame_of_reference=_uid(dataset, "FrameOfReferenceUID"),
        file=file,
        places=tuple(slices_of(dataset, range(frame_count(dataset)))) if file.frames > 1 else (file.place,),
    )


def _check_header(dataset: FileDataset) -> None:
    if dataset.file_meta.get("MediaStorageSOPClassUID") == MediaStorageDirectoryStorage:
        raise Refused(Reason.INDEX)
    modality = dataset.get("Modality") or ""
    if not isinstance(modality, str):
        raise Refused(Reason.NO_MODALITY)
    if modality in _NO_IMAGE:
        raise Refused(Reason.NOT_AN_IMAGE)
    if not any(keyword in dataset for keyword in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise Refused(Reason.NO_PIXELS)
    if modality and modality not in MODALITIES:
        raise Refused(Reason.NO_MODALITY)
    sides = [dataset.get(keyword) or 0 for keyword in ("Rows", "Columns")]
    if not all(isinstance(side, int) for side in sides):
        raise Refused(Reason.DAMAGED)
    if min(sides) < MIN_SIDE:
        raise Refused(Reason.TOO_SMALL)


def _uid(dataset: FileDataset, keyword: str) -> str:
    return str(dataset.get(keyword) or "").strip(" \0")
