"""The system program `tesseract`, which reads text in pictures."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stage_bank.ingest.read import Refused
from stage_bank.ingest.report import Reason

__all__ = ["Tesseract", "Word"]

SECONDS_PER_PAGE = 30
_SPARSE = "11"
"""Page segmentation mode: find as much text as possible in no particular order."""
_COLUMNS = 12
_ENVIRONMENT = {"OMP_THREAD_LIMIT": "1", "LC_ALL": "C.UTF-8"}
_PASSED_ON = ("TESSDATA_PREFIX", "LD_LIBRARY_PATH")
"""Where the program's models and libraries may be named; nothing else is passed on."""
_WORD_LEVEL = "5"


@dataclass(frozen=True)
class Word:
    """One piece of text.

    Args:
        page: index of the picture.
        text: what is read.
        confidence: 0 to 100.
        box: left, top, width, height in pixels.
    """

    page: int
    text: str
    confidence: float
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class Tesseract:
    """Runs the program, without a shell, one process a call.

    Args:
        program: absolute path.
    """

    program: str

    @classmethod
    def find(cls) -> Tesseract | None:
        """The installed program, or `None`."""
        program = shutil.which("tesseract")
        return cls(os.path.abspath(program)) if program else None

    def words(self, pages: Sequence[NDArray[np.uint8]]) -> list[Word]:
        """Text on grey pictures `[rows, columns]`.

        Raises:
            Refused: the program fails, says something unexpected or takes longer than half a minute a page.
        """
        stream = io.BytesIO()
        first, *others = [Image.fromarray(page) for page in pages]
        first.save(stream, "TIFF", save_all=True, append_images=others)
        try:
            run = subprocess.run(
                [self.program, "stdin", "stdout", "--psm", _SPARSE, "-l", "eng", "tsv"],
                input=stream.getvalue(),
                capture_output=True,
                env=_ENVIRONMENT | {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                timeout=SECONDS_PER_PAGE * len(pages),
                check=True,
            )
            lines = run.stdout.decode("utf-8", "replace").splitlines()[1:]
            rows = [line.split("\t") for line in lines]
            return [_word(row) for row in rows if len(row) == _COLUMNS and row[0] == _WORD_LEVEL and row[11].strip()]
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise Refused(Reason.TEXT_SEARCH_FAILED) from error


def _word(row: Sequence[str]) -> Word:
    left, top, width, height = (int(value) for value in row[6:10])
    return Word(int(row[1]) - 1, row[11].strip(), float(row[10]), (left, top, width, height))
