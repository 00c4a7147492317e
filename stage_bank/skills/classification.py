"""Classification: learn two classes from public labelled exemplars with the feature that separates them.

Kinds and methods: the classes differ by the sign of fine grain (texture), of one lesion of a size class (spot), of
column bands (frequency) or of a slow tilt (gradient). The level is the grain side, the lesion size, the band spacing or
the tilt's order. The classifier is the nearest class centroid in standardised features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ._patterns import field_band, profile_wave, without_field, without_waves
from ._words import LEVELS, Array, Measured, Output
from .delivery import Form
from .skill import Exemplars, TrackSkill

__all__ = ["METHODS", "SCHEMES", "SKILL", "features", "measure", "process", "residual"]

METHODS = {"grain": "texture", "lesion": "spot", "banding": "frequency", "tilt": "gradient"}
"""Kind to the feature family that separates the classes."""

SCHEMES = {"keep": (0, 1), "flip": (1, 0), "turn": (1, 2)}
"""Delivery to the labels that stand for class 0 and class 1."""

GRAIN_AREAS = {"1": (1, 2), "2": (3, 6), "3": (7, 14)}
SPOT_AREAS = {"1": (15, 40), "2": (45, 95), "3": (100, 190)}
"""Level to the areas, in pixels, of a grain or a lesion of that level."""

STANDING_OUT = 0.13
"""Distance from the median grey at which a pixel belongs to a grain or lesion."""

SEPARABLE = 1.5
"""Least distance of the class means, in standard deviations within a class, to say that a feature separates them."""

Sizes = npt.NDArray[np.int_]
Families = dict[str, Callable[[str], Array]]


def features(image: Array, method: str, level: str) -> Array:
    """The feature vector of one image in display polarity, 1 to 3 numbers.

    Raises:
        KeyError: an unknown method or level.
    """
    return _families(image)[method](level)


def _families(image: Array) -> Families:
    """Method to the image's feature vector at a level; what all levels share is done once."""
    sizes = cache(lambda: _component_sizes(image))
    return {
        "texture": lambda level: _balance(*sizes(), GRAIN_AREAS[level]),
        "spot": lambda level: _balance(*sizes(), SPOT_AREAS[level]),
        "frequency": lambda level: _wave(image, level),
        "gradient": lambda level: field_band(image, level),
    }


def _wave(image: Array, level: str) -> Array:
    wave = profile_wave(without_field(image), level)
    return np.array([wave.real, wave.imag])


def _component_sizes(image: Array) -> tuple[Sizes, Sizes]:
    """Pixels of every bright and of every dark component, after waves and slow fields are taken out."""
    image = without_waves(without_field(image))
    image = image - np.median(image)
    return _sizes(image > STANDING_OUT), _sizes(-image > STANDING_OUT)


def _sizes(mask: npt.NDArray[np.bool_]) -> Sizes:
    parts, count = ndimage.label(mask)
    return np.bincount(parts.ravel(), minlength=count + 1)[1:]


def _balance(bright: Sizes, dark: Sizes, areas: tuple[int, int]) -> Array:
    """Bright minus dark components of a size."""
    more, fewer = (np.sum((sizes >= areas[0]) & (sizes <= areas[1])) for sizes in (bright, dark))
    return np.array([float(more) - float(fewer)])


def _fit(exemplars: Sequence[Families], labels: Sequence[int], method: str, level: str) -> tuple[Array, Array, Array]:
    """Centroids of class 0 and 1 and the pooled standard deviation, one number a feature."""
    rows = np.array([families[method](level) for families in exemplars])
    groups = [rows[np.array(labels) == label] for label in (0, 1)]
    pooled = np.sqrt(np.mean([group.var(axis=0) for group in groups], axis=0)) + 1e-6
    return groups[0].mean(axis=0), groups[1].mean(axis=0), pooled


def process(image: Array, method: str, level: str, exemplars: Exemplars) -> int:
    """The class, 0 or 1, of the nearest centroid.

    Raises:
        KeyError: an unknown method or level.
    """
    first, second, scale = _fit([_families(one) for one in exemplars.images], exemplars.labels, method, level)
    row = features(image, method, level)
    return int(np.sum(((row - second) / scale) ** 2) < np.sum(((row - first) / scale) ** 2))


def measure(exemplars: Exemplars) -> Measured:
    """The property that separates the exemplars best; empty when none does."""
    families = [_families(image) for image in exemplars.images]
    values = {
        (kind, level): _separation(*_fit(families, exemplars.labels, method, level))
        for kind, method in METHODS.items()
        for level in LEVELS
    }
    kind, level = max(values, key=lambda key: values[key])
    return Measured(kind, level) if values[kind, level] >= SEPARABLE else Measured("", "")


def _separation(first: Array, second: Array, scale: Array) -> float:
    """Distance of two class centroids in pooled standard deviations, the largest over the features."""
    return float(np.max(np.abs(first - second) / scale))


def residual(exemplars: Exemplars, method: str, level: str) -> str:
    """The property that a feature misses on the exemplars; empty when the feature separates the classes."""
    missed = measure(exemplars)
    if not missed.kind or (METHODS[missed.kind], missed.level) == (method, level):
        return ""
    return missed.kind


def decode_label(data: bytes) -> Output:
    """Read a label file that may be hostile.

    Raises:
        ValueError: no JSON object with a label from 0 to 9.
    """
    try:
        fields = json.loads(data[:4096])
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    label = fields.get("label") if isinstance(fields, dict) else None
    if type(label) is not int or not 0 <= label <= 9:
        raise ValueError("no label from 0 to 9")
    return label


SKILL = TrackSkill(
    methods=METHODS,
    form=Form(
        file_name="label.json",
        encode=lambda label: json.dumps({"label": int(label)}).encode(),
        decode=decode_label,
        field="LabelScheme",
        stated=SCHEMES,
        turn=lambda label, delivery: SCHEMES[delivery][label],
        restore=lambda label, delivery: SCHEMES[delivery].index(label),
        fits=lambda label, shape: label in (0, 1),
    ),
    measure=lambda _, exemplars: measure(exemplars),
    process=lambda case, method, level, exemplars: process(case.pixels, method, level, exemplars),
    residual=lambda cases, outputs, method, level, exemplars: residual(exemplars, method, level),
    learns=True,
)
