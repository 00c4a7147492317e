"""Single parts of person names in text: told from other words because every word of a state is known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["NameWords"]

_WORD = re.compile(r"[^\W\d_]{3,}")
"""Letters; a part of two is an initial or a particle."""


class NameWords:
    """The parts of all person names, each searched for as a whole word whatever its case, width or accents.

    Args:
        identifiers: strings of the ingested files; those with `^` between their parts are person names (DICOM PS3.5
            section 6.2).
    """

    def __init__(self, identifiers: Iterable[str]) -> None:
        self._parts = frozenset(
            word for text in identifiers if "^" in text for word in _WORD.findall(_folded(text.replace("^", " ")))
        )

    def occur_in(self, text: str) -> bool:
        """Whether a word of the text is part of a name."""
        return not self._parts.isdisjoint(_WORD.findall(_folded(text)))


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return "".join(sign for sign in plain if not unicodedata.combining(sign)).casefold()
