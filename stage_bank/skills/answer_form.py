"""Outputs that are answers to questions with five options: `answer.json`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

from .delivery import Form

__all__ = ["LABELS", "LABEL_ORDERS", "Answer", "answer_form", "decode_answer", "encode_answer"]

LABELS = ("A", "B", "C", "D", "E")
"""Labels of the options, first to last."""

LABEL_ORDERS = {"keep": LABELS, "flip": LABELS[::-1], "turn": (*LABELS[1:], LABELS[0])}
"""Delivery to the labels that the options have, first to last."""

LONGEST = 4096
"""Most bytes of a file."""

TEXTS = ("question_id", "predicted_label", "predicted_answer", "raw_model_output", "model_name")
"""Fields of a file that are texts (AutoMedBench)."""

FILLERS = ("unknown", "heuristic:", "fallback:", "placeholder:", "mock:", "dummy:", "stub:")
"""How a text begins that stands in for an answer; "unknown" is one only when nothing follows (AutoMedBench)."""


@dataclass(frozen=True)
class Answer:
    """One answer.

    Args:
        question: identifier of the question.
        label: of the chosen option; empty when none was chosen.
        text: the answer in words.
    """

    question: str
    label: str
    text: str


def answer_form(file_name: str) -> Form:
    """The form of answers that are written to a file of that name."""
    return Form(
        file_name=file_name,
        encode=encode_answer,
        decode=decode_answer,
        field="OptionLabels",
        stated=LABEL_ORDERS,
        turn=_turn,
        restore=_restore,
        fits=lambda answer, shape: answer.label in LABELS and not _is_filler(answer.text),
    )


def encode_answer(answer: Answer) -> bytes:
    """An answer with the fields of AutoMedBench."""
    fields = {
        "question_id": answer.question,
        "predicted_label": answer.label,
        "predicted_answer": answer.text,
        "raw_model_output": answer.text,
        "model_name": "bat",
        "runtime_s": 0.0,
    }
    return json.dumps(fields).encode()


def decode_answer(data: bytes) -> Answer:
    """Read an answer file that may be hostile.

    Raises:
        ValueError: too long, no JSON object, or a field is missing or of another type.
    """
    if len(data) > LONGEST:
        raise ValueError("too long")
    try:
        fields = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name), str) for name in TEXTS):
        raise ValueError("no answer")
    seconds = fields.get("runtime_s")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < math.inf:
        raise ValueError("no run time")
    return Answer(fields["question_id"], fields["predicted_label"], fields["predicted_answer"])


def _is_filler(text: str) -> bool:
    said = text.strip().casefold()
    return not said or said.rstrip(".") == FILLERS[0] or said.startswith(FILLERS[1:])


def _turn(answer: Answer, delivery: str) -> Answer:
    place = LABELS.index(answer.label) if answer.label in LABELS else None
    return answer if place is None else replace(answer, label=LABEL_ORDERS[delivery][place])


def _restore(answer: Answer, delivery: str) -> Answer:
    if answer.label not in LABELS:
        raise ValueError("no such label")
    return replace(answer, label=LABELS[LABEL_ORDERS[delivery].index(answer.label)])
