"""Free text against a reference: ROUGE-L and the F1 of named entities."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

__all__ = ["entity_f1", "rouge_l", "words_of"]


def words_of(text: str) -> list[str]:
    """Lower-case words and numbers of a text, in order; a number keeps its decimal point."""
    return re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", text.casefold())


def rouge_l(predicted: str, right: str) -> float:
    """F1 over the longest common subsequence of words, in [0, 1].

    Lin, "ROUGE: a package for automatic evaluation of summaries", 2004, section 3, with equal weight of precision and
    recall. Two empty texts agree.
    """
    given, wanted = words_of(predicted), words_of(right)
    if not given or not wanted:
        return float(given == wanted)
    return 2.0 * _common_length(given, wanted) / (len(given) + len(wanted))


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence; time grows with the product of both lengths."""
    row = [0] * (len(other) + 1)
    for word in one:
        diagonal = 0
        for place, against in enumerate(other, start=1):
            above = row[place]
            row[place] = diagonal + 1 if word == against else max(above, row[place - 1])
            diagonal = above
    return row[-1]


def entity_f1(predicted: Iterable[Hashable], right: Iterable[Hashable]) -> float:
    """Harmonic mean of precision and recall over entities, each as often as it stands there, in [0, 1].

    No entity where there should be none is right.
    """
    given, wanted = Counter(predicted), Counter(right)
    total = given.total() + wanted.total()
    return 2.0 * (given & wanted).total() / total if total else 1.0
