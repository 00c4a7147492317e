"""The delivered form: orientation of an image or map, scheme of a label, and the files they are written to.

File names and formats are those of AutoMedBench: `enhanced.npy` (float32), `lesion.nii.gz` (binary, uint8),
`label.json`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ._words import DELIVERIES, SkillError

__all__ = ["FILE_NAMES", "LABEL_SCHEMES", "ORIENTATIONS", "Output", "decode", "encode", "requested", "restore", "turn"]

FILE_NAMES = {"enhancement": "enhanced.npy", "segmentation": "lesion.nii.gz", "classification": "label.json"}
"""Track to the output file of a case."""

ORIENTATIONS = {"keep": ("L", "F"), "flip": ("R", "F"), "turn": ("H", "L")}
"""Delivery to the PatientOrientation (of rows, of columns) of a stored image that needs it to become L, F."""

LABEL_SCHEMES = {"keep": (0, 1), "flip": (1, 0), "turn": (1, 2)}
"""Delivery to the labels that stand for class 0 and class 1."""

LARGEST = 1 << 20
"""Most bytes an output may have when decompressed."""

NPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)\{'descr': '<f4', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<rows>[1-9]\d{0,4}), (?P<columns>[1-9]\d{0,4})\), \} *\n",
    re.DOTALL,
)
"""How `numpy.save` begins a two-dimensional float32 file. NumPy's own reader evaluates the header as Python and can be
made to exhaust memory or the stack."""

Output = npt.NDArray[Any]
"""float32 image, bool mask, or an integer label without dimensions."""


def requested(header: Mapping[str, Any]) -> str:
    """The delivery a header asks for.

    Raises:
        SkillError: it asks for none that is known.
    """
    field, table = ("LabelScheme", LABEL_SCHEMES) if "LabelScheme" in header else ("PatientOrientation", ORIENTATIONS)
    stated = header.get(field)
    for delivery in DELIVERIES:
        if isinstance(stated, list) and tuple(stated) == tuple(table[delivery]):
            return delivery
    raise SkillError("header without delivery")


def turn(output: Output, delivery: str) -> Output:
    """Bring an output into the delivered form.

    Args:
        output: image or mask [rows, columns], or a class 0 or 1.
        delivery: `keep`; `flip` (left-right, or labels swapped); `turn` (a quarter counter-clockwise, or labels 1, 2).
    """
    if output.ndim == 0:
        return np.array(LABEL_SCHEMES[delivery][int(output)])
    if delivery == "flip":
        return np.fliplr(output)
    return np.rot90(output) if delivery == "turn" else output


def restore(output: Output, delivery: str) -> Output:
    """Undo `turn`.

    Raises:
        ValueError: a label outside the scheme.
    """
    if output.ndim == 0:
        return np.array(LABEL_SCHEMES[delivery].index(int(output)))
    if delivery == "flip":
        return np.fliplr(output)
    return np.rot90(output, -1) if delivery == "turn" else output


def encode(track: str, output: Output) -> bytes:
    """The bytes of a track's output file; equal outputs give equal bytes."""
    if track == "classification":
        return json.dumps({"label": int(output)}).encode()
    if track == "segmentation":
        return gzip.compress(_nifti(output), compresslevel=6, mtime=0)
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(output, dtype=np.float32), allow_pickle=False)
    return stream.getvalue()


def decode(track: str, data: bytes) -> Output:
    """Read an output file that may be hostile.

    Returns:
        float32 image, bool mask, or integer label.

    Raises:
        ValueError: damaged, oversized, not finite or of another type.
    """
    if track == "classification":
        return _decode_label(data)
    if track == "segmentation":
        return _decode_mask(data)
    return _decode_image(data)


def _decode_label(data: bytes) -> Output:
    try:
        fields = json.loads(data[:4096])
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    label = fields.get("label") if isinstance(fields, dict) else None
    if type(label) is not int or not 0 <= label <= 9:
        raise ValueError("no label from 0 to 9")
    return np.array(label)


def _decode_image(data: bytes) -> Output:
    head = NPY_HEAD.match(data[:256])
    if head is None:
        raise ValueError("not a two-dimensional float32 image")
    rows, columns = int(head["rows"]), int(head["columns"])
    body = data[10 + int.from_bytes(head["length"], "little") :]
    if len(body) != 4 * rows * columns or len(data) > LARGEST:
        raise ValueError("size and header of the image differ")
    image = np.frombuffer(body, dtype="<f4").reshape((rows, columns), order="F" if head["fortran"] == b"True" else "C")
    if not np.isfinite(image).all():
        raise ValueError("image is not finite")
    return image


def _nifti(mask: Output) -> bytes:
    """A single-file NIfTI-1 image of unsigned bytes, voxels of 1 mm, first axis fastest."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 2, mask.shape[0], mask.shape[1], 1, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, 2, 8)
    struct.pack_into("<8f", header, 76, *[1.0] * 8)
    struct.pack_into("<3f", header, 108, 352.0, 1.0, 0.0)
    header[344:348] = b"n+1\0"
    return bytes(header) + np.asarray(mask, dtype=np.uint8).tobytes(order="F")


def _decode_mask(data: bytes) -> Output:
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
