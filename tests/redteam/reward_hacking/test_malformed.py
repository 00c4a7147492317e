"""Malformed artifacts by the thousand: no exception escapes, and no score leaves [0, 1]."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.canonical import digest_bytes
from common.sandbox import Language, Record, Recorder, Sandbox
from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from rubrics import Replayer, collect_evidence, evaluate, training_reward
from rubrics.layout import CHECK, PILOT_RECORD, PIPELINE, PLAN_TEXT, SETUP, SUBMISSION, VERIFY
from server.automedbench import TASKS, score_run
from stage_bank.scripts import oracle_commands
from stage_bank.state import TrainingState
from stage_bank.tasks import task_of
from tests.server.automedbench.runs import honest

MakeState = Callable[..., TrainingState]
QUICK, SLOW = 100, 5000
"""Examples of each of the two kinds; 10,000 in all in the slow suite."""

ODD = ("NaN", "Infinity", "-1", "1e999", "9" * 400, "null", "true", '""', "[]", "{}", '"\\ud800"', "[" * 2000, "-0.0")
"""JSON, or nearly so, that readers stumble over."""


@st.composite
def malformed(draw: st.DrawFn, whole: bytes) -> bytes:
    """An honest file, spoiled: bytes flipped, cut, doubled or replaced, a JSON value exchanged, or bytes of no kind."""
    kind = draw(st.sampled_from(("flip", "cut", "insert", "double", "value", "noise", "empty", "zeros")))
    place = draw(st.integers(0, max(len(whole) - 1, 0)))
    if kind == "flip" and whole:
        # headers are where readers decide what to allocate and how to go on
        place = draw(st.one_of(st.just(place), st.integers(0, min(len(whole) - 1, 400))))
        return whole[:place] + draw(st.binary(min_size=1, max_size=8)) + whole[place + 1 :]
    if kind == "cut":
        return whole[:place]
    if kind == "insert":
        return whole[:place] + draw(st.binary(max_size=40)) + whole[place:]
    if kind == "double":
        return whole + whole
    if kind == "value":
        parts = whole.split(b": ")
        at = draw(st.integers(0, len(parts) - 1))
        rest = b"," + parts[at].split(b",", 1)[1] if b"," in parts[at] else b"}"
        return b": ".join([*parts[:at], draw(st.sampled_from(ODD)).encode() + rest, *parts[at + 1 :]])
    return {"empty": b"", "zeros": bytes(len(whole))}.get(kind, draw(st.binary(max_size=300)))


def in_bounds(scores: Mapping[Any, float | None] | list[float | None]) -> bool:
    values = scores.values() if isinstance(scores, Mapping) else scores
    return all(value is None or 0.0 <= value <= 1.0 for value in values)


def spoil_a_run(data: st.DataObject) -> None:
    """One or more files of an honest run directory, spoiled."""
    task = data.draw(st.sampled_from(list(TASKS)))
    with tempfile.TemporaryDirectory() as root:
        run, reference = honest(Path(root), task)
        files = sorted(path for path in run.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True)):
            path.write_bytes(data.draw(malformed(path.read_bytes())))
        result: dict[str, Any] = score_run(run, reference, task)
    json.dumps(result, allow_nan=False)
    assert in_bounds([result["overall"], result["agentic"], result["task_score"], *result["stage_scores"].values()])
    assert in_bounds([item["value"] for stage in result["stages"].values() for item in stage["items"]])


@settings(max_examples=QUICK, deadline=None, database=None)
@given(st.data())
def test_spoiled_run_directories(data: st.DataObject) -> None:
    spoil_a_run(data)


@pytest.mark.slow
@settings(max_examples=SLOW, deadline=None, database=None)
@given(st.data())
def test_thousands_of_spoiled_run_directories(data: st.DataObject) -> None:
    spoil_a_run(data)


Rollout = tuple[TrainingState, Record, dict[str, bytes]]


@pytest.fixture(scope="module")
def rollouts(make_state: MakeState, toolkit_sandbox: Sandbox) -> list[Rollout]:
    """Honest whole rollouts."""
    made = []
    for track in (Track.ENHANCEMENT, Track.VQA):
        state = make_state(track, Focus.E2E, Outcome.SUCCESS)
        session = toolkit_sandbox.open(state.files)
        for command in oracle_commands(state):
            session.execute(Language.BASH, command)
        made.append((state, session.seal(), session.files()))
        session.close()
    return made


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: digest_bytes(content) for path, content in files.items()}


FOREIGN = (*(f"agents_outputs/case{n}/x" for n in (1, 9)), "plan/../x", "process/batch/" + "d/" * 14 + "x", "a\nb", "é")


def spoil_a_rollout(data: st.DataObject, rollouts: list[Rollout], key: SigningKey, replayer: Replayer) -> None:
    """Files at the end of an honest rollout, spoiled, dropped or added."""
    state, played, files = data.draw(st.sampled_from(rollouts))
    final = dict(files)
    short = [path for path in (PIPELINE, SETUP, SUBMISSION, CHECK, PILOT_RECORD, VERIFY, PLAN_TEXT) if path in final]
    for path in data.draw(st.lists(st.sampled_from(short + sorted(final)), min_size=1, max_size=4, unique=True)):
        if data.draw(st.booleans()):
            final[path] = data.draw(malformed(files[path]))
        else:
            del final[path]
    final |= dict.fromkeys(data.draw(st.lists(st.sampled_from(FOREIGN), max_size=2)), b"x")
    focus = data.draw(st.sampled_from(list(Focus)))
    task = replace(task_of(state), focus=focus)
    recorder = Recorder(key, played.opening.backend, digests(state.files))
    for receipt in played.receipts:
        recorder.add(receipt)
    record, rollout = recorder.seal(digests(final)), recorder.rollout
    evidence = collect_evidence(task, record, final, key=key.public, rollout=rollout, replayer=replayer)
    reward, scores = training_reward(evidence), evaluate(evidence)
    assert in_bounds([reward.value, scores.task, scores.agentic, scores.overall])
    assert in_bounds(scores.stages)
    assert all(in_bounds([verdict.value]) and verdict.reason for stage in scores.reasons.values() for verdict in stage)
    assert evidence.breach is None, "a spoiled file is a failure, not an escape"


relaxed = settings(
    deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(relaxed, max_examples=QUICK)
@given(data=st.data())
def test_spoiled_workspaces(
    data: st.DataObject, rollouts: list[Rollout], sandbox_key: SigningKey, replayer: Replayer
) -> None:
    spoil_a_rollout(data, rollouts, sandbox_key, replayer)


@pytest.mark.slow
@settings(relaxed, max_examples=SLOW)
@given(data=st.data())
def test_thousands_of_spoiled_workspaces(
    data: st.DataObject, rollouts: list[Rollout], sandbox_key: SigningKey, replayer: Replayer
) -> None:
    spoil_a_rollout(data, rollouts, sandbox_key, replayer)
