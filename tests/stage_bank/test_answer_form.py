"""Answer files: only a whole answer to the question that was asked counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.stages import Track
from rubrics.layout import BATCH, cases_of
from stage_bank.picture import Picture
from stage_bank.skills import DELIVERIES, SKILLS
from stage_bank.skills.answer_form import LABELS, Answer
from stage_bank.skills.vqa import QUESTION
from stage_bank.tracks import TRACKS
from tests.stage_bank.track_cases import fabricated

FORM = SKILLS["vqa"].form
SHAPE = (64, 48)
WHOLE = json.loads(FORM.encode(Answer("case1 question", "B", "upper left")))

said = st.text(st.characters(codec="utf-8"), max_size=60)


@given(said, st.sampled_from(LABELS), said, st.sampled_from(DELIVERIES))
def test_an_answer_comes_back(question: str, label: str, text: str, delivery: str) -> None:
    answer = Answer(question, label, text)
    delivered = FORM.encode(FORM.turn(answer, delivery))
    assert FORM.restore(FORM.decode(delivered), delivery) == answer


@pytest.mark.parametrize(
    "text",
    ["", "  ", "unknown", " Unknown.", "heuristic: left", "FALLBACK: A", "placeholder:", "mock:x", "dummy:", "stub:"],
)
def test_a_filler_is_no_answer(text: str) -> None:
    assert not FORM.fits(Answer("case1 question", "B", text), SHAPE)


@pytest.mark.parametrize("text", ["4.2", "unknown mass", "mocking", "upper left"])
def test_an_answer_that_only_looks_like_a_filler_is_one(text: str) -> None:
    assert FORM.fits(Answer("case1 question", "B", text), SHAPE)


@pytest.mark.parametrize("field", list(WHOLE))
@pytest.mark.parametrize("value", [None, [], {}, True, -1, "x" * 5000, float("nan"), float("inf")], ids=repr)
def test_a_field_of_another_type_is_refused(field: str, value: object) -> None:
    missing = {name: content for name, content in WHOLE.items() if name != field}
    for fields in (missing, {**missing, field: value}):
        with pytest.raises(ValueError, match=r"no answer|no run time|too long"):
            FORM.decode(json.dumps(fields).encode())


@pytest.mark.parametrize("label", ["", "F", "a", "AB"])
def test_a_label_that_no_option_has_is_none(label: str) -> None:
    assert not FORM.fits(Answer("case1 question", label, "left"), SHAPE)
    with pytest.raises(ValueError, match="no such label"):
        FORM.restore(Answer("case1 question", label, "left"), "flip")


def test_only_the_right_label_of_the_question_that_was_asked_earns(pictures: list[Picture]) -> None:
    _, made = fabricated(Track.VQA, pictures, 3)

    def worth(name: str, question: str, label: str) -> float | None:
        outputs = {f"{BATCH}/{name}/{FORM.file_name}": FORM.encode(Answer(question, label, "said"))}
        return TRACKS[Track.VQA].score(outputs, made.files, made.references, BATCH)[name]

    for name in cases_of(made.files):
        asked = json.loads(made.files[f"cases/{name}/{QUESTION}"])["question_id"]
        assert sorted(worth(name, asked, label) or 0.0 for label in LABELS) == [0.0] * 4 + [1.0]
        assert [worth(name, "another question", label) for label in LABELS] == [0.0] * 5
