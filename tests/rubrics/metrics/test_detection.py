"""Mean average precision against a direct reading of COCO's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.metrics import Box, mean_average_precision, overlap

sides = st.integers(0, 12)
boxes = st.builds(
    lambda label, x, y, width, height, score: (label, x, y, x + width, y + height, score),
    st.sampled_from("ab"),
    sides,
    sides,
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
)
images = st.lists(st.tuples(st.lists(boxes, max_size=6), st.lists(boxes, max_size=5)), min_size=1, max_size=4)


def by_pixels(one: Box, other: Box) -> float:
    """Overlap of two boxes with whole edges, by counting pixels."""
    covered = [{(x, y) for x in range(int(b[1]), int(b[3])) for y in range(int(b[2]), int(b[4]))} for b in (one, other)]
    return len(covered[0] & covered[1]) / len(covered[0] | covered[1])


def brute_force(pairs: list[tuple[list[Box], list[Box]]], label: str) -> float:
    """Average precision by looking, for each of 101 recalls, for the best precision at that recall or a higher one."""
    claims = []
    positives = 0
    for guesses, truth in pairs:
        free = [box for box in truth if box[0] == label]
        positives += len(free)
        for guess in sorted((g for g in guesses if g[0] == label), key=lambda g: g[5], reverse=True):
            best, place = 0.5, None
            for index, box in enumerate(free):
                if box is not None and (
                    by_pixels(guess, box) > best or (place is None and by_pixels(guess, box) >= 0.5)
                ):
                    best, place = by_pixels(guess, box), index
            claims.append((guess[5], place is not None))
            if place is not None:
                free[place] = None  # type: ignore[call-overload]
    claims.sort(key=lambda claim: claim[0], reverse=True)
    points = []
    for taken in range(1, len(claims) + 1):
        hits = sum(hit for _, hit in claims[:taken])
        points.append((hits / positives, hits / taken))
    best_from = [max((p for r, p in points if r >= step / 100), default=0.0) for step in range(101)]
    return sum(best_from) / 101


@given(boxes, boxes)
def test_overlap_is_that_of_the_pixels(one: Box, other: Box) -> None:
    assert overlap(one, other) == pytest.approx(by_pixels(one, other))


@given(images)
def test_it_agrees_with_brute_force(pairs: list[tuple[list[Box], list[Box]]]) -> None:
    labels = sorted({box[0] for _, truth in pairs for box in truth})
    predicted, truth = [p for p, _ in pairs], [t for _, t in pairs]
    if not labels:
        with pytest.raises(ValueError, match="0 classes"):
            mean_average_precision(predicted, truth)
        return
    expected = sum(brute_force(pairs, label) for label in labels) / len(labels)
    assert mean_average_precision(predicted, truth) == pytest.approx(expected)


@given(images)
def test_the_truth_itself_is_perfect_and_nothing_is_zero(pairs: list[tuple[list[Box], list[Box]]]) -> None:
    truth = [boxes for _, boxes in pairs]
    if any(truth):
        assert mean_average_precision(truth, truth) == 1.0
        assert mean_average_precision([[] for _ in truth], truth) == 0.0


def box(x: float, score: float, label: str = "a") -> Box:
    return (label, x, 0.0, x + 10.0, 10.0, score)


def test_known_values() -> None:
    truth = [[box(0, 1), box(20, 1)]]
    assert mean_average_precision([[box(0, 0.9), box(20, 0.8)]], truth) == 1.0
    assert mean_average_precision([[box(0, 0.9)]], truth) == pytest.approx(51 / 101)
    assert mean_average_precision([[box(40, 0.9), box(0, 0.8), box(20, 0.7)]], truth) == pytest.approx(2 / 3)
    assert mean_average_precision([[box(0, 0.9), box(0, 0.8)]], [[box(0, 1)]]) == 1.0
    assert mean_average_precision([[box(0, 0.9, "b")]], truth) == 0.0
    assert mean_average_precision([[box(5, 0.9)]], [[box(0, 1)]]) == 0.0
    assert mean_average_precision([[]], [[box(0, 1)]]) == 0.0


def test_only_the_best_hundred_of_an_image_count() -> None:
    crowd = [box(100.0 + 11 * index, 0.9) for index in range(100)]
    assert mean_average_precision([[*crowd, box(0, 0.1)]], [[box(0, 1)]]) == 0.0


def test_different_numbers_of_images_are_refused() -> None:
    with pytest.raises(ValueError, match="2 images for 1"):
        mean_average_precision([[], []], [[box(0, 1)]])
