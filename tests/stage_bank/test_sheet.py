"""The sheet of a state: everything public and the reference of each case can be read on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.stages import Focus, Outcome, Track
from rubrics.layout import cases_of
from stage_bank.picture import Picture
from stage_bank.sheet import draw_sheet
from stage_bank.sheet_lines import MOST_COLUMNS, MOST_LINES, sheet_lines
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS, Fabricated
from tests.stage_bank.track_cases import fabricated

every_track = pytest.mark.parametrize("track", list(TRACKS))


def texts_of(made: Fabricated, case: str) -> tuple[list[str], list[str]]:
    """Public lines and reference lines of a case."""
    folder = f"cases/{case}/"
    public = {path.removeprefix(folder): data for path, data in made.files.items() if path.startswith(folder)}
    texts = {name: data for name, data in public.items() if name.endswith(".json")}
    return sheet_lines(texts, case), sheet_lines(made.references, case)


@every_track
def test_no_public_text_of_any_case_is_cut(track: Track, pictures: list[Picture]) -> None:
    for seed, kind in enumerate(TRACKS[track].facets["kind"]):
        _, made = fabricated(track, pictures, seed, kind=kind)
        for case in cases_of(made.files):
            public, _ = texts_of(made, case)
            assert "Rows: 64" in public
            assert public[-1] != "…"


@every_track
def test_a_sheet_has_a_row_for_every_case_with_ink_in_its_text(track: Track, pictures: list[Picture]) -> None:
    condition, made = fabricated(track, pictures, 2)
    hidden = {f"references/{path}": data for path, data in made.references.items()}
    state = TrainingState(Focus.E2E, track, Outcome.SUCCESS, "p", "prompt", made.files, hidden, condition)
    sheet = np.asarray(draw_sheet(state).convert("L"))
    rows = np.array_split(sheet[-len(cases_of(made.files)) * (256 + 22 + 24) :, 304:560], len(cases_of(made.files)))
    assert all((row < 128).sum() > 100 for row in rows)


def test_question_options_and_the_right_label_can_be_read(pictures: list[Picture]) -> None:
    _, made = fabricated(Track.VQA, pictures, 3, kind="location")
    public, reference = texts_of(made, "case2")
    words = " ".join(" ".join(public).split())
    assert "brightest marker?" in words
    assert "upper left" in words
    assert reference[1].removeprefix("label: ") in "ABCDE"
    assert not any("case1" in line for line in reference)


def test_findings_and_the_right_report_can_be_read(pictures: list[Picture]) -> None:
    _, made = fabricated(Track.REPORT, pictures, 3, kind="units")
    public, reference = texts_of(made, "case2")
    assert sum("true" in line for line in public) == sum("false" in line for line in public) == 2
    assert "Impression: 2 present, 2 absent." in reference


@given(st.dictionaries(st.sampled_from(["header.json", "question.json", "a.txt"]), st.binary(max_size=400)))
def test_any_bytes_become_few_short_lines(texts: dict[str, bytes]) -> None:
    lines = sheet_lines(texts, "case1")
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= MOST_COLUMNS and "\n" not in line for line in lines)


def test_what_is_too_long_ends_in_an_ellipsis_and_the_header_comes_last() -> None:
    lines = sheet_lines({"header.json": b'{"Rows": 64}', "question.json": b"word " * 1000}, "case1")
    assert (lines[0], lines[-1], len(lines)) == ("question.json", "…", MOST_LINES)
    assert sheet_lines({"header.json": b'{"Rows": 64}', "z.json": b"[1]"}, "case1") == [
        "z.json",
        "[1]",
        "header.json",
        "Rows: 64",
    ]
