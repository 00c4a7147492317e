from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import BankError
from common.stages import Focus, Outcome, Track
from stage_bank.state import TrainingState

FILES = st.dictionaries(st.text(min_size=1, max_size=20), st.binary(max_size=50), max_size=4)
STATES = st.builds(
    TrainingState,
    focus=st.sampled_from(Focus),
    track=st.sampled_from(Track),
    outcome=st.sampled_from(Outcome),
    patient=st.text(max_size=10),
    prompt=st.text(max_size=30),
    files=FILES,
    hidden=FILES,
    condition=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
)


@given(STATES)
def test_bytes_round_trip_and_decide_the_identity(state: TrainingState) -> None:
    again = TrainingState.from_bytes(state.to_bytes())
    assert again == state
    assert again.state_id == state.state_id


@given(STATES, STATES)
def test_different_states_have_different_identities(one: TrainingState, other: TrainingState) -> None:
    assert (one == other) == (one.state_id == other.state_id)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema_version": 2}', b"\xff", b'{"schema_version": 1}'])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(BankError, match="not a training state"):
        TrainingState.from_bytes(data)


def test_an_unknown_track_is_refused() -> None:
    state = TrainingState(Focus.S1, Track.VQA, Outcome.SUCCESS, "p", "q", {}, {}, {})
    fields = {**json.loads(state.to_bytes()), "track": "astrology"}
    with pytest.raises(BankError):
        TrainingState.from_bytes(json.dumps(fields).encode())
