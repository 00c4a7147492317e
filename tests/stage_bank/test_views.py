"""Views of pictures: what may be shown, and that nothing real is covered or miscounted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from common.stages import Track
from stage_bank.fabrication import CASES, random_condition
from stage_bank.picture import Picture
from stage_bank.tracks import TRACKS, UnfitPictures
from stage_bank.tracks._pixels import _crop, _resampled, view

WITH_LESIONS = (Track.SEGMENTATION, Track.DETECTION, Track.VQA, Track.REPORT)


def textured(rows: int, columns: int, seed: int) -> np.ndarray:
    """Smooth tissue between 0 and 0.5."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).random((rows, columns)), 2.0)
    low, high = noise.min(), noise.max()
    tissue: np.ndarray = 0.5 * (noise - low) / (high - low)
    return tissue.astype(np.float32)


@given(st.integers(48, 200), st.integers(48, 200), st.integers(0, 99), st.data())
@settings(max_examples=40)
def test_a_clear_view_never_shows_a_finding(rows: int, columns: int, seed: int, data: st.DataObject) -> None:
    pixels = textured(rows, columns, seed)
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    findings = np.zeros((rows, columns), dtype=bool)
    findings[top : top + 6, left : left + 6] = True
    pixels[findings] = 1.0
    try:
        crop = _crop([Picture(pixels, findings)], np.random.default_rng(seed), clear=True)
    except UnfitPictures:
        return
    assert crop.max() <= 0.5


@pytest.mark.parametrize("track", WITH_LESIONS)
def test_lesions_are_put_beside_findings_or_not_at_all(track: Track) -> None:
    pixels = textured(160, 120, 1)
    everywhere, corner = np.ones(pixels.shape, dtype=bool), np.zeros(pixels.shape, dtype=bool)
    corner[:20, :20] = True
    rng = np.random.default_rng(0)
    condition = random_condition(track, rng)
    with pytest.raises(UnfitPictures):
        TRACKS[track].fabricate([Picture(pixels, everywhere)], condition, rng, CASES)
    assert TRACKS[track].fabricate([Picture(pixels, corner)], condition, rng, CASES).files
    mixed = [Picture(pixels, everywhere), Picture(textured(90, 90, 2))]
    assert TRACKS[track].fabricate(mixed, condition, rng, CASES).files


@pytest.mark.parametrize("track", [track for track in TRACKS if track not in WITH_LESIONS])
def test_findings_are_no_matter_where_no_lesion_is_put(track: Track) -> None:
    pixels = textured(160, 120, 1)
    rng = np.random.default_rng(0)
    picture = Picture(pixels, np.ones(pixels.shape, dtype=bool))
    assert TRACKS[track].fabricate([picture], random_condition(track, rng), rng, CASES).files


@given(st.integers(4, 300), st.integers(3, 300), st.integers(0, 99))
@settings(max_examples=40)
def test_resizing_keeps_range_and_slants(rows: int, columns: int, seed: int) -> None:
    window = np.random.default_rng(seed).random((rows, columns)).astype(np.float32)
    resized = _resampled(window)
    assert resized.shape == (64, 48)
    assert window.min() - 1e-6 <= resized.min() <= resized.max() <= window.max() + 1e-6
    slant = _resampled(np.repeat(np.linspace(0, 1, rows, dtype=np.float32)[:, None], columns, axis=1))
    np.testing.assert_allclose(np.diff(slant, axis=0), (slant[-1, 0] - slant[0, 0]) / 63, atol=1e-5)


def test_a_view_is_stretched_to_the_whole_range_and_seeded() -> None:
    pictures = [Picture(textured(100, 80, seed)) for seed in range(3)]
    first, again, other = (view(pictures, np.random.default_rng(seed), 1.0) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first.min(), first.max()) == (0.0, 1.0)
    assert not np.array_equal(first, other)
