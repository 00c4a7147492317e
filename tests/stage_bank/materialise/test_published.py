"""Published rows: there and back, bound by digest, and nothing of a state's content in them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.canonical import canonical_json, digest_bytes
from common.errors import DataError
from common.stages import Focus, Outcome, SourcePool, Stage, Track
from stage_bank.materialise import materialise
from stage_bank.materialise.published import read_round, read_sources, round_lines, round_manifest, source_lines
from stage_bank.store import BankRow

BANK = [
    BankRow(f"{number:064x}", focus, track, outcome, "ab" * 16)
    for number, (focus, track, outcome) in enumerate((f, t, o) for f in Focus for t in Track for o in Outcome)
]
ROUND = materialise(BANK, round_id="published", target_stage=Stage.SUBMIT, tracks=list(Track), batches=5)
SOURCES, TRAIN = source_lines(BANK), round_lines(ROUND, Stage.SUBMIT)
MANIFEST = round_manifest("published", Stage.SUBMIT, ROUND, ("s.jsonl", SOURCES), ("r.jsonl", TRAIN))


def test_both_come_back_as_they_went() -> None:
    assert read_sources(SOURCES) == [(row.state_id, row.focus, row.track, row.outcome) for row in BANK]
    assert read_round(TRAIN, MANIFEST, BANK) == ROUND


def test_the_rows_have_the_published_fields() -> None:
    source, row = json.loads(SOURCES.splitlines()[0]), json.loads(TRAIN.splitlines()[0])
    assert set(source) == {
        "schema_version", "source_state_id", "focus_stage", "track", "outcome_bucket", "abstract_condition",
        "training_contract", "provenance", "row_sha256",
    }  # fmt: skip
    assert set(row) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    extra = row["extra_info"]
    assert (extra["source_pool"], extra["core_batch_index"], extra["core_batch_slot"]) == ("s_target", 0, 0)
    assert row["ability"] == "automedbench:S5"
    assert {name for name, value in extra.items() if value is False} == {
        "assistant_target_included", "teacher_trajectory_included", "rollout_transcript_reuse_allowed",
        "model_specific_serialization",
    }  # fmt: skip
    assert MANIFEST["artifact_kind"] == "bat_three_pool_round"
    assert (MANIFEST["batches"], MANIFEST["rows"], MANIFEST["rows_per_batch"]) == (5, 40, 8)
    assert MANIFEST["pool_rows_per_batch"] == {
        pool.value: rows for pool, rows in zip(SourcePool, (4, 2, 2), strict=True)
    }
    assert MANIFEST["train"] == {"file": "r.jsonl", "sha256": digest_bytes(TRAIN)}


def test_no_patient_is_in_them() -> None:
    assert b"ab" * 16 not in SOURCES + TRAIN


@given(st.integers(0, len(TRAIN) - 1), st.integers(1, 255))
def test_a_changed_round_is_refused(position: int, flip: int) -> None:
    changed = bytearray(TRAIN)
    changed[position] ^= flip
    with pytest.raises(DataError):
        read_round(bytes(changed), MANIFEST, BANK)


@given(st.integers(0, len(SOURCES) - 1), st.integers(1, 255))
def test_a_changed_source_row_is_refused(position: int, flip: int) -> None:
    changed = bytearray(SOURCES)
    changed[position] ^= flip
    try:
        assert read_sources(bytes(changed)) == read_sources(SOURCES)  # white space between two rows
    except DataError:
        return


def _edited(edit: Callable[[dict[str, object]], object]) -> bytes:
    first, *others = TRAIN.splitlines()
    fields = json.loads(first)
    edit(fields)
    return b"\n".join([canonical_json(fields), *others]) + b"\n"


@pytest.mark.parametrize(
    "edit",
    [
        lambda fields: fields["extra_info"].update(source_state_id="f" * 64),
        lambda fields: fields["extra_info"].update(focus_stage="S1"),
        lambda fields: fields["prompt"].append({"role": "assistant", "content": "the answer"}),
        lambda fields: fields.update(extra="field"),
        lambda fields: fields.pop("ability"),
        lambda fields: fields["extra_info"].update(assistant_target_included=True),
    ],
)
def test_rows_of_another_form_are_refused_even_with_a_manifest_that_fits(edit: Callable[..., object]) -> None:
    data = _edited(edit)
    manifest = {**MANIFEST, "train": {"file": "r.jsonl", "sha256": digest_bytes(data)}}
    with pytest.raises(DataError, match="line 1"):
        read_round(data, manifest, BANK)


@pytest.mark.parametrize("data", [b"[]\n", b"{}\n", b"nonsense\n", b"[" * 5000 + b"\n", SOURCES.splitlines()[0] * 2])
def test_what_is_no_source_row_is_one_error(data: bytes) -> None:
    with pytest.raises(DataError, match="line 1"):
        read_sources(data)
