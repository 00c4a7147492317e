"""The smallest unit of a rubric: one question about the evidence, answered yes, no or unscored, with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rubrics.evidence import Evidence

__all__ = ["Finding", "Item", "Verdict", "answer", "judge", "mean_of"]


@dataclass(frozen=True)
class Finding:
    """An answer.

    Args:
        value: share of the item that is earned, 0 to 1 (yes/no items use 0 and 1); `None` where it is unscored.
        reason: why, in words.
    """

    value: float | None
    reason: str


@dataclass(frozen=True)
class Item:
    """A question and the function that answers it.

    Args:
        name: short name, unique within its stage.
        question: what is asked, in words.
        decide: gives the answer.
    """

    name: str
    question: str
    decide: Callable[[Evidence], Finding]


@dataclass(frozen=True)
class Verdict:
    """One item, answered.

    Args:
        item: the item's name.
        value: as in `Finding`.
        reason: as in `Finding`.
    """

    item: str
    value: float | None
    reason: str


def judge(items: Sequence[Item], evidence: Evidence) -> tuple[Verdict, ...]:
    """Answer every item."""
    findings = ((item.name, item.decide(evidence)) for item in items)
    return tuple(Verdict(name, finding.value, finding.reason) for name, finding in findings)


def mean_of(verdicts: Sequence[Verdict]) -> float | None:
    """Equal-weight mean over the scored items, or `None` when nothing is scored."""
    values = [verdict.value for verdict in verdicts if verdict.value is not None]
    return sum(values) / len(values) if values else None


def answer(passed: bool, yes: str, no: str) -> Finding:
    """A yes/no finding with the reason that fits."""
    return Finding(1.0, yes) if passed else Finding(0.0, no)
