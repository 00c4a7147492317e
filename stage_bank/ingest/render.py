"""From stored values to a picture: float32 in [0, 1], bright means more, at most 512 pixels a side."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import Dataset

from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["MAX_SIDE", "MIN_SIDE", "render", "shrink", "shrink_mask", "stretch"]

MIN_SIDE = 48
MAX_SIDE = 512

_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Rec. ITU-R BT.601 luma weights."""


@quiet()
def render(dataset: Dataset) -> list[NDArray[np.float32]]:
    """Pictures of all frames of a de-identified data set.

    Rescale first, then the header's window where it shows enough of this frame, percentiles otherwise; MONOCHROME1 is
    inverted, colour becomes luminance.

    Args:
        dataset: native, as `deidentify` returns it.

    Raises:
        Refused: smaller than 48 pixels a side, or without contrast.
    """
    stored = dataset.pixel_array
    if "NumberOfFrames" not in dataset:
        stored = stored[None]
    if min(stored.shape[1:3]) < MIN_SIDE:
        raise Refused(Reason.TOO_SMALL)
    return [_picture(frame, dataset, index) for index, frame in enumerate(stored)]


def stretch(values: NDArray[np.float32], low: float, high: float) -> NDArray[np.float32]:
    """Map [low, high] to [0, 1] and clip.

    Raises:
        Refused: the interval is empty.
    """
    if not high > low:
        raise Refused(Reason.FLAT)
    scaled = (values - np.float32(low)) / np.float32(high - low)
    return np.asarray(np.clip(scaled, 0.0, 1.0), dtype=np.float32)


def shrink(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average down to at most `MAX_SIDE` pixels on the long side, the short side kept at `MIN_SIDE` or more."""
    height, width = picture.shape
    factor = MAX_SIDE / max(height, width)
    if factor >= 1.0:
        return picture
    size = (max(MIN_SIDE, round(width * factor)), max(MIN_SIDE, round(height * factor)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX), dtype=np.float32).clip(0.0, 1.0)


def shrink_mask(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A mask in the size that `shrink` gives its picture: true wherever any pixel was."""
    return np.asarray(shrink(mask.astype(np.float32)) > 0.0)


def _picture(frame: np.ndarray, dataset: Dataset, index: int) -> NDArray[np.float32]:
    values = frame.astype(np.float32)
    if values.ndim == 3:
        values = values @ _LUMINANCE
    padding = dataset.get("PixelPaddingValue")
    valid = values[values != float(padding)] if isinstance(padding, int) else values
    rescale = _functional(dataset, index, "PixelValueTransformationSequence", "RescaleSlope")
    slope, intercept = _number(rescale, "RescaleSlope", 1.0), _number(rescale, "RescaleIntercept", 0.0)
    if valid.size == 0 or slope == 0.0:
        raise Refused(Reason.FLAT)
    low, high = _interval(
        valid * np.float32(slope) + np.float32(intercept),
        _functional(dataset, index, "FrameVOILUTSequence", "WindowWidth"),
    )
    picture = stretch(values * np.float32(slope) + np.float32(intercept), low, high)
    return shrink(1.0 - picture if dataset.PhotometricInterpretation == "MONOCHROME1" else picture)


def _functional(dataset: Dataset, index: int, group: str, keyword: str) -> Dataset:
    """Where a value of a frame stands: its own functional group, the shared one, or the data set itself."""
    frames = dataset.get("PerFrameFunctionalGroupsSequence") or ()
    shared = dataset.get("SharedFunctionalGroupsSequence") or ()
    for place in (*frames[index : index + 1], *shared[:1]):
        items = place.get(group)
        if items and keyword in items[0]:
            return cast(Dataset, items[0])
    return dataset


def _interval(values: NDArray[np.float32], dataset: Dataset) -> tuple[float, float]:
    """The displayed interval: the window when at least a fifth of the pixels lies inside, else percentiles."""
    center, width = _number(dataset, "WindowCenter", 0.0), _number(dataset, "WindowWidth", 0.0)
    low, high = center - width / 2, center + width / 2
    if width > 1.0 and np.mean((values > low) & (values < high)) >= 0.2:
        inside = np.clip(values, low, high)
        return max(low, float(inside.min())), min(high, float(inside.max()))
    low, high = (float(value) for value in np.percentile(values, (0.5, 99.5)))
    return (low, high) if high > low else (float(values.min()), float(values.max()))


def _number(dataset: Dataset, keyword: str, default: float) -> float:
    value = dataset.get(keyword)
    if value is None:
        return default
    return float(value if isinstance(value, int | float | str) else value[0])
