from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import pytest

from common.errors import DataError
from common.sandbox import Language, Sandbox
from common.stages import Focus, Outcome, Track
from rubrics import Replayer
from rubrics.artifacts import read_pipeline
from rubrics.layout import BATCH, PILOT, SETUP, SUBMITTED, is_input
from stage_bank.fabrication import Fabricator, fabricate_state, random_condition
from stage_bank.picture import Picture
from stage_bank.prompts import SYSTEM_PROMPT, messages, user_prompt
from stage_bank.state import TrainingState
from stage_bank.tasks import task_of
from stage_bank.tracks import TRACKS

MakeState = Callable[..., TrainingState]


def test_equal_seeds_give_equal_states(toolkit_sandbox: Sandbox, pictures: list[Picture]) -> None:
    condition = {"kind": "stripe", "polarity": "inverted", "level": "2", "fault": "axes", "deliver": "flip"}
    states = [
        fabricate_state(
            Track.ENHANCEMENT,
            Focus.S4,
            Outcome.RECOVERY,
            condition,
            pictures[:1],
            "patient",
            np.random.default_rng(3),
            toolkit_sandbox,
        )
        for _ in range(2)
    ]
    assert states[0] is not None
    assert states[0] == states[1]
    assert states[0].state_id == TrainingState.from_bytes(states[0].to_bytes()).state_id


def damaged(state: TrainingState) -> bool:
    """Whether no output of the batch that is handed over is worth anything, though all choices are right."""
    if not any(path.startswith(BATCH) for path in state.files):
        return False
    references = {path.removeprefix("references/"): data for path, data in state.hidden.items()}
    scores = TRACKS[state.track].score(state.files, state.files, references, BATCH)
    choices = read_pipeline(state.files, TRACKS[state.track].options).choices
    right = TRACKS[state.track].right_choice(state.condition)
    return all(right[name] == value for name, value in choices.items()) and not any(scores.values())


@pytest.mark.parametrize("track", list(TRACKS))
@pytest.mark.parametrize("focus", list(Focus))
def test_a_handoff_holds_what_its_outcome_says(track: Track, focus: Focus, make_state: MakeState) -> None:
    options = TRACKS[track].options
    for outcome in Outcome:
        state = make_state(track, focus, outcome)
        right = TRACKS[track].right_choice(state.condition)
        choices = read_pipeline(state.files, options).choices
        wrong = {name for name, value in choices.items() if value != right[name]}
        assert len(wrong) + damaged(state) == (outcome is Outcome.RECOVERY)
        assert (
            any(path.startswith(BATCH) for path in state.files) == (focus is Focus.S5 and outcome is Outcome.SUCCESS)
            or outcome is Outcome.RECOVERY
        )
        if focus in (Focus.S1, Focus.E2E):
            left = {path for path in state.files if not is_input(path)}
            assert bool(left) == (outcome is not Outcome.SUCCESS)
            assert all(path.startswith(SUBMITTED) for path in left) == (outcome is not Outcome.RECOVERY)


@pytest.mark.parametrize("track", list(TRACKS))
def test_damaged_outputs_show_when_verified_and_are_mended_by_running_the_batch_again(
    track: Track, make_state: MakeState, toolkit_sandbox: Sandbox
) -> None:
    states = [make_state(track, Focus.S5, Outcome.RECOVERY, seed) for seed in range(12)]
    spoilt = [state for state in states if damaged(state)]
    assert 2 <= len(spoilt) <= 10
    for state in spoilt:
        session = toolkit_sandbox.open(state.files)
        before, again, after = (session.execute(Language.BASH, f"bat {verb}") for verb in ("verify", "infer", "verify"))
        session.close()
        assert before.exit_status == 1
        assert before.output.startswith("verify fail")
        assert (again.exit_status, after.output.strip()) == (0, "verify pass")


@pytest.mark.parametrize("focus", [Focus.S3, Focus.S4])
def test_what_a_focus_needs_is_missing_after_a_failure(focus: Focus, make_state: MakeState) -> None:
    for seed in range(4):
        files = make_state(Track.ENHANCEMENT, focus, Outcome.FAILURE, seed).files
        assert SETUP not in files
        assert not any(path.startswith((PILOT, BATCH)) for path in files)


def test_nothing_of_condition_patient_or_reference_is_in_view(make_state: MakeState) -> None:
    for track in TRACKS:
        for focus in Focus:
            for outcome in (Outcome.RECOVERY, Outcome.FAILURE):
                state = make_state(track, focus, outcome)
                assert state.prompt == user_prompt(track, focus) == f"track {track} stage {focus}"
                seen = state.prompt.encode() + b"".join(state.files.values()) + "".join(state.files).encode()
                assert b"patient" not in seen.lower().replace(b"patientorientation", b"")
                references = {data for path, data in state.hidden.items() if path.startswith("references/")}
                assert references
                assert not references & {data for path, data in state.files.items() if is_input(path)}
                header = json.loads(state.files["cases/case1/header.json"])
                assert set(header) <= {
                    "Columns",
                    "EstimatedRadiographicMagnificationFactor",
                    "LabelMap",
                    "LargestImagePixelValue",
                    "PhotometricInterpretation",
                    "PixelSpacing",
                    "RescaleSlope",
                    "Rows",
                    "SmallestImagePixelValue",
                    TRACKS[track].skill.form.field,
                }


def test_prompts_are_fixed_and_short() -> None:
    chat = messages(user_prompt(Track.ENHANCEMENT, Focus.S3))
    assert [message["role"] for message in chat] == ["system", "user"]
    assert chat[0]["content"] == SYSTEM_PROMPT
    assert chat[1]["content"] == "track enhancement stage S3"


def test_the_second_view_differs_and_has_the_same_condition(make_state: MakeState) -> None:
    task = task_of(make_state(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS))
    assert task.second is not None
    assert task.second.files.keys() == task.view.files.keys()
    images = [path for path in task.view.files if path.endswith("image.npy")]
    assert images
    assert all(task.view.files[path] != task.second.files[path] for path in images)
    headers = [path for path in task.view.files if path.endswith("header.json")]
    assert all(task.view.files[path] == task.second.files[path] for path in headers)


def test_states_on_one_view_share_their_reruns(make_state: MakeState) -> None:
    views = {task_of(make_state(Track.ENHANCEMENT, focus, Outcome.SUCCESS)).view.digest for focus in Focus}
    assert len(views) == 1


def test_pixels_that_do_not_show_the_condition_are_not_admitted(toolkit_sandbox: Sandbox) -> None:
    flat = np.full((96, 96), 0.5, dtype=np.float32)
    condition = {"kind": "gaussian", "polarity": "normal", "level": "1", "fault": "none", "deliver": "keep"}
    rng = np.random.default_rng(0)
    try:
        state = fabricate_state(
            Track.ENHANCEMENT, Focus.S1, Outcome.SUCCESS, condition, [Picture(flat)], "patient", rng, toolkit_sandbox
        )
    except DataError:
        return
    assert state is None or task_of(state).right["method"] == "smooth"


def test_unknown_facets_are_refused(toolkit_sandbox: Sandbox, pictures: list[Picture]) -> None:
    condition = {"kind": "fog", "polarity": "normal", "level": "1", "fault": "none", "deliver": "keep"}
    with pytest.raises(DataError, match="unknown kind"):
        fabricate_state(
            Track.ENHANCEMENT,
            Focus.S1,
            Outcome.SUCCESS,
            condition,
            pictures[:1],
            "patient",
            np.random.default_rng(0),
            toolkit_sandbox,
        )


def test_most_pixels_are_admitted_and_so_are_their_states(
    toolkit_sandbox: Sandbox, replayer: Replayer, pictures: list[Picture]
) -> None:
    rng = np.random.default_rng(11)
    for track in TRACKS:
        made = [
            Fabricator(track, random_condition(track, rng), [picture], "patient", rng, toolkit_sandbox, replayer)
            for picture in pictures[:2]
        ]
        good = [fabricator for fabricator in made if fabricator.admissible]
        assert good
        states = [
            good[0].state(focus, outcome, rng)
            for focus in (Focus.S2, Focus.S4, Focus.S5)
            for outcome in (Outcome.RECOVERY,)
        ]
        assert sum(state is not None for state in states) >= 2


def test_a_state_is_made_in_a_fraction_of_a_second(
    toolkit_sandbox: Sandbox, replayer: Replayer, pictures: list[Picture]
) -> None:
    rng = np.random.default_rng(12)
    began = time.monotonic()
    made = Fabricator(
        Track.ENHANCEMENT,
        random_condition(Track.ENHANCEMENT, rng),
        pictures[:1],
        "patient",
        rng,
        toolkit_sandbox,
        replayer,
    )
    states = [made.state(focus, outcome, rng) for focus in Focus for outcome in Outcome]
    assert len(states) == 18
    assert (time.monotonic() - began) / len(states) < 0.5
