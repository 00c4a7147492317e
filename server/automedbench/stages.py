"""AutoMedBench's stage items, decided from what a run directory holds; what nothing can decide is unscored.

S1 is the mean of six yes/no items, S2 of five, S3 one of {0, 0.2, 0.5, 1}, S4 and S5 halves. Whether a picture shows
the pipeline needs eyes, and what was executed needs a log: without them those items are unscored, never zero.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from PIL import Image

from common.stages import Stage
from rubrics.items import Finding, answer
from server.automedbench.log import Event, Log
from server.automedbench.task import CaseRow, Task

__all__ = ["ITEMS", "RunEvidence", "Tier", "decide"]


class Tier(StrEnum):
    """How much an agent is given."""

    STANDARD = "standard"
    LITE = "lite"


@dataclass(frozen=True)
class RunEvidence:
    """What the items look at.

    Args:
        task: what was asked for.
        tier: in Lite the method is given, so that candidates and picture count as done.
        plan: text of plan.md, or `None`.
        picture: bytes of plan.png, or `None`.
        log: executions.
        rows: what became of every case.
    """

    task: Task
    tier: Tier
    plan: str | None
    picture: bytes | None
    log: Log
    rows: tuple[CaseRow, ...]


PLAN_LETTERS = 40
STEPS = ("load", "read", "preprocess", "normal", "resampl", "infer", "predict", "postprocess", "save", "valid", "train")
LEAST_STEPS = 3
CANDIDATES = 3
MAXIMUM_FAILURES = 5
PICTURE_SIDE = 32

_LISTED = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)]|\|)[ \t]*\S", re.MULTILINE)
_COMPARED = re.compile(r"candidate|alternative|option|compar|considered|researched", re.IGNORECASE)
_OBTAINED = re.compile(
    r"from_pretrained|load_model|torch\.load|snapshot_download|\b(?:wget|curl|git clone|pip3? install|conda install)\b"
    r"|\bimport\s+(?:monai|torch|nnunet\w*|skimage|scipy|sklearn|transformers|cv2|SimpleITK|ultralytics)\b"
    r"|\bfrom\s+(?:monai|torch|nnunet\w*|skimage|scipy|sklearn|transformers|ultralytics)\b"
)
_COMPATIBLE = re.compile(r"\.shape|\.dtype|__version__|--version|get_zooms|\.affine|header|spacing|nvidia-smi|pip show")
_ENVIRONMENT = re.compile(
    r"ModuleNotFoundError|ImportError|No matching distribution|Could not find a version|command not found"
    r"|CUDA error|undefined symbol|cannot open shared object"
)
_DEVICE = re.compile(r"\.to\(|\.cuda\(|map_location|device\s*=|cuda\.is_available|device_map")
_WRITES = re.compile(
    r"agents_outputs|\.save\(|np\.save|to_filename|write|json\.dump|imwrite|>[ \t]*[^\s>]+\.(?:json|txt)"
)
_LOOP = re.compile(r"\bfor\s+\w+\s+in\b|\bwhile\b|xargs|\bmap\(|glob")
_CONTENT = re.compile(
    r"\b(?:min|max|mean|std|sum|unique|count_nonzero|percentile|hist|imshow|savefig|dice|psnr|ssim|allclose|isfinite)\b|\bcat\b|view"
)
_SHAPE = re.compile(r"\.shape|\bsize\b|exists\(|\bls\b|getsize|stat\(")


def _plan_text(run: RunEvidence) -> Finding:
    written = run.plan is not None and sum(sign.isalpha() for sign in run.plan) >= PLAN_LETTERS
    return answer(written, "plan.md was written", "no plan.md of a few words")


def _described(run: RunEvidence) -> Finding:
    named = sorted({step for step in STEPS if step in (run.plan or "").casefold()})
    return answer(
        len(named) >= LEAST_STEPS, f"names steps: {', '.join(named)}", f"names {len(named)} steps of a pipeline"
    )


def _proper(run: RunEvidence) -> Finding:
    named = _methods(run)
    return answer(bool(named), f"names {', '.join(named[:5])}", f"names no method of {run.task.name}")


def _methods(run: RunEvidence) -> list[str]:
    """Methods that the plan names, sorted; a name within a longer one (`sam` in `medsam`) is not one more."""
    longest_first = sorted(run.task.methods, key=len, reverse=True)
    return sorted(set(re.findall("|".join(map(re.escape, longest_first)), (run.plan or "").casefold())))


def _candidates(run: RunEvidence) -> Finding:
    if run.tier is Tier.LITE:
        return Finding(1.0, "given in the Lite tier")
    plan, named = run.plan or "", _methods(run)
    listed = len(_LISTED.findall(plan[match.start() :])) if (match := _COMPARED.search(plan)) else 0
    return answer(
        max(len(named), listed) >= CANDIDATES,
        f"{max(len(named), listed)} candidates named",
        f"only {max(len(named), listed)} candidates named",
    )


def _picture(run: RunEvidence) -> Finding:
    if run.tier is Tier.LITE:
        return Finding(1.0, "given in the Lite tier")
    return answer(_decodes(run.picture), "there is a plan picture", "no plan.png that can be opened")


def _picture_shows(run: RunEvidence) -> Finding:
    if run.tier is Tier.LITE:
        return Finding(1.0, "given in the Lite tier")
    if not _decodes(run.picture):
        return Finding(0.0, "no plan.png that can be opened")
    return Finding(None, "whether the picture shows the pipeline needs eyes")


def _decodes(picture: bytes | None) -> bool:
    try:
        with Image.open(io.BytesIO(picture or b""), formats=["PNG"]) as image:
            image.verify()
            return min(image.size) >= PICTURE_SIDE
    except Exception:  # Pillow raises many types on hostile files
        return False


def _logged(decide: Callable[[Sequence[Event], RunEvidence], Finding]) -> Callable[[RunEvidence], Finding]:
    """An item that only a log of executions can decide."""

    def finding(run: RunEvidence) -> Finding:
        return decide(run.log.events, run) if run.log.present else Finding(None, "no log of executions")

    return finding


def _any(events: Sequence[Event], pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(event.code) for event in events if not event.failed)


def _obtained(events: Sequence[Event], _run: RunEvidence) -> Finding:
    return answer(_any(events, _OBTAINED), "a method or its weights were loaded", "no method or weights were loaded")


def _compatible(events: Sequence[Event], _run: RunEvidence) -> Finding:
    return answer(_any(events, _COMPATIBLE), "data or versions were checked", "neither data nor versions were checked")


def _ready(events: Sequence[Event], _run: RunEvidence) -> Finding:
    failures = [place for place, event in enumerate(events) if _ENVIRONMENT.search(event.output)]
    after = events[failures[-1] + 1 :] if failures else events
    return answer(any(not event.failed for event in after), "code runs", "no code runs after the last missing part")


def _few_failures(events: Sequence[Event], _run: RunEvidence) -> Finding:
    if all(event.failed for event in events):
        return Finding(0.0, "nothing was executed with success")
    failures = sum(bool(_ENVIRONMENT.search(event.output)) for event in events)
    return answer(failures <= MAXIMUM_FAILURES, f"{failures} failures", f"{failures} failures, more than 5")


def _device(events: Sequence[Event], _run: RunEvidence) -> Finding:
    if not any(re.search(r"\b(?:torch|tensorflow|jax)\b", event.code) for event in events):
        return Finding(None, "no model that runs on a device")
    return answer(_any(events, _DEVICE), "the device was chosen", "no device was chosen")


def _validation(events: Sequence[Event], run: RunEvidence) -> Finding:
    names = [row.case for row in run.rows]
    batch = next((place for place, event in enumerate(events) if _is_batch(event, names)), len(events))
    kept = [row.case for row in run.rows if row.status != "missing"]
    pilots = [place for place, event in enumerate(events[:batch]) if _is_pilot(event, names, kept)]
    if pilots:
        looked = [event for event in events[pilots[0] : batch] if not event.failed]
        if any(_CONTENT.search(event.code) and event.output.strip() for event in looked):
            return Finding(1.0, "one case ran end to end before the batch, and its output was looked at")
    made = next((place for place, event in enumerate(events) if _WRITES.search(event.code)), len(events))
    later = [event for event in events[made:] if not event.failed and event.output.strip()]
    if any(_CONTENT.search(event.code) for event in later):
        return Finding(0.5, "content was checked, but no case was run by itself before the batch")
    if any(_SHAPE.search(event.code) for event in later):
        return Finding(0.2, "shape or presence was checked, not content")
    return Finding(0.0, "no output was checked")


def _is_batch(event: Event, names: Sequence[str]) -> bool:
    named = sum(_names(event.code, name) for name in names)
    return bool(_WRITES.search(event.code)) and (named > 1 or (named == 0 and bool(_LOOP.search(event.code))))


def _is_pilot(event: Event, names: Sequence[str], kept: Sequence[str]) -> bool:
    """Whether one case was run by itself, one that did leave an output."""
    named = [name for name in names if _names(event.code, name)]
    return not event.failed and len(named) == 1 and named[0] in kept and bool(_WRITES.search(event.code))


def _names(code: str, case: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(case)}(?![\w-])", code) is not None


def _completion(run: RunEvidence) -> Finding:
    there = sum(row.status != "missing" for row in run.rows) / len(run.rows)
    return Finding(there, f"{there:.0%} of cases have an output")


def _all_valid(run: RunEvidence) -> Finding:
    bad = [row.case for row in run.rows if row.status != "scored"]
    return answer(not bad, "every output is valid", f"missing or invalid: {', '.join(bad[:5])}")


def _any_scored(run: RunEvidence) -> Finding:
    scored = sum(row.status == "scored" for row in run.rows)
    return answer(scored > 0, f"{scored} cases can be scored", "no case can be scored")


Item = tuple[str, str, Callable[[RunEvidence], Finding]]

ITEMS: Mapping[Stage, tuple[Item, ...]] = {
    Stage.PLAN: (
        ("plan text", "Is there a plan.md?", _plan_text),
        ("described", "Does it describe the pipeline?", _described),
        ("proper", "Is the method proper for the task?", _proper),
        ("candidates", "Were at least three candidates researched?", _candidates),
        ("picture", "Is there a plan picture?", _picture),
        ("picture shows", "Does the picture show the pipeline?", _picture_shows),
    ),
    Stage.SETUP: (
        ("obtained", "Were weights or a method obtained?", _logged(_obtained)),
        ("compatible", "Was compatibility checked?", _logged(_compatible)),
        ("ready", "Is the environment ready?", _logged(_ready)),
        ("failures", "Were there at most five failures of the environment?", _logged(_few_failures)),
        ("device", "Is the model on the intended device?", _logged(_device)),
    ),
    Stage.VALIDATE: (("validation", "How far was one case validated before the batch?", _logged(_validation)),),
    Stage.INFER: (
        ("completion", "Which share of the cases has an output?", _completion),
        ("valid", "Are all outputs valid?", _all_valid),
    ),
    Stage.SUBMIT: (
        ("scored", "Is there any valid scored result?", _any_scored),
        ("valid", "Are all outputs valid?", _all_valid),
    ),
}
"""Stage to name, question and decision of its items."""


def decide(run: RunEvidence) -> dict[Stage, list[tuple[str, str, Finding]]]:
    """Every item of every stage, answered: name, question, finding."""
    return {stage: [(name, asked, find(run)) for name, asked, find in items] for stage, items in ITEMS.items()}
