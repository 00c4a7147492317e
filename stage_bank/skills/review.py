"""Look at outputs as they lie on disk, without a reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._words import POLARITY_CHOICE
from .delivery import FILE_NAMES, Output, decode
from .loading import display, find_fault, mend, polarity_of, read_case
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
    plan = read_pipeline(workspace)
    images, outputs = [], []
    for name in names:
        if name not in workspace.case_names:
            return "shape"
        case = read_case(workspace.root / "cases" / name)
        image = display(mend(case, find_fault(case.stored, case.header)), POLARITY_CHOICE[polarity_of(case.header)])
        try:
            path = workspace.root / "process" / target / name / FILE_NAMES[workspace.track]
            output = decode(workspace.track, path.read_bytes())
        except (OSError, ValueError):
            return "shape"
        if output.ndim == 2 and output.shape != image.shape:
            return "shape"
        if workspace.track == "enhancement" and not _agrees(output, image):
            return "range"
        images.append(image)
        outputs.append(output)
    if plan.polarity != POLARITY_CHOICE[polarity_of(case.header)]:
        return "range"
    return (
        "content" if workspace.skill.residual(images, outputs, plan.method, plan.level, workspace.exemplars()) else ""
    )


def _agrees(output: Output, image: Output) -> bool:
    """Whether bright stays bright: the correlation is positive and the output is not constant."""
    a, b = output - output.mean(), image - image.mean()
    return float(np.sum(a * b)) > 1e-6
