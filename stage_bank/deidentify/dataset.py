"""De-identification by allow-list: a new data set is built from what is known to be harmless, the rest never copied.

A deny-list forgets private tags, nested sequences, overlays, compression comments and preambles. Here nothing passes
unless its SOP class lists it, and what is listed is rebuilt from its meaning: numbers are parsed and written again,
codes must be in the public dictionaries, UIDs and dates are replaced, and pixels are decoded, checked for text while
the header can still help, and stored again, native and little-endian. After PS3.15 annex E (Basic Application Level
Confidentiality Profile with options), but stricter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian

from stage_bank.deidentify.allowlists import AllowList, TextRisk, allow_list, allow_lists, vocabulary
from stage_bank.deidentify.faces import FaceCheck, frame_masks
from stage_bank.deidentify.kinds import DUMMY
from stage_bank.deidentify.marks import Done, mark
from stage_bank.deidentify.names import remap_uid
from stage_bank.deidentify.pixels import blank, write_pixels
from stage_bank.deidentify.profiles import Profile, ProfileName, identity_of, open_profile
from stage_bank.deidentify.rebuild import Rebuilder
from stage_bank.deidentify.text import Tesseract, TextCheck, clean_text, needs_search
from stage_bank.deidentify.text.needles import header_needles
from stage_bank.deidentify.text.regions import outside_regions
from stage_bank.dicom.decode import Decoded, decode_frames, frame_count
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["EMPTY", "MODALITIES", "Deidentified", "Options", "deidentify", "deidentify_with", "remap_uid"]

MODALITIES = vocabulary("modality")
"""Defined terms of Modality (0008,0060), PS3.3 C.7.3.1.1.1, as far as they are in use."""

EMPTY = (
    "PatientName", "PatientID", "PatientBirthDate", "PatientSex", "StudyDate", "StudyTime", "StudyID",
    "AccessionNumber", "ReferringPhysicianName",
)  # fmt: skip
"""Attributes that the standard demands and allows to be empty."""

_VIDEO = ("MPEG", "HEVC")
_LOSSY = frozenset(f"1.2.840.10008.1.2.4.{number}" for number in (50, 51, 81, 91, 93, 112, 203))
"""JPEG, JPEG-LS, JPEG 2000, JPEG XL and HTJ2K with loss: once lost, always lost (PS3.3 C.7.6.1.1.5)."""
_WITHOUT_PIXELS = ("radiotherapy", "report")
_PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")


@dataclass(frozen=True)
class Options:
    """How to treat pixels.

    Args:
        text: which images are searched for text. `NONE` is for images that are public already.
        faces: what happens to head volumes in one file.
        face_mask: pixels of the face, found with the other files of a head's series: `[rows, columns]`.
    """

    text: TextCheck = TextCheck.LIKELY
    faces: FaceCheck = FaceCheck.REMOVE
    face_mask: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Deidentified:
    """A de-identified object and what was done to it."""

    dataset: FileDataset
    done: Done


def deidentify(
    dataset: FileDataset,
    site_key: bytes,
    *,
    frames: Sequence[int] | None = None,
    profile: Profile | None = None,
    options: Options | None = None,
) -> FileDataset:
    """Build the de-identified twin of a data set; the input is left as it is.

    Args:
        dataset: as read, with `file_meta`.
        site_key: secret of the site; the same key gives the same pseudonyms, UIDs and date offsets.
        frames: indices of the frames to keep, or `None` for all.
        profile: `None` for moved dates and keyed UIDs.
        options: how pixels are treated.

    Returns:
        A data set with a fresh file meta group and an all-zero preamble, native Explicit VR Little Endian.

    Raises:
        Refused: no list covers the object, its pixels cannot be decoded or made safe, or nothing of a report is left.
    """
    chosen = profile or open_profile(ProfileName.MODIFIED_DATES, site_key)
    return deidentify_with(dataset, chosen, options or Options(), frames).dataset


@quiet()
def deidentify_with(
    dataset: FileDataset, profile: Profile, options: Options, frames: Sequence[int] | None = None
) -> Deidentified:
    """`deidentify`, and what was done."""
    allow_lists()  # a mistake in the lists is ours and not the file's
    try:
        return _deidentify(dataset, profile, options, frames)
    except Refused:
        raise
    except Exception as error:  # hostile headers make the parser raise many types; all mean the same to the site
        raise Refused(Reason.DAMAGED) from error


def _deidentify(dataset: FileDataset, profile: Profile, options: Options, frames: Sequence[int] | None) -> Deidentified:
    allowed = _allow_list(dataset)
    identity = identity_of(dataset)
    clock = profile.clock(identity)
    done = Done(dates_moved=clock.offset is not None)
    decoded = None
    if any(keyword in dataset for keyword in _PIXELS):  # first, while the header can still help
        decoded, done = _clean_pixels(dataset, allowed, options, frames, done)
    elif allowed.family not in _WITHOUT_PIXELS:
        raise Refused(Reason.NO_PIXELS)
    clean = Rebuilder(profile.names, clock, frames).dataset(dataset, allowed.attributes)
    if "SOPInstanceUID" not in clean:
        raise Refused(Reason.DAMAGED)
    if allowed.family == "report":
        if "ContentSequence" not in clean or "ConceptNameCodeSequence" not in clean:
            raise Refused(Reason.NO_CONTENT)
        done = replace(done, content_cleaned=True)
    for keyword in EMPTY:
        if keyword not in clean:
            setattr(clean, keyword, "")
    clean.PatientID = profile.patient(identity)
    clean.Manufacturer = DUMMY
    clean.SpecificCharacterSet = "ISO_IR 192"
    if decoded is not None:
        write_pixels(clean, decoded, packed=dataset.get("BitsAllocated") == 1)
        if str(dataset.file_meta.get("TransferSyntaxUID", "")) in _LOSSY:
            clean.LossyImageCompression = "01"
    mark(clean, done)
    return Deidentified(_with_fresh_meta(clean), done)


def _allow_list(dataset: FileDataset) -> AllowList:
    syntax = UID(str(dataset.file_meta.get("TransferSyntaxUID", ""))).name
    if any(family in syntax for family in _VIDEO):
        raise Refused(Reason.VIDEO)
    if "DirectoryRecordSequence" in dataset:
        raise Refused(Reason.INDEX)
    sop_class = UID(str(dataset.get("SOPClassUID", "")))
    if ("EncapsulatedDocument" in dataset and "PixelData" not in dataset) or sop_class.name.startswith("Encapsulated"):
        raise Refused(Reason.DOCUMENT)
    if sop_class.name.startswith("Video"):
        raise Refused(Reason.VIDEO)
    found = allow_list(sop_class)
    if found is None:
        raise Refused(Reason.NO_TABLE)
    return found


def _clean_pixels(
    dataset: FileDataset, allowed: AllowList, options: Options, frames: Sequence[int] | None, done: Done
) -> tuple[Decoded, Done]:
    wanted = range(frame_count(dataset)) if frames is None else frames
    decoded = decode_frames(dataset, wanted)
    if options.face_mask is not None:
        decoded, done = blank(decoded, options.face_mask), replace(done, face_removed=True)
    elif options.faces is not FaceCheck.KEEP and (masks := frame_masks(dataset, wanted, decoded)) is not None:
        decoded, done = blank(decoded, masks), replace(done, face_removed=True)
    likely = needs_search(dataset, allowed.text)
    if options.text is TextCheck.NONE or allowed.text is TextRisk.NONE or not (likely or options.text is TextCheck.ALL):
        return decoded, done
    program = Tesseract.find()
    if program is None:
        if likely:
            raise Refused(Reason.NO_TEXT_SEARCH)
        return decoded, done
    outside = outside_regions(dataset, *decoded.frames.shape[1:3])
    if outside is not None:
        decoded = blank(decoded, outside)
    decoded, share = clean_text(decoded, header_needles(dataset), program, expected=likely)
    return decoded, replace(done, text_searched=True, text_share=share, outside_regions=outside is not None)


def _with_fresh_meta(clean: Dataset) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(clean.SOPClassUID)
    meta.MediaStorageSOPInstanceUID = UID(clean.SOPInstanceUID)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    return FileDataset("", clean, preamble=b"\0" * 128, file_meta=meta, is_implicit_VR=False, is_little_endian=True)
