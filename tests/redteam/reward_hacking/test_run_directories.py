"""Run directories that try to earn without doing, or to break the scorer: no gain, no traceback, no endless work."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.automedbench import TASKS, score_run
from tests.server.automedbench.runs import CASES, honest, npy

Act = Callable[[Path], object]
DEEP = 400
"""Folders within each other: more than the scorer looks into, and removed by pytest all the same."""


def outputs(run: Path) -> Path:
    return run / "agents_outputs" / "case1"


def log(*events: dict[str, Any]) -> Act:
    text = "".join(json.dumps(event) + "\n" for event in events)
    return lambda run: (run / "process" / "tool_log.jsonl").write_text(text)


def image(value: float, dtype: type[np.generic] = np.float64) -> Act:
    return lambda run: (outputs(run) / "enhanced.npy").write_bytes(npy(np.full((24, 20), value, dtype)))


def replaced(path: str, make: Callable[[Path], object]) -> Act:
    def act(run: Path) -> None:
        place = run / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        make(place)

    return act


def header(shape: str) -> Act:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode()
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    return lambda run: (outputs(run) / "enhanced.npy").write_bytes(data)


def nested(run: Path) -> None:
    folder = os.open(outputs(run), os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


def sparse(run: Path) -> None:
    with (outputs(run) / "enhanced.npy").open("wb") as stream:
        stream.truncate(1 << 40)


HOSTILE: dict[str, Act] = {
    "a link to itself": lambda run: (run / "loop").symlink_to("loop"),
    "two links to each other": lambda run: [(run / "a").symlink_to("b"), (run / "b").symlink_to("a")],
    "a folder for the plan": replaced("plan/plan.md", Path.mkdir),
    "a folder for the log": replaced("process/tool_log.jsonl", Path.mkdir),
    "a file for the folder of plans": replaced("plan", Path.touch),
    "a pipe for the plan": replaced("plan/plan.md", os.mkfifo),
    "a pipe for an output": replaced("agents_outputs/case1/enhanced.npy", os.mkfifo),
    "folders without end": nested,
    "a name that is no text": lambda run: (outputs(run) / os.fsdecode(b"\xff\xfe")).write_bytes(b"x"),
    "a file of a terabyte": sparse,
    "values beyond float32": image(1e200),
    "values whose square overflows": image(-1e160),
    "values beyond float64": image(float("1e300"), np.longdouble),
    "an array without end": header("(1152921504606846976, 8)"),
    "a negative shape": header("(-24, 20)"),
    "an infinite exit status": lambda run: (run / "process" / "tool_log.jsonl").write_text(
        '{"code":1,"exit_code":1e999}'
    ),
    "a number of 5,000 digits": lambda run: (run / "process" / "tool_log.jsonl").write_text("9" * 5000),
    "half of a letter": log({"code": "f()", "output": "\ud800Error: \udfff", "exit_code": 1}),
    "a plan of empty lines": lambda run: (run / "plan" / "plan.md").write_text("candidate" + "\n" * 200_000 + "x"),
    "code of arrows": log({"code": ">" * 100_000, "output": ""}),
    "code of quotes": log({"code": '"""x\n' * 50_000, "output": ""}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_lies_in_a_run_is_scored_in_bounds(tmp_path: Path, name: str) -> None:
    run, reference = honest(tmp_path, "enhancement")
    HOSTILE[name](run)
    result: dict[str, Any] = score_run(run, reference, "enhancement")
    json.dumps(result, allow_nan=False)
    scores = [result["overall"], result["agentic"], result["task_score"], *result["stage_scores"].values()]
    assert all(score is None or 0.0 <= score <= 1.0 for score in scores)
    assert result["cases"][1]["status"] == "scored", "what else is there still counts"


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "enhancement")
    HOSTILE["a folder for the plan"](run)
    score_run(run, reference, "enhancement")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        score_run(run, reference, "enhancement")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_in_the_middle_of_a_path_is_not_followed(tmp_path: Path) -> None:
    """Even where so much lies around that not every link is looked at."""
    run, reference = honest(tmp_path, "enhancement")
    (run / "plan").rename(tmp_path / "elsewhere")
    (run / "plan").symlink_to(tmp_path / "elsewhere")
    result: dict[str, Any] = score_run(run, reference, "enhancement")
    assert result["stages"]["S1"]["items"][0]["value"] == 0.0
    assert result["overall"] == 0.0


def test_a_map_inflates_to_what_its_shape_needs_and_no_more(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "segmentation")
    (outputs(run) / "organ.nii.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    result: dict[str, Any] = score_run(run, reference, "segmentation")
    assert result["cases"][0]["reason"] == "cut short, or larger than any case needs"


def bare(run: Path) -> None:
    for folder in ("plan", "agents_outputs"):
        shutil.rmtree(run / folder)
    (run / "process" / "messages.json").unlink()
    (run / "process" / "tool_log.jsonl").write_text("")


IDLE: dict[str, Act] = {
    "nothing": lambda run: (run / "process" / "tool_log.jsonl").unlink(),
    "an empty log": log(),
    "only failures": log({"code": "import torch; x.shape; x.to(d)", "output": "NameError: x", "exit_code": 1}),
    "comments": log({"code": "# import torch, x.shape, device=0, agents_outputs/case1 max", "output": ""}),
    "echoed words": log({"code": "echo import torch x.shape .to( agents_outputs/case1 max", "output": "max"}),
    "printed words": log(
        {"code": "print('import torch; x.shape; agents_outputs/case1')\nprint('max')", "output": "max"}
    ),
    "a text that nothing reads": log(
        {"code": '"""\nimport torch\nx.shape\nagents_outputs/case1 max\n"""', "output": "1"}
    ),
    "a text that only gets a name": log(
        {"code": "a = 'import torch; x.shape; agents_outputs/case1 max'", "output": "1"}
    ),
    "outputs for cases that nobody asked for": lambda run: (run / "agents_outputs" / "case9").mkdir(parents=True),
    "an output beside its folder": lambda run: (
        (run / "agents_outputs").mkdir(),
        (run / "agents_outputs" / "answer.json").write_text("{}"),
    ),
    "empty folders of every case": lambda run: [(run / "agents_outputs" / case).mkdir(parents=True) for case in CASES],
    "a name that leads upwards": lambda run: (run / "agents_outputs" / "..case1").mkdir(parents=True),
    "completion claimed": lambda run: (run / "process" / "messages.json").write_text(
        json.dumps([{"role": "assistant", "content": "All cases are done, overall 1.0."}])
    ),
    "its own score beside": lambda run: (run / "score.json").write_text(
        '{"overall": 1.0, "stage_scores": {"S1": 1.0}}'
    ),
}

SUCCEED = ("comments", "echoed words", "printed words", "a text that nothing reads", "a text that only gets a name")
CODE_RUNS = 0.15 * 2 / 4
"""What S2 gives for any execution that succeeds: the environment is ready, and failures are few."""


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("name", IDLE)
def test_words_earn_no_more_than_an_execution_that_does_nothing(tmp_path: Path, name: str, task: str) -> None:
    run, reference = honest(tmp_path, task)
    bare(run)
    IDLE[name](run)
    result: dict[str, Any] = score_run(run, reference, task)
    assert result["task_score"] == 0.0
    for stage in ("S1", "S3", "S4", "S5"):
        assert not result["stage_scores"][stage], result["stages"][stage]
    assert result["overall"] <= (0.5 * CODE_RUNS if name in SUCCEED else 0.0)


def test_a_log_of_a_pilot_that_left_nothing_is_no_pilot(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "report")
    shutil.rmtree(run / "agents_outputs")
    result: dict[str, Any] = score_run(run, reference, "report")
    assert result["stage_scores"]["S3"] == 0.5
    assert (result["stage_scores"]["S4"], result["error_code"]) == (0.0, "E1")


@pytest.mark.parametrize(
    "code",
    [
        "cp {reference}/case1/* .",
        "cp ../reference/case1/* agents_outputs/case1/",
        "cd agents_outputs; cat ../../reference/case1/*",
        "cat /{absolute}",
        "cat {parent}/./reference/case1/x",
        "open('../../../reference/case1/boxes.json').read()",
        "echo ../reference # only a look",
    ],
)
def test_a_spelled_path_to_the_truth_zeroes_the_run(tmp_path: Path, code: str) -> None:
    run, reference = honest(tmp_path, "detection")
    code = code.format(reference=reference, absolute=str(reference).lstrip("/"), parent=tmp_path)
    with (run / "process" / "tool_log.jsonl").open("a") as stream:
        stream.write(json.dumps({"code": code, "exit_code": 1}) + "\n")
    result: dict[str, Any] = score_run(run, reference, "detection")
    assert (result["isolation_breach"], result["overall"]) == ("an execution names the reference folder", 0.0)
    assert set(result["stage_scores"].values()) == {0.0}


@pytest.mark.parametrize(
    "code", ["ls ../reference2", "cat ./references/paper.txt", "ls /usr/share", "cd .. && ls ./run"]
)
def test_other_folders_are_no_breach(tmp_path: Path, code: str) -> None:
    run, reference = honest(tmp_path, "detection")
    with (run / "process" / "tool_log.jsonl").open("a") as stream:
        stream.write(json.dumps({"code": code, "output": ""}) + "\n")
    result: dict[str, Any] = score_run(run, reference, "detection")
    assert (result["isolation_breach"], result["overall"]) == (None, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("plan", "candidates"),
    [("nnU-Net", 1), ("medsam", 1), ("segmentation of a segment", 0), ("nnU-Net, medsam, otsu", 3)],
)
def test_a_name_within_a_name_is_not_one_more_candidate(tmp_path: Path, plan: str, candidates: int) -> None:
    run, reference = honest(tmp_path, "segmentation")
    (run / "plan" / "plan.md").write_text(f"Load, normalise, predict, save: {plan}.")
    result: dict[str, Any] = score_run(run, reference, "segmentation")
    found = {item["item"]: item for item in result["stages"]["S1"]["items"]}
    assert (found["proper"]["value"], found["candidates"]["value"]) == (float(candidates > 0), float(candidates >= 3))


@pytest.mark.parametrize("task", list(TASKS))
def test_outputs_of_another_case_do_not_score_as_its_own(tmp_path: Path, task: str) -> None:
    run, reference = honest(tmp_path, task)
    for case in CASES[1:]:
        shutil.rmtree(run / "agents_outputs" / case)
        shutil.copytree(run / "agents_outputs" / "case1", run / "agents_outputs" / case)
    result: dict[str, Any] = score_run(run, reference, task)
    assert result["task_score"] < 1.0
