"""Stored pixel values of chosen frames, whatever the compression, without the bits and bytes around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydicom.dataset import Dataset
from pydicom.pixels.decoders.base import get_decoder
from pydicom.pixels.processing import apply_color_lut
from pydicom.pixels.utils import get_expected_length
from pydicom.uid import UID

from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused, pixels_on_disk
from stage_bank.dicom.reasons import Reason

__all__ = ["MAX_FRAME_PIXELS", "Decoded", "decode_frames", "frame_count"]

MAX_FRAME_PIXELS = 64 << 20
"""Larger frames are refused unread: a header alone must not decide how much memory is used."""

MAX_FRAMES = 65_536
"""More are refused: every frame's place is looked up before any pixel is read."""

MAX_COMPRESSED = 384 << 20
"""Bytes; larger compressed files are refused, as their frames cannot be found without reading all of it."""

_VIDEO_FAMILIES = ("MPEG", "HEVC")


@dataclass(frozen=True)
class Decoded:
    """Frames as stored values.

    Args:
        frames: integer array `[frames, rows, columns]`, or `[frames, rows, columns, 3]` for RGB.
        photometric: MONOCHROME1, MONOCHROME2 or RGB.
        bits_stored: bits a sample holds.
    """

    frames: np.ndarray
    photometric: str
    bits_stored: int


def frame_count(dataset: Dataset) -> int:
    """Number of frames the header promises, at least 1.

    Raises:
        Refused: not one number, or more than `MAX_FRAMES`.
    """
    try:
        count = max(1, int(dataset.get("NumberOfFrames") or 1))
    except (TypeError, ValueError) as error:
        raise Refused(Reason.DAMAGED) from error
    if count > MAX_FRAMES:
        raise Refused(Reason.TOO_MANY_FRAMES)
    return count


@quiet()
def decode_frames(dataset: Dataset, indices: Sequence[int]) -> Decoded:
    """Decode the chosen frames; colour of any kind becomes RGB, and unused high bits (old overlays) are gone.

    Raises:
        Refused: no pixel data, video, floating point, too large, truncated or damaged.
    """
    syntax = UID(str(dataset.file_meta.get("TransferSyntaxUID", ""))) if hasattr(dataset, "file_meta") else UID("")
    _check(dataset, syntax)
    try:
        decoder = get_decoder(syntax)
        if pixels_on_disk(dataset) is not None and not syntax.is_encapsulated and int(dataset.BitsAllocated) >= 8:
            pairs = [decoder.as_array(_frame_from_disk(dataset, index), index=0) for index in indices]
        else:
            pairs = [decoder.as_array(dataset, index=index) for index in indices]
        frames = np.stack([array for array, _ in pairs])
        photometric = str(pairs[0][1]["photometric_interpretation"])
        bits = int(dataset.BitsStored)
        if photometric == "PALETTE COLOR":
            frames = np.stack([apply_color_lut(frame, dataset) for frame in frames])
            photometric, bits = "RGB", frames.dtype.itemsize * 8
    except Exception as error:  # decoders raise many types on hostile input; all mean the same to the site
        raise Refused(Reason.UNDECODABLE) from error
    if photometric not in ("MONOCHROME1", "MONOCHROME2", "RGB") or frames.dtype.kind not in "iu":
        raise Refused(Reason.UNDECODABLE)
    return Decoded(frames.astype(frames.dtype.newbyteorder("<")), photometric, bits)


def _frame_from_disk(dataset: Dataset, index: int) -> Dataset:
    """A data set of the one frame, read from the file."""
    place = pixels_on_disk(dataset)
    assert place is not None
    file, offset, _ = place
    single = dataset.group_dataset(0x0028)
    single.file_meta = dataset.file_meta
    single.NumberOfFrames = 1
    length = get_expected_length(single)
    with file.open("rb") as stream:
        stream.seek(offset + index * length)
        single.add_new("PixelData", "OB" if dataset.BitsAllocated == 8 else "OW", stream.read(length))
    return single


def _check(dataset: Dataset, syntax: UID) -> None:
    if "PixelData" not in dataset:
        floating = "FloatPixelData" in dataset or "DoubleFloatPixelData" in dataset
        raise Refused(Reason.FLOAT_PIXELS if floating else Reason.NO_PIXELS)
    if any(family in syntax.name for family in _VIDEO_FAMILIES):
        raise Refused(Reason.VIDEO)
    try:
        pixels = int(dataset.Rows) * int(dataset.Columns)
        bits = int(dataset.BitsAllocated) * int(dataset.SamplesPerPixel) * pixels * frame_count(dataset)
        odd_bits = int(dataset.HighBit) != int(dataset.BitsStored) - 1
    except (AttributeError, TypeError, ValueError) as error:
        raise Refused(Reason.DAMAGED) from error
    if pixels <= 0 or odd_bits:
        raise Refused(Reason.UNDECODABLE)
    if pixels > MAX_FRAME_PIXELS:
        raise Refused(Reason.TOO_LARGE)
    if dataset.get("PhotometricInterpretation") == "YBR_FULL_422":
        bits = bits * 2 // 3
    on_disk = pixels_on_disk(dataset)
    if on_disk is not None:
        file, offset, length = on_disk
        if syntax.is_encapsulated and file.stat().st_size > MAX_COMPRESSED:
            raise Refused(Reason.TOO_LARGE)
        length = min(length, file.stat().st_size - offset)
    else:
        length = len(dataset.PixelData)
    if syntax and not syntax.is_encapsulated and length * 8 < bits:
        raise Refused(Reason.TRUNCATED)
