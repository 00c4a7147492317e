"""ROUGE-L and entity F1 against brute force and hand-made cases."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.metrics import entity_f1, rouge_l, words_of

WORDS = st.lists(st.sampled_from(["no", "nodule", "left", "12"]), max_size=7)


def longest_common(one: list[str], other: list[str]) -> int:
    """By trying every choice of words of the first."""
    for length in range(min(len(one), len(other)), 0, -1):
        for chosen in itertools.combinations(one, length):
            rest = iter(other)
            if all(word in rest for word in chosen):
                return length
    return 0


@given(WORDS, WORDS)
def test_rouge_l_is_the_f1_of_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    common = longest_common(one, other)
    expected = 2 * common / (len(one) + len(other)) if one or other else 1.0
    assert rouge_l(" ".join(one), " ".join(other)) == pytest.approx(expected)


def test_rouge_l_on_a_published_example() -> None:
    """Lin 2004, section 3.1: police killed the gunman / police kill the gunman / the gunman kill police."""
    right = "police killed the gunman"
    assert rouge_l("police kill the gunman", right) == pytest.approx(0.75)
    assert rouge_l("the gunman kill police", right) == pytest.approx(0.5)


def test_words_keep_decimals_and_drop_case_and_punctuation() -> None:
    assert words_of("Upper zone: 4.5 mm, NO cyst.") == ["upper", "zone", "4.5", "mm", "no", "cyst"]


def test_empty_texts() -> None:
    assert (rouge_l("", ""), rouge_l("", "left"), rouge_l("left", "")) == (1.0, 0.0, 0.0)
    assert (entity_f1([], []), entity_f1([], ["a"]), entity_f1(["a"], [])) == (1.0, 0.0, 0.0)


@given(st.lists(st.integers(0, 4), max_size=8), st.lists(st.integers(0, 4), max_size=8))
def test_entities_count_as_often_as_they_stand(given_ones: list[int], right: list[int]) -> None:
    free, hits = list(right), 0
    for entity in given_ones:
        if entity in free:
            free.remove(entity)
            hits += 1
    total = len(given_ones) + len(right)
    assert entity_f1(given_ones, right) == pytest.approx(2 * hits / total if total else 1.0)
    assert entity_f1(given_ones, right) == entity_f1(right, given_ones)
