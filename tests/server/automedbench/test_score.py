"""`bat-server score`: what an agent's run directory is worth, and that nothing in it can break or fool the scorer."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from common.errors import DataError
from rubrics.metrics import psnr
from server.automedbench import TASKS, Tier, score_run
from server.cli import main as bat_server
from tests.server.automedbench.runs import CASES, honest, nifti, npy

every_task = pytest.mark.parametrize("task", list(TASKS))


def statuses(result: dict[str, Any]) -> list[str]:
    return [row["status"] for row in result["cases"]]


@every_task
def test_an_honest_run_earns_everything_that_can_be_decided(tmp_path: Path, task: str) -> None:
    result: dict[str, Any] = score_run(*honest(tmp_path, task), task)
    assert result["stage_scores"] == dict.fromkeys(("S1", "S2", "S3", "S4", "S5"), 1.0)
    assert (result["task_score"], result["agentic"], result["overall"]) == (pytest.approx(1.0),) * 3
    assert (result["error_code"], result["isolation_breach"], result["completion_rate"]) == (None, None, 1.0)
    shows = result["stages"]["S1"]["items"][-1]
    assert (shows["item"], shows["value"]) == ("picture shows", None)
    assert all(item["reason"] for stage in result["stages"].values() for item in stage["items"])


@every_task
def test_a_missing_case_fails_the_task_but_not_the_completion(tmp_path: Path, task: str) -> None:
    run, reference = honest(tmp_path, task)
    shutil.rmtree(run / "agents_outputs" / "case2")
    result: dict[str, Any] = score_run(run, reference, task)
    assert result["task_score"] == 0.0
    assert result["stage_scores"]["S4"] == pytest.approx(0.5 * 2 / 3)
    assert result["stage_scores"]["S5"] == 0.5
    assert statuses(result) == ["scored", "missing", "scored"]
    assert result["error_code"] == "E1", "it said that all cases are done"


@every_task
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x1f\x8b\x08", b"\x93NUMPY", b"{", b"[[[[", b"\xff" * 400])
def test_an_invalid_case_is_a_matter_of_form(tmp_path: Path, task: str, content: bytes) -> None:
    run, reference = honest(tmp_path, task)
    for file in (run / "agents_outputs" / "case3").iterdir():
        file.write_bytes(content)
    result: dict[str, Any] = score_run(run, reference, task)
    assert statuses(result) == ["scored", "scored", "invalid"]
    assert (result["task_score"], result["error_code"]) == (0.0, "E5")
    assert (result["stage_scores"]["S4"], result["completion_rate"]) == (0.5, 1.0)


@every_task
def test_without_a_log_what_needs_one_is_unscored_and_drops_out(tmp_path: Path, task: str) -> None:
    run, reference = honest(tmp_path, task)
    shutil.rmtree(run / "process")
    result: dict[str, Any] = score_run(run, reference, task)
    assert (result["stage_scores"]["S2"], result["stage_scores"]["S3"]) == (None, None)
    assert result["agentic"] == pytest.approx(1.0)


def test_an_empty_run_earns_nothing(tmp_path: Path) -> None:
    _, reference = honest(tmp_path, "report")
    (tmp_path / "empty").mkdir()
    result: dict[str, Any] = score_run(tmp_path / "empty", reference, "report")
    assert (result["overall"], result["task_score"], result["completion_rate"]) == (0.0, 0.0, 0.0)
    assert result["error_code"] == "E3"
    lite: dict[str, Any] = score_run(tmp_path / "empty", reference, "report", Tier.LITE)
    assert lite["stage_scores"]["S1"] == 0.5


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"code": "run()", "output": "torch.cuda.OutOfMemoryError: CUDA out of memory", "exit_code": 1}, "E2"),
        ({"code": "run()", "output": "Traceback (most recent call last)\nKeyError: 'x'"}, "E4"),
        ({"code": "run()", "output": "fine", "exit_code": 0}, "E1"),
    ],
)
def test_the_earliest_root_cause_names_the_error(tmp_path: Path, last: dict[str, Any], code: str) -> None:
    run, reference = honest(tmp_path, "vqa")
    shutil.rmtree(run / "agents_outputs")
    (run / "process" / "tool_log.jsonl").write_text(json.dumps(last) + "\n" + json.dumps({"output": "ImportError: x"}))
    result: dict[str, Any] = score_run(run, reference, "vqa")
    if code == "E1":
        (run / "process" / "tool_log.jsonl").write_text(json.dumps(last) + "\n")
        result = dict(score_run(run, reference, "vqa"))
    assert result["error_code"] == code, result["error_reason"]


@every_task
def test_reaching_for_the_truth_zeroes_the_run(tmp_path: Path, task: str) -> None:
    run, reference = honest(tmp_path, task)
    shutil.rmtree(run / "agents_outputs" / "case1")
    (run / "agents_outputs" / "case1").symlink_to(reference / "case1")
    result: dict[str, Any] = score_run(run, reference, task)
    assert "a link leads out" in result["isolation_breach"]
    assert (result["overall"], set(result["stage_scores"].values())) == (0.0, {0.0})
    (run / "agents_outputs" / "case1").unlink()
    with (run / "process" / "tool_log.jsonl").open("a") as stream:
        stream.write(json.dumps({"code": f"cp -r {reference.resolve()} ."}) + "\n")
    again: dict[str, Any] = score_run(run, reference, task)
    assert (again["isolation_breach"], again["overall"]) == ("an execution names the reference folder", 0.0)


def test_lesions_count_where_there_are_some_and_organs_everywhere(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "segmentation")
    empty = nifti(np.zeros((12, 10, 4)))
    for case in CASES:
        (run / "agents_outputs" / case / "lesion.nii.gz").write_bytes(empty)
        (run / "agents_outputs" / case / "agents_decision.csv").write_text(
            f"patient_id,organ,lesion_present\n{case},x,0\n"
        )
    result: dict[str, Any] = score_run(run, reference, "segmentation")
    assert result["task_score"] == pytest.approx(0.5)
    assert result["task_metrics"] == {
        "organ_dice": 1.0,
        "lesion_dice": 0.0,
        "decision_accuracy": pytest.approx(1 / 3),
    }


def test_one_map_of_classes(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "segmentation")
    truth = np.zeros((8, 8, 2))
    truth[:4], truth[4:6] = 1, 2
    wrong = np.where(truth == 2, 0, truth)
    for case in CASES:
        for root in (run / "agents_outputs", reference):
            shutil.rmtree(root / case)
            (root / case).mkdir()
        (reference / case / "label.nii.gz").write_bytes(gzip.compress(nifti(truth)))
        (run / "agents_outputs" / case / "mine.nii.gz").write_bytes(nifti(wrong))
    result: dict[str, Any] = score_run(run, reference, "segmentation")
    assert result["task_score"] == pytest.approx(0.5)
    assert result["cases"][0]["metrics"] == {"dice_1": 1.0, "dice_2": 0.0, "mean_dice": 0.5}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("organ.nii.gz", nifti(np.full((12, 10, 4), 2)), "not binary"),
        ("organ.nii.gz", nifti(np.zeros((10, 12, 4))), "shape"),
        ("lesion.nii.gz", gzip.compress(bytes(200)), "cannot|not a NIfTI"),
        ("lesion.nii.gz", gzip.compress(nifti(np.zeros((12, 10, 4))))[:-20], "cut short|gzip"),
    ],
)
def test_masks_that_cannot_count(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    run, reference = honest(tmp_path, "segmentation")
    (run / "agents_outputs" / "case1" / name).write_bytes(content)
    result: dict[str, Any] = score_run(run, reference, "segmentation")
    assert result["cases"][0]["status"] == "invalid"
    assert any(part in result["cases"][0]["reason"] for part in reason.split("|"))


@pytest.mark.parametrize(
    "array",
    [np.full((24, 20), np.nan), np.zeros((20, 24)), np.zeros(480), np.full((24, 20), "x"), np.zeros((24, 20), complex)],
)
def test_images_that_cannot_count(tmp_path: Path, array: np.ndarray) -> None:
    run, reference = honest(tmp_path, "enhancement")
    (run / "agents_outputs" / "case1" / "enhanced.npy").write_bytes(npy(array))
    result: dict[str, Any] = score_run(run, reference, "enhancement")
    assert statuses(result) == ["invalid", "scored", "scored"]


def test_enhancement_agrees_with_scikit_image_and_lies_between_input_and_truth(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "enhancement")
    truth = np.load(reference / "case1" / "reference.npy")
    made = (truth + 0.1 * np.random.default_rng(5).random(truth.shape)).astype(np.float32)
    (run / "agents_outputs" / "case1" / "enhanced.npy").write_bytes(npy(made))
    result: dict[str, Any] = score_run(run, reference, "enhancement")
    row = result["cases"][0]["metrics"]
    options = {
        "gaussian_weights": True,
        "sigma": 1.5,
        "use_sample_covariance": False,
        "data_range": float(np.ptp(truth)),
    }
    similar = structural_similarity(made.astype(float), truth.astype(float), **options)
    untouched = structural_similarity(truth.astype(float) * 0.5, truth.astype(float), **options)
    assert row["ssim"] == pytest.approx(similar)
    assert row["score"] == pytest.approx((similar - untouched) / (1 - untouched), abs=1e-6)
    expected = peak_signal_noise_ratio(truth.astype(float), made.astype(float), data_range=float(np.ptp(truth)))
    assert row["psnr"] == pytest.approx(expected)
    assert psnr(truth, truth, 1.0) == 99.0


@pytest.mark.parametrize(
    "fields",
    [
        {"question_id": "other", "predicted_label": "C", "predicted_answer": "left lung"},
        {"question_id": "q0", "predicted_label": "F", "predicted_answer": "left lung"},
        {"question_id": "q0", "predicted_label": "C", "predicted_answer": "Placeholder: C"},
        {"question_id": "q0", "predicted_label": "C", "predicted_answer": "unknown"},
        {"question_id": "q0", "predicted_answer": "left lung"},
    ],
)
def test_answers_that_are_none(tmp_path: Path, fields: dict[str, str]) -> None:
    run, reference = honest(tmp_path, "vqa")
    (run / "agents_outputs" / "case1" / "answer.json").write_text(json.dumps(fields))
    result: dict[str, Any] = score_run(run, reference, "vqa")
    assert statuses(result) == ["invalid", "scored", "scored"]


def test_a_denied_entity_is_not_named(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "report")
    text = "There is no nodule of any size in the right upper lobe. An effusion is seen.\n"
    (run / "agents_outputs" / "case1" / "report.txt").write_text(text)
    result: dict[str, Any] = score_run(run, reference, "report")
    assert result["cases"][0]["metrics"]["entity_f1"] == 0.0
    assert 0.3 < result["cases"][0]["metrics"]["rouge_l"] < 1.0


def test_boxes_outside_the_image_and_wrong_boxes(tmp_path: Path) -> None:
    run, reference = honest(tmp_path, "detection")
    box = {"class": "nodule", "x1": 2, "y1": 3, "x2": 41, "y2": 9}
    (run / "agents_outputs" / "case1" / "prediction.json").write_text(json.dumps({"boxes": [box]}))
    assert statuses(score_run(run, reference, "detection")) == ["invalid", "scored", "scored"]
    for case in CASES:
        (run / "agents_outputs" / case / "prediction.json").write_text('{"boxes": []}')
    result: dict[str, Any] = score_run(run, reference, "detection")
    assert (result["task_score"], result["error_code"]) == (0.0, "E3")


@pytest.mark.parametrize(
    ("log", "score"),
    [
        ([{"code": "np.save('agents_outputs/case1/x', y)"}, {"code": "print(y.max())", "output": "1"}], 1.0),
        (
            [
                {"code": "for c in cases: np.save(f'agents_outputs/{c}/x', y)"},
                {"code": "print(y.max())", "output": "1"},
            ],
            0.5,
        ),
        (
            [
                {"code": "for c in cases: np.save(f'agents_outputs/{c}/x', y)"},
                {"code": "print(y.shape)", "output": "4"},
            ],
            0.2,
        ),
        ([{"code": "for c in cases: np.save(f'agents_outputs/{c}/x', y)"}], 0.0),
        ([{"code": "np.save('agents_outputs/case1/x', y)", "exit_code": 1}], 0.0),
    ],
)
def test_how_far_a_case_was_validated_before_the_batch(tmp_path: Path, log: list[dict[str, Any]], score: float) -> None:
    run, reference = honest(tmp_path, "enhancement")
    (run / "process" / "tool_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    result: dict[str, Any] = score_run(run, reference, "enhancement")
    assert result["stage_scores"]["S3"] == score


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(TASKS)), st.binary(max_size=300), st.binary(max_size=200), st.binary(max_size=200))
def test_nothing_in_a_run_raises_or_leaves_the_range(task: str, output: bytes, log: bytes, plan: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        run, reference = honest(Path(root), task)
        for file in (run / "agents_outputs" / "case2").iterdir():
            whole = file.read_bytes()
            file.write_bytes(
                output if len(output) % 2 else whole[: len(whole) // 2] + output + whole[len(whole) // 2 :]
            )
        (run / "process" / "tool_log.jsonl").write_bytes(log + b"\n[1]\n{}\n" + log)
        (run / "process" / "messages.json").write_bytes(log)
        (run / "plan" / "plan.md").write_bytes(plan)
        (run / "plan" / "plan.png").write_bytes(plan)
        result: dict[str, Any] = score_run(run, reference, task)
    scores = [result["overall"], result["agentic"], result["task_score"], *result["stage_scores"].values()]
    assert all(score is None or 0.0 <= score <= 1.0 for score in scores)
    json.dumps(result, allow_nan=False)


def test_the_command_prints_one_object_or_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, reference = honest(tmp_path, "vqa")
    options = ["--layout", "automedbench", "--reference", str(reference), "--task", "vqa"]
    assert bat_server(["score", str(run), *options]) == 0
    assert json.loads(capsys.readouterr().out)["overall"] == pytest.approx(1.0)
    assert bat_server(["score", str(tmp_path / "nowhere"), *options]) == 1
    assert "not a folder" in capsys.readouterr().err
    (reference / "case1" / "reference.json").write_text("{}")
    assert bat_server(["score", str(run), *options]) == 1
    assert "neither label nor answer" in capsys.readouterr().err
    for case in CASES:
        shutil.rmtree(reference / case)
    with pytest.raises(DataError, match="no case"):
        score_run(run, reference, "vqa")
