"""Report files: whole and printable, or refused; nothing in one stops the verifier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.stages import Track
from rubrics.layout import BATCH
from stage_bank.picture import Picture
from stage_bank.skills import DELIVERIES, SKILLS
from stage_bank.tracks import TRACKS
from tests.stage_bank.track_cases import fabricated

FORM = SKILLS["report"].form
SHAPE = (64, 48)
LINES = (
    "right upper zone: hyperdense nodule, 12 mm.",
    "left lower zone: no effusion.",
    "Impression: 1 present, 1 absent.",
)


@given(st.integers(0), st.sampled_from(DELIVERIES))
def test_a_report_that_was_cut_short_is_none(at: int, delivery: str) -> None:
    whole = FORM.encode(FORM.turn(LINES, delivery))
    try:
        lines = FORM.restore(FORM.decode(whole[: at % (len(whole) - 1)]), delivery)
    except ValueError:
        return
    assert not FORM.fits(lines, SHAPE)


@pytest.mark.parametrize(
    "sign", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\x00", "\r", "\t"]
)
def test_what_cannot_be_printed_is_refused(sign: str) -> None:
    for text in (sign.join(LINES), "\n".join(LINES).replace("nodule", f"nod{sign}ule")):
        with pytest.raises(ValueError, match="no report"):
            FORM.decode(text.encode())


def test_lines_may_end_as_other_systems_end_them() -> None:
    assert FORM.decode("\r\n".join(LINES).encode()) == LINES


@pytest.mark.parametrize("data", [b"", b"short.", b"\xff" * 60, b"1" * 60, ("e" * 8001).encode(), b"e" * 32001])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no report|too long|codec"):
        FORM.decode(data)


@pytest.mark.parametrize("count", ["9" * 5000, "-1", "1e0", "\u0661", "", "2"])
def test_an_impression_that_does_not_count_the_lines_is_no_report_and_stops_nothing(
    count: str, pictures: list[Picture]
) -> None:
    _, made = fabricated(Track.REPORT, pictures, 1)
    text = "\n".join((*LINES[:2], f"Impression: {count} present, 1 absent."))
    outputs = {f"{BATCH}/case1/{FORM.file_name}": text.encode()}
    assert TRACKS[Track.REPORT].score(outputs, made.files, made.references, BATCH)["case1"] is None
