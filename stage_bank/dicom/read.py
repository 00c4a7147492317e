"""Open one file as DICOM, with or without the Part 10 preamble, or say why not."""

from __future__ import annotations

import zlib
from io import BytesIO
from pathlib import Path

import pydicom
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset, FileDataset
from pydicom.filereader import read_dataset as read_elements
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.reasons import Reason

__all__ = ["LARGE", "Refused", "pixels_on_disk", "read_dataset"]

LARGE = 64 << 20
"""Bytes of a file from which on its frames are read from disk one at a time."""

MAX_INFLATED = 512 << 20
"""Bytes; the parser unpacks files of the deflated transfer syntax whole, and 1 MB may hold 1 GB."""

_META_BYTES = 1 << 16
_BLOCK = 1 << 20

_PIXEL_DATA = 0x7FE00010

_LEADING_GROUPS = (b"\x08\x00", b"\x02\x00", b"\x00\x08")
"""A data set without preamble starts in group 0008 (little or big endian) or 0002."""


class Refused(Exception):
    """This file is left out; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason.value)


@quiet()
def read_dataset(path: Path) -> FileDataset:
    """Parse the whole file. Of files above `LARGE` bytes, pixel data stay on disk until they are asked for.

    Raises:
        Refused: not DICOM, damaged, or not readable.
    """
    try:
        large = path.stat().st_size > LARGE
        data = _start(path) if large else path.read_bytes()
    except OSError as error:
        raise Refused(Reason.UNREADABLE) from error
    if not data:
        raise Refused(Reason.EMPTY_FILE)
    has_preamble = data[128:132] == b"DICM"
    if not has_preamble and data[:2] not in _LEADING_GROUPS:
        raise Refused(Reason.NOT_DICOM)
    try:
        if _inflates_beyond(path, MAX_INFLATED):
            raise Refused(Reason.INFLATED)
        if large:
            dataset = pydicom.dcmread(path, force=not has_preamble, defer_size=LARGE // 4)
        else:
            dataset = pydicom.dcmread(BytesIO(data), force=not has_preamble)
        _check_walkable(dataset)
    except Refused:
        raise
    except EOFError as error:
        raise Refused(Reason.TRUNCATED) from error
    except Exception as error:  # the parser raises many types on hostile input; all mean the same to the site
        raise Refused(Reason.DAMAGED if has_preamble else Reason.NOT_DICOM) from error
    if len(dataset) == 0:  # what the parser leaves of a compressed file whose end is missing
        raise Refused(Reason.TRUNCATED)
    if not has_preamble:
        if "SOPClassUID" not in dataset:
            raise Refused(Reason.NOT_DICOM)
        _name_the_encoding(dataset)
    return dataset


def pixels_on_disk(dataset: Dataset) -> tuple[Path, int, int] | None:
    """File, offset and length of pixel data that were not read yet; `None` when they were."""
    if not isinstance(dataset, FileDataset) or "PixelData" not in dataset:
        return None
    element = dataset.get_item("PixelData", keep_deferred=True)
    if not isinstance(element, RawDataElement) or element.value is not None or not dataset.filename:
        return None
    return Path(str(dataset.filename)), element.value_tell, element.length


def _inflates_beyond(path: Path, limit: int) -> bool:
    """Whether a file of the deflated transfer syntax unpacks to more than `limit` bytes; nothing unpacked is kept."""
    with path.open("rb") as stream:
        start = stream.read(_META_BYTES)
        if DeflatedExplicitVRLittleEndian.encode() not in start:
            return False
        stream.seek(132 if start[128:132] == b"DICM" else 0)
        meta = read_elements(stream, False, True, stop_when=lambda tag, _vr, _length: tag.group != 2)
        if meta.get("TransferSyntaxUID") != DeflatedExplicitVRLittleEndian:
            return False
        inflater, unpacked = zlib.decompressobj(-zlib.MAX_WBITS), 0
        data = stream.read(_BLOCK)
        while data and unpacked <= limit:
            unpacked += len(inflater.decompress(data, _BLOCK))
            data = inflater.unconsumed_tail or stream.read(_BLOCK)
    return unpacked > limit


def _start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(132)


def _check_walkable(dataset: FileDataset) -> None:
    """Read every element's value once, so that damage shows here and not in the middle of later work."""
    waiting = pixels_on_disk(dataset) is not None
    for part in (dataset.file_meta, dataset):
        for tag in list(part.keys()):
            if waiting and tag == _PIXEL_DATA:
                continue
            element = part[tag]
            if element.VR == "SQ":
                for item in element.value:
                    for inner in item.iterall():
                        _ = inner.value


def _name_the_encoding(dataset: FileDataset) -> None:
    if "TransferSyntaxUID" in dataset.file_meta:
        return
    implicit, little = dataset.original_encoding
    if implicit:
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
    else:
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian if little else ExplicitVRBigEndian
