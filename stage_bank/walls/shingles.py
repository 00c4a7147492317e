"""Word shingles of a text, the same whatever its letter case, Unicode form, white space and numbers."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["SHINGLE_WORDS", "shingles"]

SHINGLE_WORDS = 5
"""Words of a shingle; a shorter text is one shingle."""

_NOT_WORDS = re.compile(r"[^\w]+")
_NUMBER = re.compile(r"\d+")


def shingles(text: str) -> frozenset[str]:
    """The overlapping runs of five words, after normalisation.

    Compatibility forms are unified (Unicode NFKC), letter case folded, accents dropped, every number made `0`, and
    everything between words made one blank.
    """
    unified = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = "".join(sign for sign in unified if not unicodedata.combining(sign))
    words = _NOT_WORDS.sub(" ", _NUMBER.sub("0", plain)).split()
    if not words:
        return frozenset()
    last = max(len(words) - SHINGLE_WORDS, 0)
    return frozenset(" ".join(words[start : start + SHINGLE_WORDS]) for start in range(last + 1))
