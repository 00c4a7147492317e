"""Read a case: `image.npy`, `header.json` with DICOM names, and whatever else the track lays beside them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._words import Array, SkillError

__all__ = ["SPARE", "Case", "display", "parse_case", "polarity_of", "read_case", "read_pixels"]

SPARE = "spare.npy"
"""A second copy of the pixels, laid beside an image that did not arrive whole."""


@dataclass(frozen=True)
class Case:
    """One case as stored, or as a pipeline sees it once it is mended and displayed.

    Args:
        name: folder name.
        pixels: two dimensions; no pixels at all where `image.npy` cannot be read but there is a spare copy.
        header: public header fields.
        extra: the other files of the folder by name, such as a question.
    """

    name: str
    pixels: Array
    header: Mapping[str, Any]
    extra: Mapping[str, bytes] = field(default_factory=dict)


def read_case(folder: Path) -> Case:
    """Read the files of a case.

    Raises:
        SkillError: a file is missing, damaged or not a two-dimensional image.
    """
    try:
        return parse_case(folder.name, {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})
    except OSError as error:
        raise SkillError(f"case {folder.name} unreadable") from error


def parse_case(name: str, files: Mapping[str, bytes]) -> Case:
    """A case from the files of its folder, file name to content.

    Raises:
        SkillError: a file is missing, damaged or not a two-dimensional image.
    """
    extra = {file: content for file, content in files.items() if file not in ("header.json", "image.npy")}
    try:
        header = json.loads(files["header.json"])
        int(header["Rows"]), int(header["Columns"]), float(header["RescaleSlope"])
        try:
            pixels = read_pixels(files["image.npy"])
        except (ValueError, EOFError):
            read_pixels(extra[SPARE])
            pixels = np.zeros((0, 0))
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise SkillError(f"case {name} unreadable") from error
    return Case(name=name, pixels=pixels, header=header, extra=extra)


def read_pixels(data: bytes) -> Array:
    """Read a .npy file of a case.

    Raises:
        ValueError: not a two-dimensional image of numbers, or cut short.
    """
    pixels = np.load(io.BytesIO(data), allow_pickle=False)
    if pixels.ndim != 2 or pixels.dtype.kind not in "fiu":
        raise ValueError("not an image")
    return np.asarray(pixels, dtype=np.float64)


def display(pixels: Array, polarity: str) -> Array:
    """Pixels with bright meaning bright: `keep` leaves them, `invert` gives 1 - pixels."""
    return 1.0 - pixels if polarity == "invert" else pixels


def polarity_of(header: Mapping[str, Any]) -> str:
    """`inverted` for MONOCHROME1, else `normal` (DICOM PS3.3 C.7.6.3.1.2)."""
    return "inverted" if header.get("PhotometricInterpretation") == "MONOCHROME1" else "normal"
