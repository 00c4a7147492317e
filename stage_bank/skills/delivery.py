"""The delivered form of an output: the file it is written to, and the orientation or scheme that a header asks for.

File names and formats are those of AutoMedBench.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._words import DELIVERIES, Output, SkillError

__all__ = ["LARGEST", "ORIENTATIONS", "Form", "restore_image", "same_shape", "turn_image"]

LARGEST = 1 << 20
"""Most bytes an output may have when decompressed."""

ORIENTATIONS = {"keep": ("L", "F"), "flip": ("R", "F"), "turn": ("H", "L")}
"""Delivery to the PatientOrientation (of rows, of columns) of a stored image that needs it to become L, F."""


@dataclass(frozen=True)
class Form:
    """How the outputs of a track are written and delivered.

    Args:
        file_name: file of a case's output.
        encode: an output to the bytes of its file; equal outputs give equal bytes.
        decode: the bytes of a file that may be hostile to an output; raises `ValueError`, and nothing else, for what is
            damaged, oversized, not finite or of another type.
        field: header field that says which delivery is asked for.
        stated: delivery to the value of that field.
        turn: (output, delivery) to the output as delivered.
        restore: undoes `turn`; raises `ValueError` where nothing that was turned looks so.
        fits: (output, shape of the case) to whether the one can belong to the other.
    """

    file_name: str
    encode: Callable[[Output], bytes]
    decode: Callable[[bytes], Output]
    field: str
    stated: Mapping[str, tuple[Any, ...]]
    turn: Callable[[Output, str], Output]
    restore: Callable[[Output, str], Output]
    fits: Callable[[Output, tuple[int, ...]], bool]

    def requested(self, header: Mapping[str, Any]) -> str:
        """The delivery a header asks for.

        Raises:
            SkillError: it asks for none that is known.
        """
        stated = header.get(self.field)
        for delivery in DELIVERIES:
            if isinstance(stated, list) and tuple(stated) == self.stated[delivery]:
                return delivery
        raise SkillError("header without delivery")


def turn_image(image: Output, delivery: str) -> Output:
    """Bring an image or mask [rows, columns] into the delivered orientation.

    Args:
        image: image or mask.
        delivery: `keep`; `flip` (left-right); `turn` (a quarter counter-clockwise).
    """
    if delivery == "flip":
        return np.fliplr(image)
    return np.rot90(image) if delivery == "turn" else image


def restore_image(image: Output, delivery: str) -> Output:
    """Undo `turn_image`."""
    if delivery == "flip":
        return np.fliplr(image)
    return np.rot90(image, -1) if delivery == "turn" else image


def same_shape(image: Output, shape: tuple[int, ...]) -> bool:
    """Whether an image or mask has the shape of its case."""
    return bool(image.shape == shape)
