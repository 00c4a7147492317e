"""`bat-server gate` on published summaries: numbers at the thresholds, refusals, and the run's own gate beside it."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import DataError
from common.stages import STAGES, Track
from server import gate_command
from server.cli import main
from server.evaluation import Cell, summarise
from server.gate import decide
from server.gate_command import gate_lines
from server.published import gate_pair, read_summary

UNIT = st.floats(0, 1)
Summary = dict[str, Any]


def summary(
    overall: float = 0.5, task: float = 0.5, *, stages: Any = None, tracks: Any = None, checkpoint: str = "a" * 64
) -> Summary:
    return {
        "schema_version": 1,
        "artifact_kind": "bat_eval_summary",
        "status": "valid",
        "checkpoint_sha256": checkpoint,
        "cells": [{"track": "vqa", "task_id": f"t{n}", "repeat": 0} for n in range(3)],
        "means": {"task": task, "agentic": 0.5, "overall": overall},
        "stage_scores": {stage.value: 0.5 for stage in STAGES} | (stages or {}),
        "track_scores": tracks or {"vqa": 0.5},
    }


def answers(*lines: object) -> list[Any]:
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines) + b"\n"
    out = io.StringIO()
    gate_lines(io.BytesIO(data), out)
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(found) == len(lines)
    return found


def answer(baseline: Summary, candidate: Summary, healthy: bool = True) -> Any:
    (found,) = answers({"baseline": baseline, "candidate": candidate, "healthy": healthy})
    return found


def failing(found: Any) -> set[str]:
    return {name for name, holds in found["gate"]["checks"].items() if not holds}


@pytest.mark.parametrize(
    ("before", "after", "fails"),
    [
        (0.01, 0.0, set()),
        (0.5, 0.49, {"overall_noninferiority"}),  # 0.5 - 0.49 is 0.010000000000000009
        (0.1 + 0.2, 0.29, {"overall_noninferiority"}),  # 0.010000000000000064
        (0.30, 0.29, {"overall_noninferiority"}),
        (0.51, 0.5, {"overall_noninferiority"}),
        (0.0101, 0.0001, set()),
        (0.2, 0.0, {"overall_noninferiority", "catastrophic_forgetting"}),
        (0.5, 0.3, {"overall_noninferiority", "catastrophic_forgetting"}),  # exactly 0.2: not below
        (0.5, 0.30000000000000004, {"overall_noninferiority"}),
    ],
)
def test_overall_drops_are_compared_as_floats(before: float, after: float, fails: set[str]) -> None:
    assert failing(answer(summary(before), summary(after))) == fails


@pytest.mark.parametrize(
    ("candidate", "baseline", "check"),
    [
        (summary(task=0.0), lambda drop: summary(task=drop), "task_noninferiority"),
        (summary(tracks={"vqa": 0.0}), lambda drop: summary(tracks={"vqa": drop}), "per_track_regression"),
        *(
            (summary(stages={late: 0.0}), lambda drop, late=late: summary(stages={late: drop}), "late_stage_regression")
            for late in ("S3", "S4", "S5")
        ),
    ],
)
def test_a_drop_exactly_at_its_limit_passes_and_the_next_float_fails(
    candidate: Summary, baseline: Callable[[float], Summary], check: str
) -> None:
    import math

    limit = 0.05 if check == "per_track_regression" else 0.03
    assert failing(answer(baseline(limit), candidate)) == set()
    assert failing(answer(baseline(math.nextafter(limit, 1)), candidate)) == {check}


def test_early_stages_may_fall_and_the_prescription_says_what_is_practised_next() -> None:
    found = answer(summary(), summary(stages={"S2": 0.1}, checkpoint="b" * 64))
    assert found["gate"]["status"] == "promote"
    assert found["gate"]["deltas"]["stage_drops"]["S2"] == pytest.approx(0.4)
    prescription = found["prescription"]
    assert prescription["artifact_kind"] == "bat_round_prescription"
    assert (prescription["target_stage"], prescription["selection_reason"]) == ("S2", "lowest_candidate_stage")
    assert prescription["starting_checkpoint_sha256"] == "b" * 64
    assert prescription["aggregate_stage_scores"]["S2"] == 0.1


@pytest.mark.parametrize(
    ("candidate", "target", "reason"),
    [
        ({"S2": 0.4, "S4": 0.3}, "S4", "largest_positive_regression"),
        ({"S4": 0.4, "S2": 0.4 + 5e-13}, "S2", "largest_positive_regression"),
        ({"S4": 0.4, "S2": 0.4 + 5e-11}, "S4", "largest_positive_regression"),
        ({"S5": 0.5 - 1e-13}, "S1", "largest_positive_regression"),
        ({}, "S1", "lowest_candidate_stage"),
        ({stage.value: 0.9 for stage in STAGES} | {"S3": 0.7}, "S3", "lowest_candidate_stage"),
    ],
)
def test_a_held_checkpoint_stays_and_practises_what_fell_most(candidate: Any, target: str, reason: str) -> None:
    found = answer(summary(), summary(stages=candidate, checkpoint="b" * 64), healthy=False)
    prescription = found["prescription"]
    assert "training_health" in failing(found)
    assert prescription["promotion_status"] == "hold"
    assert prescription["starting_checkpoint_sha256"] == "a" * 64
    assert (prescription["target_stage"], prescription["selection_reason"]) == (target, reason)


def without(name: str) -> Summary:
    return {key: value for key, value in summary().items() if key != name}


def changed(**fields: Any) -> Summary:
    return summary() | fields


CELL = {"track": "vqa", "task_id": "t0", "repeat": 0}
REFUSED = [
    (None, "not an object"),
    ([], "not an object"),
    ({}, "status"),
    *((without(name), why) for name, why in [("means", "means"), ("cells", "cells"), ("checkpoint_sha256", "64 hex")]),
    *((without(name), name) for name in ("stage_scores", "track_scores", "status")),
    (changed(schema_version=2), "schema version"),
    (changed(artifact_kind="bat_promotion_gate"), "not a bat_eval_summary"),
    (changed(status="complete"), "status"),
    (changed(checkpoint_sha256="A" * 64), "64 hex"),
    (changed(checkpoint_sha256="a" * 63 + "\n"), "64 hex"),
    (changed(cells=[]), "cells"),
    (changed(cells=[CELL, CELL]), "twice"),
    (changed(cells=[CELL | {"repeat": -1}]), "repeat"),
    (changed(cells=[CELL | {"repeat": True}]), "repeat"),
    (changed(cells=[CELL | {"valid": False}]), "not valid"),
    (changed(cells=[7]), "not an object"),
    (changed(cell_count=2), "cell_count"),
    (changed(means={"task": 0.5, "agentic": 0.5}), r"means\.overall"),
    (changed(means={"task": None, "agentic": 0.5, "overall": 0.5}), r"means\.task"),
    (changed(means={"task": True, "agentic": 0.5, "overall": 0.5}), r"means\.task"),
    (changed(means={"task": "0.5", "agentic": 0.5, "overall": 0.5}), r"means\.task"),
    (changed(means={"task": 10**400, "agentic": 0.5, "overall": 0.5}), r"means\.task"),
    (summary(1.0000001), r"means\.overall"),
    (summary(-0.1), r"means\.overall"),
    (summary(stages={"S6": 0.5}), "unknown stage"),
    (changed(stage_scores={stage.value: None for stage in STAGES}), "no score"),
    (summary(tracks={"vqa": None}), "track_scores"),
]


@pytest.mark.parametrize(("bad", "reason"), REFUSED)
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_bad_summary_is_refused_by_name_on_both_sides(bad: Any, reason: str, side: str) -> None:
    pair = {"baseline": summary(), "candidate": summary(), "healthy": True} | {side: bad}
    refused, following = answers(pair, {"baseline": summary(), "candidate": summary()})
    assert set(refused) == {"error"}
    assert side in refused["error"]
    assert following["gate"]["promoted"]
    with pytest.raises(DataError, match=reason):
        read_summary(bad, side)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (changed(cells=summary()["cells"][:2]), "different cells"),
        (changed(cells=[cell | {"repeat": 1} for cell in summary()["cells"]]), "different cells"),
        (summary(tracks={"vqa": 0.5, "report": 0.5}), "different tracks"),
        (summary(tracks={"report": 0.5}), "different tracks"),
        (summary(stages={"S3": None}), "different stages"),
    ],
)
def test_what_cannot_be_paired_is_an_error_not_a_failed_check(candidate: Summary, reason: str) -> None:
    assert reason in answer(summary(), candidate)["error"]
    assert reason in answer(candidate, summary())["error"]


def test_a_stage_without_evidence_on_both_sides_is_left_out() -> None:
    found = answer(summary(stages={"S1": None}), summary(stages={"S1": None}))
    assert "S1" not in found["gate"]["deltas"]["stage_drops"]
    assert found["prescription"]["target_stage"] == "S2"
    assert found["prescription"]["aggregate_stage_scores"]["S1"] is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"baseline": 1, "baseline": 2, "candidate": 3}',
        json.dumps({"baseline": summary(), "candidate": summary(), "healthy": 1}).encode(),
        json.dumps({"baseline": summary(), "candidate": summary(float("nan"))}).encode(),
        json.dumps({"baseline": summary(float("inf")), "candidate": summary()}).encode(),
        b'{"baseline": ' + b"9" * 5000 + b', "candidate": {}}',
    ],
)
def test_a_line_that_is_none_is_answered_and_the_stream_goes_on(line: bytes) -> None:
    refused, good = answers(line, {"baseline": summary(), "candidate": summary()})
    assert set(refused) == {"error"}
    assert "\n" not in refused["error"]
    assert good["gate"]["promoted"]


def test_a_line_or_file_that_is_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = {"baseline": summary(), "candidate": summary()}
    size = len(json.dumps(pair)) + 1
    monkeypatch.setattr(gate_command, "LIMIT_BYTES", size)
    for spaces in (size, size * 3 + 1, size * 7):
        refused, good = answers(b" " * spaces, pair)
        assert "more than" in refused["error"]
        assert good["gate"]["promoted"]
    (tmp_path / "a.json").write_bytes(b" " * size + json.dumps(summary()).encode())
    assert main(["gate", "--baseline", str(tmp_path / "a.json"), "--candidate", str(tmp_path / "a.json")]) == 1
    assert "more than" in capsys.readouterr().err


CELLS = st.lists(
    st.tuples(st.sampled_from(sorted(Track)), st.integers(0, 3), UNIT, UNIT, st.lists(UNIT, min_size=10, max_size=10)),
    min_size=1,
    max_size=8,
    unique_by=lambda cell: cell[:2],
)


@settings(deadline=None, max_examples=60)
@given(CELLS, st.booleans())
def test_the_runs_own_gate_and_the_one_on_its_files_agree_exactly(cells: list[Any], healthy: bool) -> None:
    def evaluated(which: int) -> Any:
        made = [
            Cell(track, f"t{repeat}", repeat, scores[which], dict(zip(STAGES, stages[5 * which :], strict=False)))
            for track, repeat, *scores, stages in cells
        ]
        return summarise(made, "ab"[which] * 64)

    baseline, candidate = evaluated(0), evaluated(1)
    own = gate_pair(baseline, candidate, healthy=healthy)
    assert own["gate"] == decide(baseline, candidate, healthy=healthy).to_json()
    assert answer(baseline.to_json(), candidate.to_json(), healthy) == json.loads(json.dumps(own))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_whatever_stands_in_a_field_is_answered_or_refused(data: st.DataObject) -> None:
    bad = copy.deepcopy(summary())
    place: Any = bad
    key = data.draw(st.sampled_from(sorted(bad)))
    while isinstance(place[key], dict | list) and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(JSON)
    assert set(answer(bad, summary())) in ({"error"}, {"gate", "prescription"})


def test_the_command_prints_one_object_and_one_line_for_a_refusal(tmp_path: Path) -> None:
    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "server.cli", "gate", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=False)

    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(summary()))
    bad.write_text(json.dumps(summary() | {"status": "running"}))
    pair = ("--baseline", str(good), "--candidate", str(good))
    assert json.loads(run(*pair).stdout)["gate"]["promoted"] is True
    assert json.loads(run(*pair, "--unhealthy").stdout)["gate"]["status"] == "hold"
    lines = json.dumps({"baseline": summary(), "candidate": summary(), "healthy": False}).encode() + b"\n{}\n"
    held, refused = run("--jsonl", stdin=lines).stdout.splitlines()
    assert json.loads(held)["gate"]["promoted"] is False
    assert "error" in json.loads(refused)
    for arguments in (
        ("--baseline", str(good), "--candidate", str(bad)),
        ("--baseline", str(good), "--candidate", str(tmp_path / "missing.json")),
        ("--baseline", str(good), "--candidate", str(tmp_path)),
        ("--baseline", str(good)),
        ("--jsonl", *pair),
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert done.stdout == b""
        assert done.stderr.startswith(b"bat-server: ")
        assert done.stderr.count(b"\n") == 1


def evaluation(task_score: float, **fields: Any) -> Summary:
    stages = dict.fromkeys((stage.value for stage in STAGES), 0.5)
    cells = [
        {"track": "vqa", "task_id": f"t{n}", "repeat": 0, "valid": True, "task_score": task_score, "stages": stages}
        for n in range(3)
    ]
    return {"schema_version": 1, "status": "complete", "cells": cells, **fields}


def test_an_evaluation_with_its_cells_is_summarised_first() -> None:
    found = answer(evaluation(0.5), evaluation(0.54, checkpoint_sha256="b" * 64))
    gate, prescription = found["gate"], found["prescription"]
    assert (gate["status"], gate["baseline_checkpoint_sha256"], gate["candidate_checkpoint_sha256"]) == (
        "promote",
        None,
        "b" * 64,
    )
    assert gate["deltas"]["overall_drop"] == pytest.approx(-0.02)
    assert prescription["starting_checkpoint_sha256"] == "b" * 64
    as_summary = summarise([Cell(Track.VQA, f"t{n}", 0, 0.54, dict.fromkeys(STAGES, 0.5)) for n in range(3)], "b" * 64)
    assert answer(evaluation(0.5), as_summary.to_json())["gate"] == gate


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda e: e["cells"][1].update(valid=False), "cell is not valid"),
        (lambda e: e["cells"].append(e["cells"][0]), "stands twice"),
        (lambda e: e["cells"][0].update(agentic_score=0.6), "agentic_score is not the weighted stage mean"),
        (lambda e: e["cells"].clear(), "without cells"),
        (lambda e: e.update(checkpoint_sha256="short"), "64 hex digits"),
        (lambda e: e.update(status="partial"), "neither"),
    ],
)
def test_an_evaluation_that_is_not_whole_is_refused(spoil: Callable[[Summary], None], said: str) -> None:
    whole, spoilt = evaluation(0.5), copy.deepcopy(evaluation(0.5))
    spoil(spoilt)
    assert said in answer(whole, spoilt)["error"]
