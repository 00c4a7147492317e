"""The one interface of a task: which outputs it wants, how a case is read, what all cases are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from server.automedbench.files import CaseFiles

__all__ = ["CaseRow", "Graded", "Task"]


@dataclass(frozen=True)
class CaseRow:
    """What became of one case.

    Args:
        case: name.
        status: `scored`, `missing` or `invalid`.
        reason: why it is not scored; empty where it is.
        metrics: name to value; `None` where a metric does not apply to this case.
    """

    case: str
    status: str
    reason: str = ""
    metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Graded:
    """What the scored cases are worth.

    Args:
        score: the task's score in [0, 1], over the scored cases; 0 when there is none.
        metrics: name to mean value.
        per_case: case to its metrics.
    """

    score: float
    metrics: Mapping[str, float | None]
    per_case: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        name: as AutoMedBench calls it.
        wanted: the files of an output, for messages.
        there: whether a case's output is there at all, whatever it is.
        read: a case to its output and reference, decoded; raises `InvalidOutput` for a bad output and `DataError` for a
            bad reference.
        grade: (output, reference) of every valid case to what they are worth.
        methods: words of methods that are proper for the task.
    """

    name: str
    wanted: str
    there: Callable[[Mapping[str, bytes], Mapping[str, bytes]], bool]
    read: Callable[[CaseFiles], tuple[Any, Any]]
    grade: Callable[[Mapping[str, tuple[Any, Any]]], Graded]
    methods: tuple[str, ...]
