"""States and rounds as JSON Lines in the published field names of BaT, with a manifest that binds them by digest.

A row says which cell a state belongs to and carries its prompt. Files, references, the hidden condition and the patient
stay in the bank: rows can be shown to others, and training on them needs the bank they came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from common.canonical import Json, canonical_json, digest_bytes, digest_json
from common.errors import DataError
from common.stages import Focus, Outcome, SourcePool, Stage, Track
from stage_bank.materialise.rounds import POOL_ODDS, RoundRow
from stage_bank.prompts import messages, user_prompt
from stage_bank.store.rows import BankRow

__all__ = ["read_round", "read_sources", "round_lines", "round_manifest", "source_lines"]

SCHEMA_VERSION = 1
GROUP_SIZE = 4
"""Continuations of a state, as published."""

_FALSE_FLAGS: Mapping[str, Json] = {
    "assistant_target_included": False,
    "model_specific_serialization": False,
    "rollout_transcript_reuse_allowed": False,
    "teacher_trajectory_included": False,
}
_PROVENANCE: Mapping[str, Json] = {
    "evaluation_content_used": False,
    "source": "site_stage_bank",
    "transformation": "fabricated on de-identified images of the site",
}
_DATA_SOURCE = "federated_bat/stage_bank"


def source_lines(rows: Iterable[BankRow]) -> bytes:
    """One source row a state: JSON Lines, keys sorted, each row with the digest of the others of its fields."""
    return b"".join(_line(_source_row(row)) for row in rows)


def round_lines(rows: Iterable[RoundRow], target_stage: Stage) -> bytes:
    """One round row a group, in the order of training."""
    return b"".join(_line(_round_row(row, target_stage)) for row in rows)


def round_manifest(
    round_id: str, target_stage: Stage, rows: Sequence[RoundRow], source: tuple[str, bytes], train: tuple[str, bytes]
) -> dict[str, Json]:
    """The `bat_three_pool_round` manifest.

    Args:
        round_id: as materialised.
        target_stage: as materialised.
        rows: the round.
        source: file name and content of the source rows.
        train: file name and content of the round rows.
    """
    batch = max((row.slot + 1 for row in rows), default=0)
    return {
        "artifact_kind": "bat_three_pool_round",
        "schema_version": SCHEMA_VERSION,
        "round_id": round_id,
        "target_stage": target_stage.value,
        "batches": max((row.batch + 1 for row in rows), default=0),
        "rows": len(rows),
        "rows_per_batch": batch,
        "continuations_per_state": GROUP_SIZE,
        "pool_rows_per_batch": {pool.value: int(share * batch) for pool, share in POOL_ODDS.items()},
        "source": {"file": source[0], "sha256": digest_bytes(source[1])},
        "train": {"file": train[0], "sha256": digest_bytes(train[1])},
    }


def read_sources(data: bytes) -> list[tuple[str, Focus, Track, Outcome]]:
    """The id and cell of every source row.

    Raises:
        DataError: a line is not a source row of this version, was changed, or stands twice.
    """
    found: dict[str, tuple[str, Focus, Track, Outcome]] = {}
    for number, fields in _rows(data):
        try:
            stated = fields.pop("row_sha256")
            if fields["schema_version"] != SCHEMA_VERSION or stated != digest_json(fields):
                raise ValueError("version or digest")
            name = fields["source_state_id"]
            cell = Focus(fields["focus_stage"]), Track(fields["track"]), Outcome(fields["outcome_bucket"])
            if name in found or fields != _without_digest(_source_row(BankRow(name, *cell, ""))):
                raise ValueError("repeated, or not of this form")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError("not a source row, or a changed one", where=f"line {number}") from error
        found[name] = (name, *cell)
    return list(found.values())


def read_round(data: bytes, manifest: Mapping[str, Any], known: Iterable[BankRow]) -> list[RoundRow]:
    """The rows of a round, matched with the bank they came from.

    Args:
        data: round rows.
        manifest: of the round.
        known: rows of the bank.

    Raises:
        DataError: the rows are not those of the manifest, a line is malformed, or a state is not in this bank.
    """
    train = manifest.get("train")
    if not isinstance(train, Mapping) or train.get("sha256") != digest_bytes(data):
        raise DataError("the round is not the one of its manifest", remedy="Export it again.")
    by_id = {row.state_id: row for row in known}
    rows = []
    for number, fields in _rows(data):
        try:
            extra = fields["extra_info"]
            row = RoundRow(
                state_id=str(extra["state_id"]),
                source=by_id[extra["source_state_id"]],
                pool=SourcePool(extra["source_pool"]),
                batch=int(extra["core_batch_index"]),
                slot=int(extra["core_batch_slot"]),
                view=int(extra["view_index"]),
            )
            if fields != _round_row(row, Stage(extra["target_stage"])):
                raise ValueError("not of this form")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError("not a round row of this bank", where=f"line {number}") from error
        rows.append(row)
    return rows


def _source_row(row: BankRow) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "source_state_id": row.state_id,
        "focus_stage": row.focus.value,
        "track": row.track.value,
        "outcome_bucket": row.outcome.value,
        "abstract_condition": f"{row.track.value}, {row.focus.value}, earlier stages: {row.outcome.value}",
        "training_contract": {"prompt_only": True, **_FALSE_FLAGS},
        "provenance": dict(_PROVENANCE),
    }
    return {**fields, "row_sha256": digest_json(fields)}


def _without_digest(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if name != "row_sha256"}


def _round_row(row: RoundRow, target_stage: Stage) -> dict[str, Json]:
    source = row.source
    return {
        "data_source": _DATA_SOURCE,
        "prompt": [dict(message) for message in messages(user_prompt(source.track, source.focus))],
        "ability": f"automedbench:{source.focus.value}",
        "reward_model": {"style": "custom"},
        "extra_info": {
            "state_id": row.state_id,
            "source_state_id": source.state_id,
            "target_stage": target_stage.value,
            "source_pool": row.pool.value,
            "focus_stage": source.focus.value,
            "outcome_bucket": source.outcome.value,
            "track": source.track.value,
            "view_index": row.view,
            **_FALSE_FLAGS,
            "reward_contract": "rubrics.training",
            "provenance": dict(_PROVENANCE),
            "core_batch_index": row.batch,
            "core_batch_slot": row.slot,
        },
    }


def _line(fields: Mapping[str, Json]) -> bytes:
    return canonical_json(dict(fields)) + b"\n"


def _rows(data: bytes) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(data.splitlines(), 1):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError("not JSON", where=f"line {number}") from error
        if not isinstance(fields, dict):
            raise DataError("not a JSON object", where=f"line {number}")
        yield number, fields
