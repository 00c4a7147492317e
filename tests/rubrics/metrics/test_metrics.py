"""Metrics against other people's implementations and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from skimage.metrics import structural_similarity

from rubrics.metrics import above_chance, balanced_accuracy, dice, relative_gain, ssim

seeds = st.integers(0, 2**32 - 1)
sides = st.integers(11, 40)
masks = arrays.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 6)))
labels = st.lists(st.tuples(st.none() | st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30)


@given(seeds, sides, sides, st.floats(0.0, 1.0), st.sampled_from([1.0, 2.0, 255.0]))
def test_ssim_is_that_of_scikit_image(seed: int, rows: int, columns: int, blend: float, data_range: float) -> None:
    rng = np.random.default_rng(seed)
    reference = rng.random((rows, columns)) * data_range
    image = blend * reference + (1 - blend) * rng.random((rows, columns)) * data_range
    theirs = structural_similarity(
        image, reference, data_range=data_range, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    assert ssim(image, reference, data_range) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("shape", [(10, 40), (40, 10), (40,), (12, 12, 3)])
def test_ssim_refuses_what_its_window_does_not_fit_into(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        ssim(np.zeros(shape), np.zeros(shape))


@given(st.data(), masks)
def test_dice_is_twice_the_overlap_over_the_sizes(data: st.DataObject, mask: np.ndarray) -> None:
    reference = data.draw(arrays.arrays(bool, mask.shape))
    inside = {tuple(index) for index in np.argwhere(mask)}
    truth = {tuple(index) for index in np.argwhere(reference)}
    expected = 2 * len(inside & truth) / (len(inside) + len(truth)) if inside or truth else 1.0
    assert dice(mask, reference) == dice(reference, mask) == expected


def test_dice_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        dice(np.zeros((2, 3)), np.zeros((3, 2)))


@given(labels)
def test_balanced_accuracy_is_the_mean_recall(pairs: list[tuple[int | None, int]]) -> None:
    predicted, truth = [answer for answer, _ in pairs], [true for _, true in pairs]
    recalls = [np.mean([answer == label for answer, true in pairs if true == label]) for label in sorted(set(truth))]
    assert balanced_accuracy(predicted, truth) == pytest.approx(np.mean(recalls))


@given(st.lists(st.integers(0, 1), min_size=2, max_size=20).filter(lambda truth: len(set(truth)) == 2))
def test_a_constant_answer_earns_nothing(truth: list[int]) -> None:
    for answer in (None, 0, 1):
        assert above_chance(balanced_accuracy([answer] * len(truth), truth)) == 0.0
    assert above_chance(balanced_accuracy(truth, truth)) == 1.0


@given(st.floats(-1, 1), st.floats(-1, 0.5), st.floats(0.01, 0.5))
def test_relative_gain_has_both_ends_where_they_belong(value: float, untouched: float, room: float) -> None:
    reference = untouched + room
    assert relative_gain(untouched, untouched, reference) == 0.0
    assert relative_gain(reference, untouched, reference) == pytest.approx(1.0)
    gain = relative_gain(value, untouched, reference)
    assert 0.0 <= gain <= 1.0
    assert gain <= relative_gain(min(value + 0.1, 1.0), untouched, reference) or value > 0.9


def test_relative_gain_needs_a_scale() -> None:
    with pytest.raises(ValueError, match="not better"):
        relative_gain(0.5, 0.8, 0.8)
