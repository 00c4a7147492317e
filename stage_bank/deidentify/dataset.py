"""De-identification by allow-list: a new data set is built from what is known to be harmless, the rest never copied.

A deny-list forgets private tags, nested sequences, overlays, compression comments and preambles. Here nothing passes
unless it is listed, and what is listed is rebuilt from its meaning: numbers are parsed and written again, codes must be
in a small vocabulary, UIDs become keyed hashes (so references between objects still match), and pixels are decoded and
stored again, native and little-endian. After PS3.15 annex E (Basic Application Level
Confidentiality Profile), but stricter.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeAlias

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.multival import MultiValue
from pydicom.uid import UID, ExplicitVRLittleEndian

from common.errors import DataError
from stage_bank.ingest.decode import Decoded, decode_frames, frame_count
from stage_bank.ingest.identifiers import is_registered
from stage_bank.ingest.identity import pseudonym, read_identity
from stage_bank.ingest.quiet import quiet
from stage_bank.ingest.read import Refused

__all__ = ["MODALITIES", "deidentify", "remap_uid"]

MODALITIES = frozenset(
    {
        "AR", "BI", "CR", "CT", "DG", "DX", "ECG", "EPS", "ES", "GM", "HC", "HD", "IO", "IVOCT", "IVUS",
        "KER", "KO", "LEN", "LS", "MG", "MR", "NM", "OAM", "OCT", "OP", "OPM", "OPT", "OPV", "OSS", "OT",
        "PLAN", "PR", "PT", "PX", "REG", "RESP", "RF", "RG", "RTDOSE", "RTIMAGE", "RTPLAN", "RTRECORD",
        "RTSTRUCT", "RWV", "SC", "SEG", "SM", "SMR", "SR", "SRF", "STAIN", "TG", "US", "VA", "XA", "XC",
    }
)  # fmt: skip
"""Defined terms of Modality (0008,0060), PS3.3 C.7.3.1.1.1, as far as they are in use."""


class _Kind(Enum):
    INTEGER = auto()
    DECIMAL = auto()
    UID = auto()
    CLASS = auto()


_Rule: TypeAlias = "_Kind | frozenset[str] | Mapping[str, _Rule]"

_REFERENCE: Mapping[str, _Rule] = {
    "ReferencedSOPClassUID": _Kind.CLASS,
    "ReferencedSOPInstanceUID": _Kind.UID,
    "ReferencedFrameNumber": _Kind.INTEGER,
}
_MEASURES: Mapping[str, _Rule] = {"PixelSpacing": _Kind.DECIMAL, "SliceThickness": _Kind.DECIMAL}
_RESCALE: Mapping[str, _Rule] = {
    "RescaleIntercept": _Kind.DECIMAL,
    "RescaleSlope": _Kind.DECIMAL,
    "RescaleType": frozenset({"HU", "US"}),
}
_SHARED_GROUPS: Mapping[str, _Rule] = {
    "PixelMeasuresSequence": _MEASURES,
    "PixelValueTransformationSequence": _RESCALE,
}

_ALLOWED: Mapping[str, _Rule] = {
    "SOPClassUID": _Kind.CLASS,
    "SOPInstanceUID": _Kind.UID,
    "StudyInstanceUID": _Kind.UID,
    "SeriesInstanceUID": _Kind.UID,
    "FrameOfReferenceUID": _Kind.UID,
    "Modality": MODALITIES,
    "InstanceNumber": _Kind.INTEGER,
    "BurnedInAnnotation": frozenset({"YES", "NO"}),
    "ImageOrientationPatient": _Kind.DECIMAL,
    "ImagePositionPatient": _Kind.DECIMAL,
    "ImagerPixelSpacing": _Kind.DECIMAL,
    "SpacingBetweenSlices": _Kind.DECIMAL,
    "PixelPaddingValue": _Kind.INTEGER,
    "WindowCenter": _Kind.DECIMAL,
    "WindowWidth": _Kind.DECIMAL,
    **_MEASURES,
    **_RESCALE,
    "SharedFunctionalGroupsSequence": _SHARED_GROUPS,
    "ReferencedImageSequence": _REFERENCE,
    "SourceImageSequence": _REFERENCE,
    "ReferencedSeriesSequence": {"SeriesInstanceUID": _Kind.UID, "ReferencedInstanceSequence": _REFERENCE},
}


@quiet()
def deidentify(dataset: Dataset, site_key: bytes, *, frames: Sequence[int] | None = None) -> Dataset:
    """Build the de-identified twin of a data set; the input is left as it is.

    Args:
        dataset: as read, with `file_meta` when it has pixels.
        site_key: secret of the site; the same key gives the same pseudonyms and UIDs.
        frames: indices of the frames to keep, or `None` for all.

    Returns:
        A data set with a fresh file meta group and an all-zero preamble, native Explicit VR Little Endian.

    Raises:
        DataError: no registered SOP class.
        Refused: the pixel data cannot be decoded.
    """
    clean = _rebuild(dataset, _ALLOWED, site_key)
    if "SOPClassUID" not in clean or "SOPInstanceUID" not in clean:
        raise DataError("not a DICOM object of a registered class", remedy="Leave the file out.")
    clean.PatientName = ""
    clean.PatientID = _patient(dataset, site_key)
    clean.PatientIdentityRemoved = "YES"
    clean.LongitudinalTemporalInformationModified = "REMOVED"
    clean.DeidentificationMethod = "Allow-list, keyed UIDs, pixels decoded and rewritten"
    clean.DeidentificationMethodCodeSequence = [_code("113100", "Basic Application Confidentiality Profile")]
    if "PixelData" in dataset:
        wanted = range(frame_count(dataset)) if frames is None else frames
        _write_pixels(clean, decode_frames(dataset, wanted))
    return _with_fresh_meta(clean)


def remap_uid(uid: str, site_key: bytes) -> str:
    """The site's keyed stand-in for a UID: `2.25.` and 128 bits of HMAC-SHA-256 (PS3.5 B.2 form)."""
    digest = hmac.new(site_key, b"uid\0" + uid.strip(" \0").encode(), hashlib.sha256).digest()
    return f"2.25.{int.from_bytes(digest[:16], 'big')}"


def _rebuild(source: Dataset, rules: Mapping[str, _Rule], site_key: bytes) -> Dataset:
    clean = Dataset()
    for keyword, rule in rules.items():
        if keyword not in source:
            continue
        value = _clean_value(source[keyword].value, rule, site_key)
        if value is not None:
            setattr(clean, keyword, value)
    return clean


def _clean_value(value: Any, rule: _Rule, site_key: bytes) -> Any:
    """The value rebuilt from its meaning, or `None` where it has none."""
    if isinstance(rule, Mapping):
        items = [_rebuild(item, rule, site_key) for item in value] if not isinstance(value, str | bytes) else []
        return [item for item in items if len(item)] or None
    values = list(value) if isinstance(value, MultiValue | list | tuple) else [value]
    try:
        cleaned = [_clean_scalar(item, rule, site_key) for item in values]
    except (TypeError, ValueError, OverflowError):
        return None
    if not cleaned or None in cleaned:
        return None
    return cleaned if len(cleaned) > 1 else cleaned[0]


def _clean_scalar(value: Any, rule: _Rule, site_key: bytes) -> Any:
    if value is None or value == "":
        return None
    if rule is _Kind.INTEGER:
        return int(value)
    if rule is _Kind.DECIMAL:
        number = float(value)
        return f"{number:.9g}" if math.isfinite(number) else None
    if rule is _Kind.UID:
        return remap_uid(str(value), site_key)
    if rule is _Kind.CLASS:
        return str(value) if is_registered(str(value)) else None
    assert isinstance(rule, frozenset)
    return value if isinstance(value, str) and value in rule else None


def _patient(dataset: Dataset, site_key: bytes) -> str:
    try:
        return pseudonym(site_key, read_identity(dataset))
    except Refused:
        return ""


def _code(value: str, meaning: str) -> Dataset:
    code = Dataset()
    code.CodeValue = value
    code.CodingSchemeDesignator = "DCM"
    code.CodeMeaning = meaning
    return code


def _write_pixels(clean: Dataset, decoded: Decoded) -> None:
    frames = decoded.frames
    allocated = frames.dtype.itemsize * 8
    clean.SamplesPerPixel = 3 if frames.ndim == 4 else 1
    clean.PhotometricInterpretation = decoded.photometric
    if frames.ndim == 4:
        clean.PlanarConfiguration = 0
    if len(frames) > 1:
        clean.NumberOfFrames = len(frames)
    clean.Rows, clean.Columns = frames.shape[1:3]
    clean.BitsAllocated = allocated
    clean.BitsStored = decoded.bits_stored if decoded.bits_stored > 1 else allocated
    clean.HighBit = clean.BitsStored - 1
    clean.PixelRepresentation = int(frames.dtype.kind == "i")
    data = np.ascontiguousarray(frames).tobytes()
    clean.add_new("PixelData", "OB" if allocated == 8 else "OW", data + b"\0" * (len(data) % 2))


def _with_fresh_meta(clean: Dataset) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(clean.SOPClassUID)
    meta.MediaStorageSOPInstanceUID = UID(clean.SOPInstanceUID)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    return FileDataset("", clean, preamble=b"\0" * 128, file_meta=meta, is_implicit_VR=False, is_little_endian=True)
