"""The rasteriser against exact rational arithmetic, areas and another implementation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.draw import polygon2mask

from stage_bank.ingest.references import polygon_mask

SHAPE = (14, 17)

corner = st.tuples(st.integers(-12, 68), st.integers(-12, 80)).map(lambda pair: (pair[0] / 4, pair[1] / 4))
polygons = st.lists(corner, min_size=3, max_size=9).map(np.array)


def inside(corners: np.ndarray, row: int, column: int) -> bool:
    """A ray to the right crosses the outline an odd number of times; in fractions, so without rounding."""
    crossings = 0
    points = [(Fraction(y), Fraction(x)) for y, x in corners.tolist()]
    for (y, x), (next_y, next_x) in zip(points, points[1:] + points[:1], strict=True):
        if (y <= row) != (next_y <= row):
            crossings += x + (row - y) * (next_x - x) / (next_y - y) > column
    return crossings % 2 == 1


@settings(max_examples=200, deadline=None)
@given(polygons)
def test_equals_point_in_polygon_for_every_pixel(corners: np.ndarray) -> None:
    expected = [[inside(corners, row, column) for column in range(SHAPE[1])] for row in range(SHAPE[0])]
    assert np.array_equal(polygon_mask(corners, SHAPE), expected)


@settings(max_examples=100, deadline=None)
@given(polygons, st.integers(0, 8))
def test_start_and_direction_do_not_matter(corners: np.ndarray, shift: int) -> None:
    mask = polygon_mask(corners, SHAPE)
    assert np.array_equal(mask, polygon_mask(np.roll(corners, shift, axis=0), SHAPE))
    assert np.array_equal(mask, polygon_mask(corners[::-1], SHAPE))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31))
def test_tiles_share_no_pixel_and_leave_none(seed: int) -> None:
    centre = np.random.default_rng(seed).integers(2, 40, 2) / 4
    border = np.array([(-1.0, -1.0), (-1.0, 17.0), (14.0, 17.0), (14.0, -1.0)])
    tiles = [polygon_mask(np.array([border[i], border[(i + 1) % 4], centre]), SHAPE) for i in range(4)]
    assert (np.sum(tiles, axis=0) == 1).all()


def test_areas_are_those_of_geometry() -> None:
    shape, angles = (400, 400), np.linspace(0, 2 * np.pi, 720, endpoint=False)
    for radius in (20.3, 90.0, 170.7):
        circle = np.stack([200.2 + radius * np.sin(angles), 199.7 + radius * np.cos(angles)], axis=1)
        assert abs(polygon_mask(circle, shape).sum() / (np.pi * radius**2) - 1) < 0.5 / radius
    square = np.array([(10.5, 20.5), (10.5, 60.5), (40.5, 60.5), (40.5, 20.5)])
    assert polygon_mask(square, shape).sum() == 30 * 40
    assert polygon_mask(square, shape)[11:41, 21:61].all()


def test_equals_scikit_image_away_from_edges() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        corners = rng.uniform(-3, 40, (rng.integers(3, 12), 2))
        assert np.array_equal(polygon_mask(corners, (37, 33)), polygon2mask((37, 33), corners))


def test_a_keyhole_leaves_its_hole() -> None:
    outer = [(1.5, 1.5), (1.5, 11.5), (11.5, 11.5), (11.5, 1.5), (1.5, 1.5)]
    inner = [(4.5, 4.5), (8.5, 4.5), (8.5, 8.5), (4.5, 8.5), (4.5, 4.5)]
    mask = polygon_mask(np.array([*outer, *inner]), SHAPE)
    assert mask.sum() == 100 - 16
    assert not mask[5:9, 5:9].any()
