"""Report: `report.txt`; ROUGE-L, and F1 of entities where the reference names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from common.errors import DataError
from rubrics.metrics import entity_f1, rouge_l, words_of
from server.automedbench.files import CaseFiles, InvalidOutput
from server.automedbench.task import Graded, Task
from stage_bank.skills.text_form import decode_report

__all__ = ["TASK"]

OUTPUT = "report.txt"
REFERENCES = (OUTPUT, "reference.txt")
ENTITIES = "entities.json"
"""A list of texts that a right report names, beside the reference report."""

NEGATIONS = frozenset({"no", "not", "without"})


@dataclass(frozen=True)
class _Truth:
    text: str
    entities: tuple[str, ...] | None


def _read(case: CaseFiles) -> tuple[str, _Truth]:
    truth = _truth(case.reference)
    try:
        return "\n".join(decode_report(case.output[OUTPUT])), truth
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else f"{error}: 40 to 8,000 printable characters"
        raise InvalidOutput(reason) from error


def _truth(files: Mapping[str, bytes]) -> _Truth:
    name = next((name for name in REFERENCES if name in files), None)
    if name is None:
        raise DataError(f"a reference case needs {OUTPUT}")
    try:
        text = files[name].decode("utf-8")
        listed = json.loads(files[ENTITIES]) if ENTITIES in files else None
    except (ValueError, RecursionError) as error:
        raise DataError("a reference case cannot be read", where=name) from error
    if listed is not None and not (isinstance(listed, list) and all(isinstance(one, str) for one in listed)):
        raise DataError("entities are a JSON list of texts", where=ENTITIES)
    return _Truth(text, None if listed is None else tuple(listed))


def _grade(cases: Mapping[str, tuple[str, _Truth]]) -> Graded:
    vocabulary = sorted({entity for _, truth in cases.values() for entity in truth.entities or ()})
    rows: dict[str, dict[str, float | None]] = {}
    for name, (text, truth) in cases.items():
        rouge = rouge_l(text, truth.text)
        entities = None
        if truth.entities is not None:
            entities = entity_f1(_named(text, vocabulary), [" ".join(words_of(one)) for one in truth.entities])
        parts = [value for value in (rouge, entities) if value is not None]
        rows[name] = {"rouge_l": rouge, "entity_f1": entities, "score": fmean(parts)}
    scores = [row["score"] or 0.0 for row in rows.values()]
    rouges = [row["rouge_l"] or 0.0 for row in rows.values()]
    found = [row["entity_f1"] for row in rows.values() if row["entity_f1"] is not None]
    means = {"rouge_l": fmean(rouges) if rouges else None, "entity_f1": fmean(found) if found else None}
    return Graded(fmean(scores) if scores else 0.0, means, rows)


def _named(text: str, vocabulary: list[str]) -> list[str]:
    """Entities that stand in a text as whole words and are not denied by the word before them."""
    words = words_of(text)
    found = []
    for entity in vocabulary:
        wanted = words_of(entity)
        places = [at for at in range(len(words) - len(wanted) + 1) if words[at : at + len(wanted)] == wanted]
        denied = [at for at in places if at and words[at - 1] in NEGATIONS and wanted[0] not in NEGATIONS]
        if wanted and len(places) > len(denied):
            found.append(" ".join(wanted))
    return found


TASK = Task(
    name="report",
    wanted=OUTPUT,
    there=lambda output, _: OUTPUT in output,
    read=_read,
    grade=_grade,
    methods=(
        "maira", "chexagent", "llava", "medgemma", "gemma", "qwen", "gpt", "vision-language", "vlm",
        "language model", "llm", "template", "captioning", "r2gen",
    ),
)  # fmt: skip
