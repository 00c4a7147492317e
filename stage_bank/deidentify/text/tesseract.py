"""The library Tesseract (through `tesserocr`), which reads text in pictures, several at once."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

if TYPE_CHECKING:
    from tesserocr import PyTessBaseAPI

__all__ = ["Tesseract", "Word"]

LANGUAGE = "eng"
MODEL = f"{LANGUAGE}.traineddata"
MODEL_FOLDERS = ("/usr/share/tesseract-ocr/*/tessdata", "/usr/share/tessdata", "/usr/local/share/tessdata")
"""Where systems put the language model; `TESSDATA_PREFIX` names another folder."""

SECONDS_PER_PAGE = 30.0
READERS = 2
"""Pages read at once."""

REMEMBERED = 256
"""Pages whose words are kept in memory: copies of one picture in several files or encodings are read once."""

RESOLUTION = 70
"""Dots per inch that pages without a stated resolution are taken to have, as by the program of that name."""


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


_Read = tuple[str, float, tuple[int, int, int, int]]


class Tesseract:
    """Reads pages with one language model, loaded once for every reader.

    Args:
        models: folder of the language model.
    """

    def __init__(self, models: Path) -> None:
        self._models = models
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(READERS, "read-text")
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[_Read, ...]] = OrderedDict()

    @classmethod
    def find(cls) -> Tesseract | None:
        """The reader of this process, or `None` when there is no language model on this machine."""
        folder = _model_folder(os.environ.get("TESSDATA_PREFIX"))
        return None if folder is None else _reader(folder)

    def words(self, pages: Sequence[NDArray[np.uint8]]) -> Iterator[Word]:
        """Text on grey pictures `[rows, columns]`, page by page; reading begins at once, before the first is asked for.

        Raises:
            Refused: (from the iterator) the search fails, or a page takes longer than half a minute.
        """
        return _numbered(self._pool.map(self._page, pages))

    def _page(self, page: NDArray[np.uint8]) -> tuple[_Read, ...]:
        pixels = np.ascontiguousarray(page)
        key = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = tuple(self._read(pixels))
        with self._lock:
            self._known[key] = found
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _read(self, pixels: NDArray[np.uint8]) -> Iterator[_Read]:
        if pixels.size == 0 or pixels.min() == pixels.max():
            return
        from tesserocr import RIL, iterate_level

        api, (rows, columns) = self._api(), pixels.shape
        api.SetImageBytes(pixels.tobytes(), columns, rows, 1, columns)
        api.SetSourceResolution(RESOLUTION)
        try:
            if not api.Recognize(int(1000 * SECONDS_PER_PAGE)):
                raise RuntimeError("out of time")
            found = api.GetIterator()
            for word in iterate_level(found, RIL.WORD) if found is not None else ():
                if word.Empty(RIL.WORD):
                    continue
                text, confidence = word.GetUTF8Text(RIL.WORD).strip(), float(word.Confidence(RIL.WORD))
                left, top, right, bottom = word.BoundingBox(RIL.WORD)
                if text:
                    yield text, confidence, (left, top, right - left, bottom - top)
        finally:
            api.Clear()

    def _api(self) -> PyTessBaseAPI:
        """The reader of this thread."""
        if not hasattr(self._own, "api"):
            from tesserocr import PSM, PyTessBaseAPI

            self._own.api = PyTessBaseAPI(path=str(self._models), lang=LANGUAGE, psm=PSM.SPARSE_TEXT)
        return self._own.api


def _numbered(pages: Iterable[tuple[_Read, ...]]) -> Iterator[Word]:
    try:
        for number, found in enumerate(pages):
            yield from (Word(number, *read) for read in found)
    except (RuntimeError, OSError, ValueError) as error:
        raise Refused(Reason.TEXT_SEARCH_FAILED) from error


def _model_folder(named: str | None) -> Path | None:
    patterns = (named,) if named else MODEL_FOLDERS
    folders = sorted((Path(folder) for pattern in patterns for folder in glob(pattern)), reverse=True)
    return next((folder for folder in folders if (folder / MODEL).is_file()), None)


@cache
def _reader(folder: Path) -> Tesseract:
    return Tesseract(folder)
