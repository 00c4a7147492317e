"""Inspect: measure pixels and read public headers. No label is read; none is in a workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from .case import polarity_of
from .faults import find_fault, load_right
from .workspace import Workspace

__all__ = ["Inspection", "inspect_workspace"]


@dataclass(frozen=True)
class Inspection:
    """What `bat inspect` finds; each field is a facet.

    Args:
        kind: dominant artefact, lesion or class property; `unknown` when nothing stands out.
        polarity: `normal` or `inverted`.
        level: `1`, `2` or `3`; `unknown` when nothing stands out.
        fault: `none` or a name of `FAULTS`.
        deliver: `keep`, `flip` or `turn`.
    """

    kind: str
    polarity: str
    level: str
    fault: str
    deliver: str

    def line(self) -> str:
        """One line with a fixed order of words."""
        return " ".join(f"{name} {value}" for name, value in asdict(self).items())


def inspect_workspace(workspace: Workspace) -> Inspection:
    """Measure all cases of a workspace.

    Raises:
        SkillError: a case is unreadable or its header incomplete.
    """
    cases = workspace.cases()
    fault = _most(find_fault(case) for case in cases)
    polarity = _most(polarity_of(case.header) for case in cases)
    measured = workspace.skill.measure([load_right(case) for case in cases], workspace.exemplars())
    return Inspection(
        kind=measured.kind or "unknown",
        polarity=polarity,
        level=measured.level or "unknown",
        fault=fault,
        deliver=_most(workspace.skill.form.requested(case.header) for case in cases),
    )


def _most(values: Iterable[str]) -> str:
    return Counter(values).most_common(1)[0][0]
