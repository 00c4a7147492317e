"""Visual questions: `answer.json`; exact match, and for open questions also F1 over words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from common.errors import DataError
from rubrics.metrics import exact_match, token_f1
from server.automedbench.files import CaseFiles, InvalidOutput
from server.automedbench.task import Graded, Task

__all__ = ["TASK"]

OUTPUT = "answer.json"
REFERENCES = ("reference.json", "question.json", OUTPUT)
"""Names the truth may have: `question_id`, and `label` (A to E) or `answer` or `answers`."""

LABELS = frozenset("ABCDE")
FILLERS = ("heuristic:", "fallback:", "placeholder:", "mock:", "dummy:", "stub:")
EMPTY = frozenset({"", "unknown", "n/a", "none", "null"})
LONGEST = 1 << 20


@dataclass(frozen=True)
class _Truth:
    question: str | None
    label: str | None
    answers: tuple[str, ...]


@dataclass(frozen=True)
class _Answer:
    label: str
    text: str


def _read(case: CaseFiles) -> tuple[_Answer, _Truth]:
    truth = _truth(case.reference)
    fields = _object(case.output[OUTPUT])
    label, text = (fields.get(name) for name in ("predicted_label", "predicted_answer"))
    if truth.question is not None and str(fields.get("question_id")) != truth.question:
        raise InvalidOutput("the answer to another question")
    if isinstance(text, str) and _filler(text) and (truth.label is None or text.strip()):
        raise InvalidOutput("a filler is no answer")
    if truth.label is not None:
        if not isinstance(label, str) or label.strip().upper() not in LABELS:
            raise InvalidOutput("no label from A to E")
        return _Answer(label.strip().upper(), text if isinstance(text, str) else ""), truth
    if not isinstance(text, str):
        raise InvalidOutput("no answer")
    return _Answer("", text), truth


def _filler(text: str) -> bool:
    plain = text.strip().casefold()
    return plain in EMPTY or plain.startswith(FILLERS)


def _object(data: bytes) -> dict[str, Any]:
    if len(data) > LONGEST:
        raise InvalidOutput("too long")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidOutput("not JSON") from error
    if not isinstance(fields, dict):
        raise InvalidOutput("not a JSON object")
    return fields


def _truth(files: Mapping[str, bytes]) -> _Truth:
    name = next((name for name in REFERENCES if name in files), None)
    if name is None:
        raise DataError(f"a reference case needs one of {', '.join(REFERENCES)}")
    try:
        fields = _object(files[name])
    except InvalidOutput as error:
        raise DataError(f"a reference case cannot be read: {error}", where=name) from error
    question = fields.get("question_id")
    label = next((fields[key] for key in ("label", "predicted_label", "correct_label") if fields.get(key)), None)
    answer = next((fields[key] for key in ("answers", "answer", "predicted_answer") if fields.get(key)), ())
    answers = tuple(str(one) for one in answer) if isinstance(answer, list) else (str(answer),) if answer else ()
    if label is None and not answers:
        raise DataError("a reference case has neither label nor answer", where=name)
    return _Truth(
        None if question is None else str(question), None if label is None else str(label).strip().upper(), answers
    )


def _grade(cases: Mapping[str, tuple[_Answer, _Truth]]) -> Graded:
    rows = {name: _row(answer, truth) for name, (answer, truth) in cases.items()}
    scores = [row["score"] or 0.0 for row in rows.values()]
    matches = [row["exact_match"] or 0.0 for row in rows.values()]
    f1 = [row["token_f1"] for row in rows.values() if row["token_f1"] is not None]
    means = {"exact_match": fmean(matches) if matches else None, "token_f1": fmean(f1) if f1 else None}
    return Graded(fmean(scores) if scores else 0.0, means, rows)


def _row(answer: _Answer, truth: _Truth) -> dict[str, float | None]:
    """A choice is right or wrong; an open answer is worth its F1, which is 1 where it matches exactly."""
    if truth.label is not None:
        right = float(answer.label == truth.label)
        return {"exact_match": right, "token_f1": None, "score": right}
    f1 = token_f1(answer.text, truth.answers)
    return {"exact_match": exact_match(answer.text, truth.answers), "token_f1": f1, "score": f1}


TASK = Task(
    name="vqa",
    wanted=OUTPUT,
    there=lambda output, _: OUTPUT in output,
    read=_read,
    grade=_grade,
    methods=(
        "llava", "blip", "biomedclip", "clip", "qwen", "medgemma", "gemma", "gpt", "vision-language", "vlm",
        "multimodal",
    ),
)  # fmt: skip
