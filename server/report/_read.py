"""Reading a run directory, at any moment of the run: what is not there yet is left open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import BatError, ConfigurationError
from common.files import read_regular
from common.ledger import GENESIS, Event, read_ledger
from common.messages import SelectionReason
from common.stages import Stage, Track
from server.config import load_federation_config
from server.report.record import GateRecord, Practice, ReleaseRecord, RoundRecord, RunRecord, Scores, SealedScores

__all__ = ["PRACTICE_FILE", "read_run"]

PRACTICE_FILE = "practice.json"

MOST = 1e15
"""Larger figures are not believed."""

MOST_ROUNDS = 100_000
"""As in the settings of a run."""


def read_run(path: Path) -> RunRecord:
    """Gather what a run directory says.

    Args:
        path: a directory made by `server.run_directory.RunDirectory`.

    Raises:
        ConfigurationError: it is not a run directory, or one of its files cannot be read.
    """
    config = load_federation_config(path / "config.toml")
    state = _json(path / "state.json")
    lines = _metrics(path / "metrics.jsonl")
    events = _events(path / "ledger.jsonl")
    try:
        return RunRecord(
            run=config.run,
            seed=config.seed,
            sites=tuple(sorted(site.name for site in config.sites)),
            rounds_planned=config.rounds,
            aggregation=config.aggregation,
            differential_privacy=False,
            start=_scores(lines[0]) if 0 in lines else None,
            rounds=_rounds(lines, events),
            sealed=_sealed(path),
            complete=state.get("step") == "complete",
            state=_state_text(state),
            versions=_json(path / "versions.json"),
            ledger_events=len(events),
            ledger_head=events[-1].digest if events else GENESIS,
            practice=_practice(path / PRACTICE_FILE),
            wall_s=round(events[-1].time_unix - events[0].time_unix, 1) if events else 0.0,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError("the run directory cannot be read", where=f"{path}: {error!r}") from error


def _json(path: Path) -> dict[str, Any]:
    """An object, empty while the file is missing."""
    try:
        value = json.loads(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError("cannot read a file of the run", where=str(path)) from error
    return value if isinstance(value, dict) else {}


def _metrics(path: Path) -> dict[int, dict[str, Any]]:
    """Round to its line; a last line that is still being written is left out."""
    try:
        data = read_regular(path)
    except OSError:
        return {}
    whole = data[: data.rfind(b"\n") + 1].splitlines()
    try:
        lines = [json.loads(line) for line in whole]
        return {int(line["round"]): line for line in lines}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigurationError("cannot read the metrics of the run", where=str(path)) from error


def _events(path: Path) -> list[Event]:
    """The ledger's events; none while the run has not begun or the last line is just being written."""
    if not path.exists():
        return []
    try:
        return list(read_ledger(path))
    except BatError:
        return []


def _scores(line: Mapping[str, Any]) -> Scores | None:
    if "overall" not in line:
        return None
    return Scores(
        overall=_share(line["overall"]),
        task=_share(line["task"]),
        agentic=_share(line["agentic"]),
        stages={Stage(name): _share(score) for name, score in line["stages"].items()},
        tracks={Track(name): _share(score) for name, score in line["tracks"].items()},
    )


def _rounds(lines: Mapping[int, Mapping[str, Any]], events: Sequence[Event]) -> tuple[RoundRecord, ...]:
    finished = [_round(lines[number]) for number in sorted(lines) if number > 0]
    following = _unfinished(len(finished) + 1, events)
    return (*finished, following) if following is not None else tuple(finished)


def _round(line: Mapping[str, Any]) -> RoundRecord:
    return RoundRecord(
        number=_count(line["round"], MOST_ROUNDS),
        target=Stage(line["target_stage"]),
        reason=SelectionReason(line["selection_reason"]),
        candidate=_scores(line),
        gate=_gate(line),
        releases=tuple(_release(one) for one in line["releases"]),
        absent={str(site): str(why) for site, why in line["absent"].items()},
        wall_s=_number(line["wall_s"], 0.0),
    )


def _release(fields: Mapping[str, Any]) -> ReleaseRecord:
    counts = (_count(fields["round"], MOST_ROUNDS), _count(fields["tensors"]), _count(fields["bytes"]))
    return ReleaseRecord(str(fields["site"]), *counts, str(fields["digest"]))


def _gate(line: Mapping[str, Any]) -> GateRecord | None:
    gate = line["gate"]
    if gate is None:
        return None
    checks = {str(name): bool(held) for name, held in gate["checks"].items()}
    drops = (_number(gate["deltas"][name], -1.0, 1.0) for name in ("overall_drop", "task_drop"))
    return GateRecord(bool(gate["promoted"]), checks, *drops)


def _sealed(path: Path) -> SealedScores | None:
    fields = _json(path / "sealed.json")
    if not fields:
        return None
    return SealedScores(*(_share(fields[name]) for name in ("cold_start", "final", "oracle", "fixed_script")))


def _practice(path: Path) -> tuple[Practice, ...]:
    sites = _json(path).items()
    return tuple(
        Practice(name, tuple(_number(reward) for reward in one["rewards"]), _number(one["bank_wait_s"], 0.0))
        for name, one in sites
    )


def _unfinished(number: int, events: Sequence[Event]) -> RoundRecord | None:
    """A round that has no line in the metrics yet, from what the ledger says of it."""
    bodies = [(event.kind, event.body) for event in events if isinstance(event.body, dict)]
    of_round = [(kind, body) for kind, body in bodies if body.get("round") == number]
    prescription: Mapping[str, Any] | None = next((body for kind, body in of_round if kind == "prescription"), None)
    if prescription is None:
        return None
    received = [_release(body) for kind, body in of_round if kind == "release_received"]
    return RoundRecord(
        number=number,
        target=Stage(prescription["target_stage"]),
        reason=SelectionReason(prescription["selection_reason"]),
        candidate=None,
        gate=None,
        releases=tuple(sorted(received, key=lambda release: release.site)),
        absent={str(body["site"]): str(body["reason"]) for kind, body in of_round if kind == "rejected"},
        wall_s=None,
    )


def _state_text(state: Mapping[str, Any]) -> str:
    step = state.get("step")
    if step is None:
        return "not started"
    if step == "complete":
        return "complete"
    if step == "failed":
        return f"failed: {state.get('reason', '')}"
    where = f"round {state['round']}" if state.get("round") else "before the first round"
    return f"unfinished, {where}: {step}"


def _number(value: object, least: float = -MOST, most: float = MOST) -> float:
    """A finite number within bounds: the page is drawn from it, and a folder from elsewhere may hold anything."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"not a number from {least:g} to {most:g}")
    return float(value)


def _share(value: object) -> float:
    return _number(value, 0.0, 1.0)


def _count(value: object, most: int = int(MOST)) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"not a count up to {most}")
    return value
