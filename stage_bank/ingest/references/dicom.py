"""Segmentations and structure sets that lie among a site's images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset

from stage_bank.dicom.identity import pseudonym, read_identity
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import Found
from stage_bank.ingest.hooks import SeriesSource
from stage_bank.ingest.references.segmentation import SEGMENTATION_CLASSES, segmentation_masks
from stage_bank.ingest.references.structures import STRUCTURE_SET_CLASS, structure_masks
from stage_bank.ingest.report import FileReport, Status
from stage_bank.ingest.site_map import SiteMap

__all__ = ["DicomReferences"]

_Read = Callable[[FileDataset, SeriesSource], list[NDArray[np.bool_]]]


@dataclass(frozen=True)
class _Offered:
    """One reference file, of which only this is kept in memory."""

    found: Found
    read: _Read
    patient: str | None
    study: str
    series: frozenset[str]
    instances: frozenset[str]
    frames_of_reference: frozenset[str]

    def concerns(self, series: SeriesSource) -> bool:
        """Whether it was drawn on this series: named, or in the same space where it names nothing."""
        if self.series or self.instances:
            named = series.series_uid in self.series
            return named or any(one.instance_uid in self.instances for one in series.slices)
        return self.study == series.study_uid and series.frame_of_reference_uid in self.frames_of_reference - {""}


class DicomReferences:
    """Masks out of the segmentations and structure sets that ingest meets.

    Args:
        site_key: secret of the site, as ingest has it: a reference counts for its own patient only.
        site_map: the site's own identities.
    """

    def __init__(self, site_key: bytes, site_map: SiteMap | None = None) -> None:
        self._site_key = site_key
        self._site_map = site_map
        self._offered: list[_Offered] = []
        self._reasons: dict[str, Reason] = {}

    @quiet()
    def offer(self, found: Found) -> None:
        """Keep in mind a segmentation or a structure set; anything else is left to ingest's own report."""
        try:
            dataset = read_dataset(found.path)
            sop_class = str(dataset.get("SOPClassUID") or "")
            if sop_class in SEGMENTATION_CLASSES:
                self._offered.append(self._look(found, dataset, segmentation_masks))
            elif sop_class == STRUCTURE_SET_CLASS:
                self._offered.append(self._look(found, dataset, structure_masks))
        except Refused as refusal:
            self._reasons[found.name] = refusal.reason

    @quiet()
    def findings_for(self, series: SeriesSource) -> Sequence[NDArray[np.bool_] | None]:
        """What all references of the series mark together."""
        found: list[NDArray[np.bool_] | None] = [None] * len(series.pictures)
        for offered in self._offered:
            if not offered.concerns(series):
                continue
            try:
                masks = self._masks(offered, series)
            except Refused as refusal:
                self._reasons[offered.found.name] = refusal.reason
                continue
            self._reasons.setdefault(offered.found.name, Reason.REFERENCE)
            found = [mask if old is None else old | mask for old, mask in zip(found, masks, strict=True)]
        return found

    def reports(self) -> Sequence[FileReport]:
        """One entry for each segmentation and structure set."""
        reasons = dict.fromkeys((offered.found.name for offered in self._offered), Reason.REFERENCE_UNUSED)
        return [
            FileReport(name, Status.TAKEN if reason is Reason.REFERENCE else Status.REFUSED, reason)
            for name, reason in (reasons | self._reasons).items()
        ]

    def _look(self, found: Found, dataset: FileDataset, read: _Read) -> _Offered:
        named = _values(dataset, "SeriesInstanceUID") - {str(dataset.get("SeriesInstanceUID") or "")}
        frames_of_reference = _values(dataset, "FrameOfReferenceUID")
        instances = _values(dataset, "ReferencedSOPInstanceUID")
        study = str(dataset.get("StudyInstanceUID") or "")
        try:
            mapped = None if self._site_map is None else self._site_map.identity(found.name, dataset)
            patient = pseudonym(self._site_key, read_identity(dataset) if mapped is None else mapped)
        except Refused:  # nobody can tell whose it is; then it must at least be of the study of its images
            patient = None
        return _Offered(found, read, patient, study, named, instances, frames_of_reference)

    def _masks(self, offered: _Offered, series: SeriesSource) -> list[NDArray[np.bool_]]:
        same = offered.study == series.study_uid if offered.patient is None else offered.patient == series.patient
        if not same:
            raise Refused(Reason.REFERENCE_PATIENT)
        try:
            return offered.read(read_dataset(offered.found.path), series)
        except Refused:
            raise
        except Exception as error:  # hostile headers make the parser raise many types; all mean the same to the site
            raise Refused(Reason.DAMAGED) from error


def _values(dataset: Dataset, keyword: str) -> frozenset[str]:
    """All values of an attribute, at any depth."""
    found = set()
    for element in dataset.iterall():
        if element.keyword == keyword and element.value:
            found.add(str(element.value))
    return frozenset(found)
