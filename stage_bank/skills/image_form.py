"""Outputs that are images: float32 .npy files."""

from __future__ import annotations

import io
import re

import numpy as np
import numpy.typing as npt

from .delivery import LARGEST, ORIENTATIONS, Form, restore_image, same_shape, turn_image

__all__ = ["decode_image", "encode_image", "image_form"]

NPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)\{'descr': '<f4', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<rows>[1-9]\d{0,4}), (?P<columns>[1-9]\d{0,4})\), \} *\n",
    re.DOTALL,
)
"""How `numpy.save` begins a two-dimensional float32 file. NumPy's own reader evaluates the header as Python and can be
made to exhaust memory or the stack."""


def image_form(file_name: str) -> Form:
    """The form of an image that is written to a file of that name."""
    return Form(
        file_name=file_name,
        encode=encode_image,
        decode=decode_image,
        field="PatientOrientation",
        stated=ORIENTATIONS,
        turn=turn_image,
        restore=restore_image,
        fits=same_shape,
    )


def encode_image(image: npt.ArrayLike) -> bytes:
    """An image [rows, columns] as a .npy file of float32."""
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(image, dtype=np.float32), allow_pickle=False)
    return stream.getvalue()


def decode_image(data: bytes) -> npt.NDArray[np.float32]:
    """Read a .npy file that may be hostile.

    Raises:
        ValueError: not a two-dimensional float32 image, damaged, oversized or not finite.
    """
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
