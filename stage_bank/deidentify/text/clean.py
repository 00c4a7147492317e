"""Find text on every frame, blank it on all of them, and look again.

Two searches complement each other: rows of marks that look drawn, whatever the script, and words that tesseract reads.
A word is blanked when its pixels look drawn, when it is read with confidence, or when it resembles a word of the header
however badly it is read. A frame is searched until nothing more is found; what still shows a word of the header, or is
mostly text, is refused. What is found on one frame is blanked on all, so that later frames are mostly searched once.
Not found is handwriting, text that fades into its surroundings, and letters below about 8 pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import Dataset

from stage_bank.deidentify.allowlists import TextRisk
from stage_bank.deidentify.pixels import blank
from stage_bank.deidentify.text.glyphs import crispness, glyph_rows
from stage_bank.deidentify.text.needles import Needles
from stage_bank.deidentify.text.tesseract import Tesseract, Word
from stage_bank.dicom.decode import Decoded
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["TextCheck", "clean_text", "needs_search"]

_PASSES = 4
_WIDEST_MARGIN = 24
_LARGEST_SHARE = 0.5
"""A picture with more text than this is a page, not an image."""
_SMALL, _LARGE = 500, 1200
_BRIGHT = 150
_COLOURED_SHARE = 0.0005
_PLAIN_MODALITIES = frozenset({"CR", "CT", "DX", "IO", "MG", "MR", "NM", "PT", "PX"})
_CAPTURES = ("SCREEN", "CAPTURE", "REPORT", "DOSE")


class TextCheck(StrEnum):
    """Which images are searched for text."""

    LIKELY = "likely"
    ALL = "all"
    NONE = "none"


_DRAWN = 0.2
"""Crispness of drawn text, at least."""


@dataclass(frozen=True)
class _Care:
    """How easily something counts as text.

    Args:
        letters: least number of letters and digits in a word that looks drawn.
        confidence: with which such a word is read at least, 0 to 100.
        marks: least number of marks in a row.
    """

    letters: int
    confidence: float
    marks: int


_EAGER = _Care(letters=2, confidence=20.0, marks=3)
"""Where text is expected: a blank too many costs little."""
_WARY = _Care(letters=3, confidence=60.0, marks=6)
"""Where none is expected: anatomy that looks like letters must stay."""
_TALLEST = 64
"""Pixels; taller boxes hold something else besides text."""
_READABLE = (4, 85.0)
"""Letters and confidence of a word that counts however it is drawn."""


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
        or any(word in kinds for word in _CAPTURES)
        or ("ConversionType" in dataset and "ORIGINAL" not in kinds)
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
    care = _EAGER if expected else _WARY
    found = np.zeros(decoded.frames.shape[1:3], dtype=bool)
    for grey in _greys(decoded):
        for _ in range(_PASSES):
            before = int(found.sum())
            left_over = _search(np.where(found, np.uint8(0), grey), found, needles, program, care)
            if found.mean() > _LARGEST_SHARE:
                raise Refused(Reason.TEXT)
            if int(found.sum()) == before:
                break
        if left_over:
            raise Refused(Reason.TEXT)
    return blank(decoded, found), float(found.mean())


def _search(
    grey: NDArray[np.uint8], found: NDArray[np.bool_], needles: Needles, program: Tesseract, care: _Care
) -> bool:
    """Add the text of a picture to `found`; whether there was some that must not be left over."""
    words = _words(grey, program)
    boxes = [box for box, marks in glyph_rows(grey) if marks >= care.marks]
    certain = False
    for word in words:
        counts, sure = _judge(grey, word, needles, care)
        certain = certain or sure
        if counts:
            boxes.append(word.box)
    for box in boxes:
        _cover(found, box)
    return certain


def _judge(grey: NDArray[np.uint8], word: Word, needles: Needles, care: _Care) -> tuple[bool, bool]:
    """Whether a word is to be blanked, and whether it must not be left over."""
    letters = sum(character.isalnum() for character in word.text)
    drawn = word.box[3] <= _TALLEST and crispness(grey, word.box) >= _DRAWN
    readable = letters >= _READABLE[0] and word.confidence >= _READABLE[1]
    named = needles.match(word.text)
    counts = named or readable or (drawn and letters >= care.letters and word.confidence >= care.confidence)
    return counts, drawn and (named or readable)


def _words(grey: NDArray[np.uint8], program: Tesseract) -> Iterator[Word]:
    """Words read at two sizes, as they are and in black and white; boxes in pixels of the picture."""
    scale = 3 if max(grey.shape) < _SMALL else 2 if max(grey.shape) < _LARGE else 1
    views = []
    for factor in {1, scale}:
        size = (grey.shape[1] * factor, grey.shape[0] * factor)
        enlarged = np.asarray(Image.fromarray(grey).resize(size, Image.Resampling.BICUBIC))
        views += [(factor, enlarged), (factor, np.where(enlarged >= _BRIGHT, 0, 255).astype(np.uint8))]
    factors = [factor for factor, _ in views]
    return (_shrunk(word, factors[word.page]) for word in program.words([view for _, view in views]))


def _shrunk(word: Word, factor: int) -> Word:
    left, top, width, height = (round(value / factor) for value in word.box)
    return replace(word, box=(left, top, width, height))


def _greys(decoded: Decoded) -> Iterator[NDArray[np.uint8]]:
    """Every different frame in eight bits; coloured ones twice, by their brightest and their darkest channel."""
    seen = set()
    for frame in decoded.frames:
        values = frame.astype(np.float32)
        channels = _channels(values) if values.ndim == 3 else [values]
        for channel in channels:
            grey = _eight_bits(channel)
            digest = hashlib.sha256(grey.tobytes()).digest()
            if digest not in seen:
                seen.add(digest)
                yield grey


def _channels(values: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Brightest and darkest channel `[rows, columns]`; one of them where there is hardly any colour."""
    light, dark = values.max(axis=-1), values.min(axis=-1)
    coloured = np.mean(light - dark > 0.2 * float(np.ptp(light))) > _COLOURED_SHARE
    return [light, dark] if coloured else [light]


def _eight_bits(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Bytes as they are, so that text stays apart from tissue; else stretched over all but the rarest values."""
    if values.min() >= 0 and 64 <= values.max() <= 255:
        return values.astype(np.uint8)
    low, high = (float(value) for value in np.percentile(values, (0.1, 99.9)))
    if not high > low:
        low, high = float(values.min()), float(values.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    return ((values - np.float32(low)) * np.float32(scale)).clip(0, 255).astype(np.uint8)


def _cover(mask: NDArray[np.bool_], box: tuple[int, int, int, int]) -> None:
    """Blank a box with a margin: half read names go on to the left and right."""
    left, top, width, height = box
    margin, side = 2 + height // 3, 2 + min(height * 3 // 2, _WIDEST_MARGIN)
    mask[max(0, top - margin) : top + height + margin, max(0, left - side) : left + width + side] = True
