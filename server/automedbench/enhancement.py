"""Enhancement: `enhanced.npy`; PSNR and SSIM."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage.metrics import structural_similarity

from common.errors import DataError
from rubrics.metrics import psnr, relative_gain
from server.automedbench.files import CaseFiles, InvalidOutput
from server.automedbench.task import Graded, Task

__all__ = ["TASK"]

OUTPUT = "enhanced.npy"
REFERENCES = ("reference.npy", "target.npy", "clean.npy", OUTPUT)
"""Names the truth may have, the first that is there counts."""

INPUT, BASELINE, FACTS = "input.npy", "baseline.npy", "facts.json"
"""Files a reference case may have beside: the untouched input, what a frozen pipeline makes of it, and `data_range`."""

VALUES = 1 << 28
"""Most values of an array."""

LARGEST = float(np.finfo(np.float32).max)
"""Largest magnitude of a value: outputs are float32."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Truth:
    image: Array
    data_range: float
    untouched: Array | None
    baseline: Array | None


def _read(case: CaseFiles) -> tuple[Array, _Truth]:
    truth = _truth(case.reference)
    image = _array(case.output[OUTPUT])
    if image.shape != truth.image.shape:
        raise InvalidOutput(f"{OUTPUT} has shape {image.shape}, wanted is {truth.image.shape}")
    return image, truth


def _truth(files: Mapping[str, bytes]) -> _Truth:
    name = next((name for name in REFERENCES if name in files), None)
    if name is None:
        raise DataError(f"a reference case needs one of {', '.join(REFERENCES)}")
    try:
        image, untouched, baseline = (
            _array(files[part]) if part in files else None for part in (name, INPUT, BASELINE)
        )
        facts: Any = json.loads(files[FACTS]) if FACTS in files else {}
        stated = float(facts["data_range"]) if "data_range" in facts else None
    except (InvalidOutput, ValueError, TypeError) as error:
        raise DataError(f"a reference case cannot be read: {error}") from error
    assert image is not None
    data_range = float(np.ptp(image)) if stated is None else stated
    if not (math.isfinite(data_range) and data_range > 0):
        raise DataError("a reference case has no data range", remedy=f"State data_range in {FACTS}.")
    return _Truth(image, data_range, untouched, baseline)


def _array(data: bytes) -> Array:
    """A finite array of real numbers.

    Raises:
        InvalidOutput: not a NumPy file of at least two dimensions, or a value is not finite.
    """
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # NumPy raises many types on hostile headers
        raise InvalidOutput("not a NumPy file that can be read") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim < 2 or array.size > VALUES:
        raise InvalidOutput("not an array of real numbers of two dimensions or more")
    with np.errstate(over="ignore", invalid="ignore"):
        values = array.astype(np.float64)
    if not (np.abs(values) <= LARGEST).all():
        raise InvalidOutput("a value is not finite, or none that float32 holds")
    return values


def _ssim(image: Array, truth: _Truth) -> float | None:
    """Gaussian weights, no sample covariance; colour in the last axis; `None` below eleven pixels a side."""
    colour = -1 if image.ndim == 3 and image.shape[-1] in (3, 4) else None
    if min(image.shape if colour is None else image.shape[:-1]) < 11:
        return None
    value = structural_similarity(  # type: ignore[no-untyped-call]
        image,
        truth.image,
        data_range=truth.data_range,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        channel_axis=colour,
    )
    return float(value)


def _grade(cases: Mapping[str, tuple[Array, _Truth]]) -> Graded:
    rows: dict[str, dict[str, float | None]] = {}
    for name, (image, truth) in cases.items():
        similar = _ssim(image, truth)
        rows[name] = {
            "psnr": psnr(image, truth.image, truth.data_range),
            "ssim": similar,
            "score": _worth(similar, truth),
        }
    means = {key: _mean([row[key] for row in rows.values()]) for key in ("psnr", "ssim", "score")}
    return Graded(means["score"] or 0.0, {"psnr": means["psnr"], "ssim": means["ssim"]}, rows)


def _worth(similar: float | None, truth: _Truth) -> float:
    """SSIM from that of the untouched input (0, where it is given) to that of the frozen pipeline (1, else to 1)."""
    if similar is None:
        return 0.0
    lowest, highest = _end(truth.untouched, truth, 0.0), _end(truth.baseline, truth, 1.0)
    return relative_gain(similar, lowest, highest) if highest > lowest else min(max(similar, 0.0), 1.0)


def _end(image: Array | None, truth: _Truth, otherwise: float) -> float:
    """One end of the scale: the SSIM of an image of the reference, where it has one of the right shape."""
    similar = None if image is None or image.shape != truth.image.shape else _ssim(image, truth)
    return otherwise if similar is None else similar


def _mean(values: list[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return fmean(given) if given else None


TASK = Task(
    name="enhancement",
    wanted=OUTPUT,
    there=lambda output, _: OUTPUT in output,
    read=_read,
    grade=_grade,
    methods=(
        "denois", "bm3d", "non-local", "nlm", "wavelet", "total variation", "median", "gaussian", "bilateral", "dncnn",
        "swinir", "restormer", "esrgan", "super-resolution", "u-net", "unet", "noise2", "wiener", "diffusion",
        "destripe", "bias field", "n4",
    ),
)  # fmt: skip
