"""The target wall: planted answers, transcripts and commands are found; honest states of every cell pass."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable

import numpy as np
import pytest

from common.stages import Focus, Outcome, Track
from stage_bank.skills.mask_form import decode_mask
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS
from stage_bank.walls import TargetWall

MakeState = Callable[..., TrainingState]
WALL = TargetWall()


def planted(state: TrainingState, path: str, data: bytes) -> set[str]:
    return {breach.what for breach in WALL.breaches(dataclasses.replace(state, files={**state.files, path: data}))}


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("focus", list(Focus))
@pytest.mark.parametrize("track", list(TRACKS))
def test_honest_states_pass(track: Track, focus: Focus, outcome: Outcome, make_state: MakeState) -> None:
    assert WALL.breaches(make_state(track, focus, outcome)) == []


@pytest.mark.parametrize("track", list(TRACKS))
def test_a_reference_among_the_inputs_is_found(track: Track, make_state: MakeState) -> None:
    state = make_state(track, Focus.S1, Outcome.SUCCESS)
    data = max((data for path, data in state.hidden.items() if path.startswith("references/")), key=len)
    assert planted(state, "cases/case1/extra.bin", data) == {"hidden reference"}


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as bytes of another type": lambda a: a.astype(np.float64),
    "flipped": lambda a: a[:, ::-1].astype(np.float32),
    "turned": lambda a: np.rot90(a).astype(np.float32),
    "inverted": lambda a: (1.0 - a).astype(np.float32),
    "in another unit": lambda a: (a * 4000.0 - 1000.0).astype(np.float32),
    "rounded": lambda a: np.round(a * 255).astype(np.uint8),
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("track", [Track.SEGMENTATION, Track.ENHANCEMENT, Track.SYNTHESIS])
def test_a_reference_in_another_form_is_found(track: Track, form: str, make_state: MakeState) -> None:
    state = make_state(track, Focus.S1, Outcome.SUCCESS)
    name = "lesion.nii.gz" if track is Track.SEGMENTATION else "clean.npy"
    data = state.hidden[f"references/case1/{name}"]
    array = decode_mask(data).astype(float) if track is Track.SEGMENTATION else np.load(io.BytesIO(data)).astype(float)
    assert planted(state, "cases/case1/spare.npy", npy(FORMS[form](array))) == {"hidden reference in another form"}


@pytest.mark.parametrize(
    ("path", "data", "what"),
    [
        ("notes.txt", b"<tool_call>{}</tool_call>", "turn of a dialogue"),
        ("notes.txt", b"<|im_start|>assistant", "turn of a dialogue"),
        ("process/log.json", b'[{"role": "assistant", "content": "x"}]', "turn of a dialogue"),
        ("plan/plan.md", b"then run bat infer", "command of the toolkit"),
        ("cases/case1/header.json", b'{"Answer": "B"}', "field that holds an answer"),
        ("cases/case1/header.json", b'{"truth": 1}', "field that holds an answer"),
    ],
)
def test_transcripts_commands_and_answers_are_found(path: str, data: bytes, what: str, make_state: MakeState) -> None:
    assert planted(make_state(Track.DETECTION, Focus.S2, Outcome.SUCCESS), path, data) == {what}


def test_a_finding_never_quotes_what_was_found(make_state: MakeState) -> None:
    state = make_state(Track.DETECTION, Focus.S2, Outcome.SUCCESS)
    files = {**state.files, "SECRETNAME.txt": b"bat infer --for SECRETNAME"}
    assert not any("SECRETNAME" in f"{b.where}{b.what}" for b in WALL.breaches(dataclasses.replace(state, files=files)))
