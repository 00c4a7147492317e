"""The words every track shares, and the error a person or a policy meets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "COLUMNS",
    "DELIVERIES",
    "LEVELS",
    "POLARITIES",
    "POLARITY_CHOICE",
    "ROWS",
    "Array",
    "Measured",
    "Output",
    "SkillError",
]

Array = npt.NDArray[np.float64]
"""One greyscale image, [rows, columns], nominally in [0, 1]."""

Output: TypeAlias = Any
"""What a pipeline makes of one case before delivery; its type is the track's, see the track's `Form`."""

ROWS, COLUMNS = 64, 48
"""Size of every case in pixels; not square, so that exchanged axes show."""

LEVELS = ("1", "2", "3")
POLARITIES = ("normal", "inverted")
POLARITY_CHOICE = {"normal": "keep", "inverted": "invert"}
DELIVERIES = ("keep", "flip", "turn")


@dataclass(frozen=True)
class Measured:
    """What the estimators found.

    Args:
        kind: the dominant artefact, lesion or class property; empty when nothing stands out.
        level: its strength or size class, one of `LEVELS`; empty when nothing stands out.
    """

    kind: str
    level: str


class SkillError(Exception):
    """A command cannot do its work; the text is the one line to print.

    Args:
        line: what is wrong, in a few words.
        status: exit status, 1 when the work failed and 2 when the command was misused.
    """

    def __init__(self, line: str, *, status: int = 1) -> None:
        self.line = line
        self.status = status
        super().__init__(line)
