from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.artifacts import Pipeline, read_object, read_pipeline
from rubrics.layout import PIPELINE, SETUP, SUBMISSION

OPTIONS = {
    "method": ("smooth", "median"),
    "polarity": ("keep", "invert"),
    "level": ("1", "2", "3"),
    "repair": ("none", "axes"),
    "deliver": ("keep", "flip"),
}


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[1]",
        b'"text"',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b"{" * 100_000,
        b'{"a":' * 9_000 + b"1" + b"}" * 9_000,
        b'{"a": "' + b"x" * 70_000 + b'"}',
    ],
    ids=["none", "empty", "not utf-8", "list", "string", "nan", "infinity", "repeated", "open", "deep", "long"],
)
def test_what_is_not_a_strict_object_is_nothing(data: bytes | None) -> None:
    assert read_object(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert read_object(data) is None or isinstance(read_object(data), dict)
    files = {PIPELINE: data, SETUP: data, SUBMISSION: data}
    assert set(read_pipeline(files, OPTIONS).choices) <= set(OPTIONS)


def test_choices_come_from_the_file_of_their_stage() -> None:
    files = {
        PIPELINE: json.dumps({"method": "median", "polarity": "keep", "level": 2, "candidates": 3, "repair": "axes"}),
        SETUP: json.dumps({"repair": "none"}),
        SUBMISSION: json.dumps({"deliver": "flip", "method": "smooth"}),
    }
    pipeline = read_pipeline({path: text.encode() for path, text in files.items()}, OPTIONS)
    chosen = {"method": "median", "polarity": "keep", "level": "2", "repair": "none", "deliver": "flip"}
    assert pipeline == Pipeline(chosen, 3)
    assert pipeline.planned


@pytest.mark.parametrize("candidates", [0, -1, True, "3", 3.0, 10**9, None])
def test_a_count_that_is_none_makes_no_plan(candidates: object) -> None:
    plan = {"method": "median", "polarity": "keep", "level": "2", "candidates": candidates}
    pipeline = read_pipeline({PIPELINE: json.dumps(plan).encode()}, OPTIONS)
    assert pipeline.candidates == 0
    assert not pipeline.planned


def test_shell_in_a_choice_is_no_choice() -> None:
    plan = {"method": "median; rm -rf /", "polarity": ["keep"], "level": True, "candidates": 3}
    assert read_pipeline({PIPELINE: json.dumps(plan).encode()}, OPTIONS).choices == {}
