"""Answers: what counts as the same, and F1 against a count by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.metrics import exact_match, normalised_answer, token_f1

TEXTS = st.text(max_size=30)
WORDS = st.lists(st.sampled_from(["mass", "left", "lung", "4.5", "no"]), max_size=6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The left lung.", "left lung"),
        ("LEFT  lung", "left\nlung"),
        ("４.５ mm", "4.5 mm"),
        ("a nodule, an effusion", "nodule effusion"),
        ("A", "a."),
        ("Straße", "strasse"),
    ],
)
def test_the_same_answer_in_other_clothes(one: str, other: str) -> None:
    assert normalised_answer(one) == normalised_answer(other)
    assert exact_match(one, [other]) == token_f1(one, [other]) == 1.0


@pytest.mark.parametrize(
    ("one", "other"), [("4.5 mm", "45 mm"), ("-3", "3"), ("", "left"), ("B", "A"), ("right", "left")]
)
def test_other_answers_stay_others(one: str, other: str) -> None:
    assert exact_match(one, [other]) == 0.0


def test_an_empty_answer_and_no_right_answer_are_worth_nothing() -> None:
    assert exact_match("", [""]) == exact_match("...", ["?"]) == exact_match("left", []) == 0.0
    assert token_f1("", ["left"]) == token_f1("left", []) == token_f1("", [""]) == 0.0


@given(WORDS, st.lists(WORDS, max_size=3))
def test_f1_is_that_of_the_best_right_answer_counted_by_hand(given_words: list[str], right: list[list[str]]) -> None:
    def by_hand(wanted: list[str]) -> float:
        free, hits = list(wanted), 0
        for word in given_words:
            if word in free:
                free.remove(word)
                hits += 1
        if not hits:
            return 0.0
        precision, recall = hits / len(given_words), hits / len(wanted)
        return 2 * precision * recall / (precision + recall)

    expected = max((by_hand(wanted) for wanted in right), default=0.0)
    assert token_f1(" ".join(given_words), [" ".join(wanted) for wanted in right]) == pytest.approx(expected)


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_scores_are_in_range_and_normalising_twice_changes_nothing(predicted: str, right: list[str]) -> None:
    assert 0.0 <= exact_match(predicted, right) <= token_f1(predicted, right) <= 1.0
    assert normalised_answer(normalised_answer(predicted)) == normalised_answer(predicted)
