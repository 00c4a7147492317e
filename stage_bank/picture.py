"""One ingested picture, with the little about it that a task may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Picture"]


@dataclass(frozen=True)
class Picture:
    """One greyscale picture of one patient.

    Args:
        pixels: float32 `[rows, columns]` in [0, 1], bright means bright; 48 to 512 pixels a side.
        findings: boolean, same shape: where the site's own reference marks something real, so that nothing is
            fabricated there and no real finding is counted as missed; `None` where the site gave no reference.
        facts: header facts from closed vocabularies, such as `modality`; never free text, numbers or dates.
    """

    pixels: NDArray[np.float32]
    findings: NDArray[np.bool_] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
