"""Find text on every frame, blank it on all of them, and look again.

A word is blanked when it is read with some confidence, or when it resembles a word of the header however badly it is
read. Afterwards the frames are searched again; what still shows a header's word, or is mostly text, is refused.
Not found is what tesseract's Latin model cannot read: other scripts in part, handwriting, text below about 8 pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import Dataset

from stage_bank.deidentify.allowlists import TextRisk
from stage_bank.deidentify.pixels import blank
from stage_bank.deidentify.text.needles import Needles
from stage_bank.deidentify.text.tesseract import Tesseract, Word
from stage_bank.ingest.decode import Decoded
from stage_bank.ingest.read import Refused
from stage_bank.ingest.report import Reason

__all__ = ["TextCheck", "clean_text", "needs_search"]

_PASSES = 4
_LARGEST_SHARE = 0.4
"""A picture with more text than this is a page, not an image."""
_SMALL, _LARGE = 500, 1200
_PLAIN_MODALITIES = frozenset({"CR", "CT", "DX", "IO", "MG", "MR", "NM", "PT", "PX"})
_CAPTURES = ("SCREEN", "CAPTURE", "REPORT", "DOSE", "SECONDARY")


class TextCheck(StrEnum):
    """Which images are searched for text."""

    LIKELY = "likely"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True)
class _Threshold:
    """How sure tesseract must be of a word.

    Args:
        letters: least number of letters and digits.
        confidence: 0 to 100.
    """

    letters: int
    confidence: float


_EAGER = (_Threshold(2, 25.0), _Threshold(1, 70.0))
"""Where text is expected: a blank too many costs little."""
_WARY = (_Threshold(3, 60.0),)
"""Where none is expected: anatomy read as letters must stay."""
_CERTAIN = (_Threshold(4, 80.0),)
"""What must not be left after the last pass."""


def needs_search(dataset: Dataset, risk: TextRisk) -> bool:
    """Whether pixels may show text: by SOP class, modality, declaration, colour, or being a capture of a screen."""
    if risk is not TextRisk.UNLIKELY:
        return risk is TextRisk.LIKELY
    kinds = str(dataset.get("ImageType") or "").upper()
    return (
        dataset.get("Modality") not in _PLAIN_MODALITIES
        or dataset.get("BurnedInAnnotation") not in (None, "", "NO")
        or dataset.get("SamplesPerPixel") != 1
        or dataset.get("PhotometricInterpretation") not in ("MONOCHROME1", "MONOCHROME2")
        or any(word in kinds for word in _CAPTURES[:4])
        or "ConversionType" in dataset
    )


def clean_text(decoded: Decoded, needles: Needles, program: Tesseract, *, expected: bool) -> tuple[Decoded, float]:
    """Blank the text on all frames.

    Args:
        decoded: frames as stored.
        needles: the header's words.
        program: the reader.
        expected: whether the family's pixels usually show text.

    Returns:
        The frames, and the blanked share of the picture.

    Raises:
        Refused: the picture is mostly text, text is still readable after blanking, or the search failed.
    """
    thresholds = _EAGER if expected else _WARY
    found = np.zeros(decoded.frames.shape[1:3], dtype=bool)
    for _ in range(_PASSES):
        words = list(_read(blank(decoded, found), program))
        shown = [word for word in words if needles.match(word.text) or _sure(word, thresholds)]
        if not shown:
            break
        before = int(found.sum())
        for word in shown:
            _cover(found, word)
        if found.mean() > _LARGEST_SHARE:
            raise Refused(Reason.TEXT)
        if int(found.sum()) == before:
            break
    else:
        words = list(_read(blank(decoded, found), program))
    if any(needles.match(word.text) or _sure(word, _CERTAIN) for word in words):
        raise Refused(Reason.TEXT)
    return blank(decoded, found), float(found.mean())


def _read(decoded: Decoded, program: Tesseract) -> Iterable[Word]:
    """Words of all frames, boxes in frame pixels; equal frames are read once."""
    seen = set()
    for frame in decoded.frames:
        digest = hashlib.sha256(frame.tobytes()).digest()
        if digest in seen:
            continue
        seen.add(digest)
        grey = _grey(frame)
        if grey is None:
            continue
        scale = 3 if max(grey.shape) < _SMALL else 2 if max(grey.shape) < _LARGE else 1
        size = (grey.shape[1] * scale, grey.shape[0] * scale)
        enlarged = np.asarray(Image.fromarray(grey).resize(size, Image.Resampling.BICUBIC))
        bright = np.where(enlarged >= 150, 0, 255).astype(np.uint8)
        for word in program.words([enlarged, bright]):
            left, top, width, height = (round(value / scale) for value in word.box)
            yield Word(word.page, word.text, word.confidence, (left, top, width, height))


def _grey(frame: np.ndarray) -> NDArray[np.uint8] | None:
    """Eight bits over the frame's whole range, brightest colour channel; `None` for a flat frame."""
    values = frame.astype(np.float32)
    values = values.max(axis=-1) if values.ndim == 3 else values
    low, high = (float(value) for value in np.percentile(values, (0.1, 99.9)))
    if not high > low:
        low, high = float(values.min()), float(values.max())
    if not high > low:
        return None
    return np.asarray((values - low) * (255.0 / (high - low))).clip(0, 255).astype(np.uint8)


def _sure(word: Word, thresholds: tuple[_Threshold, ...]) -> bool:
    letters = sum(character.isalnum() for character in word.text)
    return any(letters >= limit.letters and word.confidence >= limit.confidence for limit in thresholds)


def _cover(mask: NDArray[np.bool_], word: Word) -> None:
    """Blank a word with a margin: half read names go on to the left and right."""
    left, top, width, height = word.box
    margin, side = 2 + height // 3, 2 + height * 3 // 2
    mask[max(0, top - margin) : top + height + margin, max(0, left - side) : left + width + side] = True
