"""The skills of each track behind one face: methods, measuring, processing and the self-check without a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import classification, enhancement, segmentation
from ._words import Array, Measured
from .classification import Exemplars
from .delivery import Output

__all__ = ["SKILLS", "TrackSkill"]

NO_EXEMPLARS = Exemplars((), ())


@dataclass(frozen=True)
class TrackSkill:
    """What the toolkit can do on one track; images are in display polarity.

    Args:
        methods: kind to the method that is right for it.
        measure: (images, exemplars) to the dominant kind and level.
        process: (image, method, level, exemplars) to an output before delivery.
        residual: (images, outputs, method, level, exemplars) to the kind that is still wrong, empty when none is.
    """

    methods: Mapping[str, str]
    measure: Callable[[Sequence[Array], Exemplars], Measured]
    process: Callable[[Array, str, str, Exemplars], Output]
    residual: Callable[[Sequence[Array], Sequence[Output], str, str, Exemplars], str]


SKILLS: Mapping[str, TrackSkill] = {
    "segmentation": TrackSkill(
        methods=segmentation.METHODS,
        measure=lambda images, _: segmentation.measure(images),
        process=lambda image, method, level, _: segmentation.process(image, method, level),
        residual=lambda images, outputs, method, level, _: segmentation.residual(images, outputs, level),
    ),
    "enhancement": TrackSkill(
        methods=enhancement.METHODS,
        measure=lambda images, _: enhancement.measure(images),
        process=lambda image, method, level, _: enhancement.process(image, method, level).astype(np.float32),
        residual=lambda images, outputs, method, level, _: enhancement.residual(images, outputs),
    ),
    "classification": TrackSkill(
        methods=classification.METHODS,
        measure=lambda _, exemplars: classification.measure(exemplars),
        process=lambda image, method, level, exemplars: np.array(
            classification.process(image, method, level, exemplars)
        ),
        residual=lambda images, outputs, method, level, exemplars: classification.residual(exemplars, method, level),
    ),
}
"""Track to its skills."""
