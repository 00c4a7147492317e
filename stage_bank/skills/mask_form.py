"""Outputs that are masks: gzipped NIfTI-1 maps of unsigned bytes."""

from __future__ import annotations

import gzip
import struct
import zlib

import numpy as np
import numpy.typing as npt

from .delivery import LARGEST, ORIENTATIONS, Form, restore_image, same_shape, turn_image

__all__ = ["decode_mask", "encode_mask", "mask_form"]


def mask_form(file_name: str) -> Form:
    """The form of a binary mask that is written to a file of that name."""
    return Form(
        file_name=file_name,
        encode=encode_mask,
        decode=decode_mask,
        field="PatientOrientation",
        stated=ORIENTATIONS,
        turn=turn_image,
        restore=restore_image,
        fits=same_shape,
    )


def encode_mask(mask: npt.NDArray[np.bool_]) -> bytes:
    """A mask [rows, columns] as a gzipped single-file NIfTI-1 image of unsigned bytes, voxels of 1 mm."""
    return gzip.compress(_nifti(mask), compresslevel=6, mtime=0)


def _nifti(mask: npt.NDArray[np.bool_]) -> bytes:
    """The header and the voxels, first axis fastest."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 2, mask.shape[0], mask.shape[1], 1, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, 2, 8)
    struct.pack_into("<8f", header, 76, *[1.0] * 8)
    struct.pack_into("<3f", header, 108, 352.0, 1.0, 0.0)
    header[344:348] = b"n+1\0"
    return bytes(header) + np.asarray(mask, dtype=np.uint8).tobytes(order="F")


def decode_mask(data: bytes) -> npt.NDArray[np.bool_]:
    """Read a gzipped NIfTI-1 map that may be hostile.

    Raises:
        ValueError: not gzip, not such a map, not binary, damaged or oversized.
    """
    try:
        raw = zlib.decompressobj(wbits=31).decompress(data, LARGEST)
    except zlib.error as error:
        raise ValueError("not gzip") from error
    if len(raw) < 352 or raw[344:348] != b"n+1\0":
        raise ValueError("not NIfTI-1")
    dimensions = struct.unpack_from("<8h", raw, 40)
    offset = struct.unpack_from("<f", raw, 108)[0]
    rows, columns = dimensions[1:3]
    if struct.unpack_from("<h", raw, 70)[0] != 2 or offset != 352.0 or rows * columns != len(raw) - 352 or rows < 1:
        raise ValueError("not a two-dimensional map of unsigned bytes")
    mask = np.frombuffer(raw[352:], dtype=np.uint8).reshape((rows, columns), order="F")
    if mask.max() > 1:
        raise ValueError("map is not binary")
    return mask.astype(bool)
