"""The header's own words, which tell a name from noise when both are read badly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from pydicom.dataset import FileDataset

from stage_bank.dicom.identifiers import collect_identifiers

__all__ = ["Needles", "header_needles"]

_PLAIN = re.compile(r"[\W_]+")
_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})")
_ALIKE = 0.75
_SHORTEST = 4


@dataclass(frozen=True)
class Needles:
    """What to look for.

    Args:
        words: letters and digits only, lower case, each at least four.
    """

    words: frozenset[str]

    def match(self, text: str) -> bool:
        """Whether a text, perhaps misread, is one of the words or part of one."""
        plain = _PLAIN.sub("", text.casefold())
        if len(plain) < _SHORTEST:
            return False
        return any(word in plain or plain in word or _alike(plain, word) for word in self.words)


def header_needles(dataset: FileDataset) -> Needles:
    """Words of the names, IDs, dates (in several spellings) and descriptions in a header."""
    return Needles(frozenset(_spellings(collect_identifiers(dataset))))


def _spellings(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        if "." in text and not any(character.isalpha() for character in text):
            continue  # a UID is not what a device draws
        if date := _DATE.fullmatch(text):
            year, month, day = date.groups()
            yield from (year + month + day, day + month + year, month + day + year, day + month + year[2:])
        yield from (
            plain
            for part in re.split(r"[\s^=\\,;]+", text.casefold())
            if len(plain := _PLAIN.sub("", part)) >= _SHORTEST
        )


def _alike(one: str, other: str) -> bool:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE
