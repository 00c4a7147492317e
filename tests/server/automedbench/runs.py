"""Run directories in AutoMedBench's layout, honest ones, with their references."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image

__all__ = ["TASKS", "honest", "nifti", "npy", "write_cases"]

PLAN = """# Plan
Load and normalise the input, run the model, predict, then save and validate.
Candidates considered:
- {0}
- another one
- a third one
"""
LOG = [
    {"code": "import torch; model = torch.load('m')", "output": "", "exit_code": 0},
    {"code": "print(x.shape, torch.cuda.is_available())", "output": "(4, 4)", "exit_code": 0},
    {"code": "y = run('case1'); np.save('agents_outputs/case1/y', y)", "output": "", "exit_code": 0},
    {"code": "print(y.min(), y.max())", "output": "0 1", "exit_code": 0},
    {"code": "for name in names: np.save(f'agents_outputs/{name}/y', run(name))", "output": "", "exit_code": 0},
]
CASES = ("case1", "case2", "case3")


def nifti(values: np.ndarray) -> bytes:
    return bytes(nibabel.Nifti1Image(values.astype(np.uint8), np.eye(4)).to_bytes())


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def segmentation(number: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    organ = np.zeros((12, 10, 4))
    organ[2:8, 2:8] = 1
    lesion = np.zeros_like(organ)
    lesion[3:5, 3:5] = number > 0
    files = {"organ.nii.gz": nifti(organ), "lesion.nii.gz": nifti(lesion)}
    return files, files


def enhancement(number: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    image = np.random.default_rng(number).random((24, 20)).astype(np.float32)
    return {"enhanced.npy": npy(image)}, {"reference.npy": npy(image), "input.npy": npy(image * 0.5)}


def detection(number: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    box = {"class": "nodule", "x1": 2 + 9 * number, "y1": 3, "x2": 12 + 9 * number, "y2": 9}
    truth = {"boxes": [box], "width": 40, "height": 30}
    return {"prediction.json": json.dumps({"boxes": [{**box, "score": 0.9}]}).encode()}, {
        "boxes.json": json.dumps(truth).encode()
    }


def vqa(number: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    given = {"question_id": f"q{number}", "predicted_label": "C", "predicted_answer": "left lung"}
    if number == 2:
        return {"answer.json": json.dumps({**given, "predicted_label": ""}).encode()}, {
            "reference.json": json.dumps({"question_id": "q2", "answers": ["The left lung"]}).encode()
        }
    truth = {"question_id": f"q{number}", "label": "C"}
    return {"answer.json": json.dumps(given).encode()}, {"reference.json": json.dumps(truth).encode()}


def report(number: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    text = f"There is a nodule of {number + 4} mm in the right upper lobe. No effusion is seen.\n".encode()
    return {"report.txt": text}, {"report.txt": text, "entities.json": json.dumps(["nodule", "no effusion"]).encode()}


TASKS: dict[str, Callable[[int], tuple[dict[str, bytes], dict[str, bytes]]]] = {
    "segmentation": segmentation,
    "enhancement": enhancement,
    "detection": detection,
    "vqa": vqa,
    "report": report,
}
METHODS = {"segmentation": "nnU-Net", "enhancement": "BM3D", "detection": "YOLO", "vqa": "LLaVA", "report": "MAIRA"}


def write_cases(root: Path, cases: dict[str, dict[str, bytes]]) -> None:
    for case, files in cases.items():
        for name, content in files.items():
            (root / case).mkdir(parents=True, exist_ok=True)
            (root / case / name).write_bytes(content)


def honest(root: Path, task: str) -> tuple[Path, Path]:
    """A run that did everything right, and the reference."""
    run, reference = root / "run", root / "reference"
    made = {case: TASKS[task](number) for number, case in enumerate(CASES)}
    write_cases(run / "agents_outputs", {case: output for case, (output, _) in made.items()})
    write_cases(reference, {case: truth for case, (_, truth) in made.items()})
    for folder in ("plan", "process"):
        (run / folder).mkdir()
    (run / "plan" / "plan.md").write_text(PLAN.format(METHODS[task]))
    Image.new("RGB", (80, 60)).save(run / "plan" / "plan.png")
    (run / "process" / "tool_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LOG))
    (run / "process" / "messages.json").write_text(
        json.dumps([{"role": "assistant", "content": "All cases are done."}])
    )
    return run, reference
