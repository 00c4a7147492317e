"""Look at outputs as they lie on disk, without a reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._words import POLARITY_CHOICE, Array, Output
from .case import polarity_of, read_case
from .faults import load_right
from .pipeline import read_pipeline
from .workspace import Workspace

__all__ = ["review"]


def review(workspace: Workspace, target: str, names: Sequence[str]) -> str:
    """Check the outputs of some cases.

    Args:
        workspace: where.
        target: `pilot` or `batch`.
        names: the cases to look at.

    Returns:
        The first check that fails, empty when none does: `shape` (missing, damaged or of another size), `range`
        (bright and dark exchanged), `content` (the self-check finds something left to do).
    """
    plan, skill = read_pipeline(workspace), workspace.skill
    cases, outputs = [], []
    for name in names:
        if name not in workspace.case_names:
            return "shape"
        case = load_right(read_case(workspace.root / "cases" / name))
        try:
            output = skill.form.decode((workspace.root / "process" / target / name / skill.form.file_name).read_bytes())
        except (OSError, ValueError):
            return "shape"
        if not skill.form.fits(output, case.pixels.shape):
            return "shape"
        if skill.bright_stays_bright and not _agrees(output, case.pixels):
            return "range"
        cases.append(case)
        outputs.append(output)
    if plan.polarity != POLARITY_CHOICE[polarity_of(case.header)]:
        return "range"
    return "content" if skill.residual(cases, outputs, plan.method, plan.level, workspace.exemplars()) else ""


def _agrees(output: Output, image: Array) -> bool:
    """Whether bright stays bright: the correlation is positive and the output is not constant."""
    a, b = output - output.mean(), image - image.mean()
    return float(np.sum(a * b)) > 1e-6
