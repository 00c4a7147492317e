"""Seeded faults of a handoff: outputs that were right when they were made, and are not what lies there any more.

Each of them shows in `bat verify`, and running the batch again mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stage_bank.skills import Form, Output

__all__ = ["DAMAGES", "Damage", "damage_outputs"]

KEPT = 0.6
"""Share of a corrupt file that is left."""


@dataclass(frozen=True)
class Damage:
    """One way to damage outputs.

    Args:
        suits: whether it can happen to an output.
        act: the output, damaged.
    """

    suits: Callable[[Output], bool]
    act: Callable[[Output], Output]


def _is_image(output: Output) -> bool:
    return _is_picture(output) and output.dtype != bool


def _is_picture(output: Output) -> bool:
    return isinstance(output, np.ndarray) and output.ndim == 2


def _inverted(picture: Output) -> Output:
    return np.logical_not(picture) if picture.dtype == bool else np.float32(1.0) - picture


def _lost(image: Output) -> Output:
    pixels = image.copy()
    pixels[::7, ::5] = np.nan
    return pixels


DAMAGES: Mapping[str, Damage] = {
    "invert": Damage(_is_picture, _inverted),
    "axes": Damage(_is_picture, lambda picture: picture.T),
    "shape": Damage(_is_picture, lambda picture: picture[:-3]),
    "nan": Damage(_is_image, _lost),
    "labels": Damage(lambda output: isinstance(output, int), lambda label: label + 1),
}
"""Inverted intensity, swapped axes, shape mismatch, NaN, wrong label map. A corrupt file can happen to any output."""


def damage_outputs(files: Mapping[str, bytes], form: Form, rng: np.random.Generator) -> dict[str, bytes]:
    """Damage every output in the same way: in one that suits them all, or by cutting their files short.

    Args:
        files: relative path to content; only files of the form's name are touched.
        form: of the outputs.
        rng: decides how.
    """
    outputs = {path: form.decode(data) for path, data in files.items() if path.endswith("/" + form.file_name)}
    suited = [name for name, damage in DAMAGES.items() if all(damage.suits(output) for output in outputs.values())]
    kind = str(rng.choice(["corrupt", *suited]))
    if kind == "corrupt":
        return {path: data[: int(KEPT * len(data))] if path in outputs else data for path, data in files.items()}
    return {**files, **{path: form.encode(DAMAGES[kind].act(output)) for path, output in outputs.items()}}
