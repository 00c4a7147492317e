"""Pixels decoded, blanked where asked, and written again without the bytes around them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.pixels.utils import pack_bits

from stage_bank.dicom.decode import Decoded

__all__ = ["blank", "write_pixels"]


def blank(decoded: Decoded, mask: NDArray[np.bool_]) -> Decoded:
    """The frames with the masked pixels black.

    Args:
        decoded: frames `[frames, rows, columns]` or `[frames, rows, columns, 3]`.
        mask: `[rows, columns]` for all frames, or `[frames, rows, columns]`.
    """
    if not mask.any():
        return decoded
    frames = decoded.frames.copy()
    black = frames.max() if decoded.photometric == "MONOCHROME1" else frames.min() if frames.ndim == 3 else 0
    frames[np.broadcast_to(mask, frames.shape[:3])] = black
    return Decoded(frames, decoded.photometric, decoded.bits_stored)


def write_pixels(clean: Dataset, decoded: Decoded, *, packed: bool) -> None:
    """Set the image pixel module, native; one bit a pixel when `packed`."""
    frames = decoded.frames
    allocated = 1 if packed else frames.dtype.itemsize * 8
    clean.SamplesPerPixel = 3 if frames.ndim == 4 else 1
    clean.PhotometricInterpretation = decoded.photometric
    if frames.ndim == 4:
        clean.PlanarConfiguration = 0
    if len(frames) > 1 or "SharedFunctionalGroupsSequence" in clean:
        clean.NumberOfFrames = len(frames)
    clean.Rows, clean.Columns = frames.shape[1:3]
    clean.BitsAllocated = allocated
    clean.BitsStored = decoded.bits_stored if decoded.bits_stored > 1 else allocated
    clean.HighBit = clean.BitsStored - 1
    clean.PixelRepresentation = int(frames.dtype.kind == "i")
    data = pack_bits(frames.ravel(), pad=False) if packed else np.ascontiguousarray(frames).tobytes()
    clean.add_new("PixelData", "OB" if allocated <= 8 else "OW", data + b"\0" * (len(data) % 2))
