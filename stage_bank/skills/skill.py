"""The one interface of every track inside the toolkit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ._words import Array, Measured, Output
from .case import Case
from .delivery import Form

__all__ = ["NO_EXEMPLARS", "PIXEL_FAULTS", "Exemplars", "TrackSkill"]

PIXEL_FAULTS = ("none", "axes", "nan", "scale")
"""Exchanged axes, lost pixels and a wrong unit: faults that any image may have."""


@dataclass(frozen=True)
class Exemplars:
    """Public labelled images in display polarity.

    Args:
        images: one or more of each class.
        labels: 0 or 1, one an image.
    """

    images: tuple[Array, ...]
    labels: tuple[int, ...]


NO_EXEMPLARS = Exemplars((), ())


@dataclass(frozen=True)
class TrackSkill:
    """What the toolkit can do on one track; cases are mended and in display polarity.

    Args:
        methods: kind to the method that is right for it.
        form: how outputs are written and delivered.
        measure: (cases, exemplars) to the dominant kind and level.
        process: (case, method, level, exemplars) to an output before delivery.
        residual: (cases, outputs, method, level, exemplars) to the kind that is still wrong, empty when none is.
        faults: `none` and the faults that cases may have; they are also the repairs to choose from.
        bright_stays_bright: whether grey values of an output must rise and fall with those of its case.
        learns: whether a pipeline learns from exemplars of both classes.
    """

    methods: Mapping[str, str]
    form: Form
    measure: Callable[[Sequence[Case], Exemplars], Measured]
    process: Callable[[Case, str, str, Exemplars], Output]
    residual: Callable[[Sequence[Case], Sequence[Output], str, str, Exemplars], str]
    faults: tuple[str, ...] = PIXEL_FAULTS
    bright_stays_bright: bool = False
    learns: bool = False
