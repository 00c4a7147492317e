"""Answers to questions: exact match and token F1 after normalisation.

Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", 2016, section 6.1: lower case, no
punctuation, no articles, single spaces; of several right answers the best one counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

__all__ = ["exact_match", "normalised_answer", "token_f1"]

_ARTICLES = frozenset({"a", "an", "the"})


def normalised_answer(text: str) -> str:
    """Lower case, compatibility forms folded (NFKC), punctuation and articles taken out, single spaces.

    A text that is nothing but articles keeps them: "A" is an answer. A point or comma between digits stays, as does a
    sign before one.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = re.findall(r"[-+]?\d+(?:[.,]\d+)*|\w+", folded)
    return " ".join([word for word in words if word not in _ARTICLES] or words)


def exact_match(predicted: str, right: Sequence[str]) -> float:
    """1 where the normalised answer is one of the normalised right ones, else 0; an empty answer is never right."""
    answer = normalised_answer(predicted)
    return float(bool(answer) and answer in {normalised_answer(one) for one in right})


def token_f1(predicted: str, right: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, against the best of the right answers, in [0, 1]."""
    return max((_token_f1(normalised_answer(predicted), normalised_answer(one)) for one in right), default=0.0)


def _token_f1(predicted: str, right: str) -> float:
    given, wanted = predicted.split(), right.split()
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2.0 * shared / (len(given) + len(wanted)) if shared else 0.0
