"""Seeded faults: each shows itself, its own repair gives the case back, and no other repair does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.canonical import Json
from stage_bank.skills import COLUMNS, FAULTS, LABEL_MAP, ROWS, Case, SkillError, find_fault, mend, parse_case
from stage_bank.tracks._faults import FAULT_SEEDS, Stored, stated_for

NAMES = ("none", *FAULTS)


def right_case(seed: int) -> Stored:
    """A dark picture with a bright spot: nothing of it looks like a fault."""
    pixels = np.random.default_rng(seed).uniform(0.1, 0.4, (ROWS, COLUMNS)).astype(np.float32).astype(np.float64)
    header: dict[str, Json] = {"Rows": ROWS, "Columns": COLUMNS, "RescaleSlope": 1.0}
    return Stored(pixels, {**header, **stated_for(pixels, tuple(FAULTS))})


def spoilt(fault: str, seed: int) -> Case:
    return parse_case("case1", FAULT_SEEDS[fault](right_case(seed), np.random.default_rng(seed)).files())


def test_every_fault_can_be_seeded() -> None:
    assert set(FAULT_SEEDS) == set(NAMES)


@given(st.sampled_from(NAMES), st.integers(0, 1000))
def test_a_fault_is_found_and_its_repair_gives_the_case_back(fault: str, seed: int) -> None:
    case, right = spoilt(fault, seed), right_case(seed)
    assert find_fault(case) == fault
    mended = mend(case, fault)
    assert mended.header["LabelMap"] == LABEL_MAP
    close = np.isclose(mended.pixels, right.pixels, atol=1e-6)
    assert close.mean() > 0.94 if fault == "nan" else close.all()


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 1000))
def test_no_other_repair_mends_it(fault: str, repair: str, seed: int) -> None:
    if repair != fault:
        with pytest.raises(SkillError, match=f"fault remains|repair {repair} not needed"):
            mend(spoilt(fault, seed), repair)


@pytest.mark.parametrize("files", [{}, {"image.npy": b"\x93NUMPY"}, {"header.json": b"{}", "image.npy": b""}])
def test_a_case_that_cannot_be_read_at_all_says_so(files: dict[str, bytes]) -> None:
    with pytest.raises(SkillError, match="case case1 unreadable"):
        parse_case("case1", files)
