"""What every track must hold to: fabrication, scoring, outputs, faults, and all its cells.

A track that is added to `TRACKS` is tested here without a further line; `test_confusion` tests what choices are worth.
"""

from __future__ import annotations

import io
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import DataError
from common.sandbox import Sandbox
from common.stages import STAGES, Focus, Outcome, Track
from rubrics import Replayer
from rubrics.layout import BATCH, SUBMITTED, cases_of, is_input
from stage_bank.environment import StageEnvironment
from stage_bank.fabrication import ADMISSION, CASES, Fabricator, random_condition
from stage_bank.picture import Picture
from stage_bank.scripts import oracle_commands
from stage_bank.skills import (
    POLARITIES,
    SKILLS,
    SkillError,
    find_fault,
    inspect_workspace,
    mend,
)
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS, UnfitPictures
from tests.stage_bank.track_cases import fabricated, right_batch, write

MakeState = Callable[..., TrainingState]

CELLS = list(itertools.product(TRACKS, Focus, Outcome))
every_track = pytest.mark.parametrize("track", list(TRACKS))


def test_the_two_tables_hold_the_same_tracks() -> None:
    assert {track.value for track in TRACKS} == set(SKILLS)
    for track, spec in TRACKS.items():
        assert spec.track is track
        assert spec.skill is SKILLS[track.value]
        assert spec.options["repair"][0] == "none"
        assert {name: len(values) for name, values in spec.facets.items()} == {
            name: len(spec.options[option])
            for name, option in zip(spec.facets, ("method", "polarity", "level", "repair", "deliver"), strict=True)
        }


@every_track
def test_equal_seeds_give_equal_bytes(track: Track, pictures: list[Picture]) -> None:
    first, again, other = (fabricated(track, pictures[:3], seed) for seed in (1, 1, 2))
    assert first == again
    assert first[1].files != other[1].files
    assert first[1].references
    assert cases_of(first[1].files) == tuple(f"case{index}" for index in range(1, CASES + 1))
    assert all(is_input(path) for path in first[1].files)


@every_track
def test_an_unknown_value_of_any_facet_is_refused(track: Track, pictures: list[Picture]) -> None:
    rng = np.random.default_rng(0)
    for facet in TRACKS[track].facets:
        with pytest.raises(DataError, match=f"unknown {facet}"):
            TRACKS[track].fabricate(pictures[:1], {**random_condition(track, rng), facet: "no such thing"}, rng, CASES)


@every_track
def test_pictures_without_a_usable_view_are_named_so(track: Track) -> None:
    lost = np.full((64, 64), np.nan, dtype=np.float32)
    flat, tiny = np.full((64, 64), 0.5, dtype=np.float32), np.eye(6, dtype=np.float32)
    for pictures in ([], [Picture(lost)], [Picture(flat)], [Picture(tiny)]):
        with pytest.raises(UnfitPictures):
            fabricated(track, pictures)


@every_track
def test_nothing_is_taken_from_pictures_that_were_not_given(
    track: Track, pictures: list[Picture], toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    """States of two patients made in turns, with one memory of re-runs, are those that each gives alone."""

    def states(patients: Mapping[str, list[Picture]], memory: Replayer) -> dict[str, list[bytes]]:
        condition = random_condition(track, np.random.default_rng(7))
        makers = {
            name: Fabricator(track, condition, own, name, np.random.default_rng(3), toolkit_sandbox, memory)
            for name, own in patients.items()
        }
        made: dict[str, list[bytes]] = defaultdict(list)
        for focus in (Focus.S3, Focus.S5):
            for name, maker in makers.items():
                made[name].append(maker.draft(focus, Outcome.RECOVERY, np.random.default_rng(9)).to_bytes())
        return made

    both = {"first": pictures[:2], "second": pictures[-2:]}
    together = states(both, replayer)
    for name, own in both.items():
        assert states({name: own}, Replayer(toolkit_sandbox))[name] == together[name]
    assert not set(together["first"]) & set(together["second"])


@every_track
def test_public_files_hold_no_reference(track: Track, pictures: list[Picture]) -> None:
    for seed in range(3):
        _, made = fabricated(track, pictures, seed)
        public = list(made.files.values())
        images = [array for array in map(as_array, public) if array is not None]
        for path, content in made.references.items():
            assert content not in public
            hidden = as_array(content)
            if hidden is not None:
                assert not any(image.shape == hidden.shape and np.allclose(image, hidden) for image in images), path
            else:
                assert not any(content in file for file in public), path


def as_array(content: bytes) -> np.ndarray | None:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError):
        return None


@every_track
def test_scores_are_in_range_and_missing_or_broken_outputs_have_none(
    track: Track, pictures: list[Picture], tmp_path: Path
) -> None:
    spec, name = TRACKS[track], SKILLS[track.value].form.file_name
    condition, made = fabricated(track, pictures, 4)
    outputs = right_batch(tmp_path, track, condition, made)
    scores = spec.score(outputs, made.files, made.references, BATCH)
    assert list(scores) == list(cases_of(made.files))
    assert all(score is not None and 0.0 <= score <= 1.0 for score in scores.values())
    assert spec.score({}, made.files, made.references) == dict.fromkeys(scores)
    assert spec.score(outputs, made.files, made.references, SUBMITTED) == dict.fromkeys(scores)
    for spoilt in (b"", b"x" * 50, outputs[f"{BATCH}/case1/{name}"][:-9]):
        partly = spec.score({**outputs, f"{BATCH}/case1/{name}": spoilt}, made.files, made.references, BATCH)
        assert partly["case1"] is None
        assert all(0.0 <= (score or 0.0) <= 1.0 for score in partly.values())


@every_track
def test_a_delivered_output_is_scored_as_the_one_it_was_made_of(
    track: Track, pictures: list[Picture], tmp_path: Path
) -> None:
    spec, form = TRACKS[track], SKILLS[track.value].form
    for index, deliver in enumerate(spec.options["deliver"]):
        condition, made = fabricated(track, pictures, 5, deliver=deliver)
        outputs = right_batch(tmp_path / str(index), track, condition, made)
        delivered = {
            f"{SUBMITTED}/{path.split('/')[-2]}/{form.file_name}": form.encode(form.turn(form.decode(data), deliver))
            for path, data in outputs.items()
        }
        scores = spec.score(delivered, made.files, made.references)
        assert scores == spec.score(outputs, made.files, made.references, BATCH)


@every_track
def test_encoding_is_stable_and_comes_back(track: Track, pictures: list[Picture], tmp_path: Path) -> None:
    condition, made = fabricated(track, pictures, 6)
    form = SKILLS[track.value].form
    for data in right_batch(tmp_path, track, condition, made).values():
        assert form.encode(form.decode(data)) == data
        for deliver in TRACKS[track].options["deliver"]:
            assert form.encode(form.restore(form.turn(form.decode(data), deliver), deliver)) == data


@pytest.fixture(scope="module")
def good_outputs(pictures: list[Picture], tmp_path_factory: pytest.TempPathFactory) -> dict[Track, bytes]:
    """One right output file of every track."""
    found = {}
    for track in TRACKS:
        condition, made = fabricated(track, pictures, 8)
        found[track] = next(iter(right_batch(tmp_path_factory.mktemp(track), track, condition, made).values()))
    return found


@every_track
@given(noise=st.binary(max_size=400), at=st.floats(0, 1), patch=st.binary(min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_an_output_or_are_refused(
    track: Track, noise: bytes, at: float, patch: bytes, good_outputs: dict[Track, bytes]
) -> None:
    form, good = SKILLS[track.value].form, good_outputs[track]
    place = int(at * len(good))
    for data in (noise, good[:place] + patch + good[place + len(patch) :]):
        try:
            output = form.decode(data)
            for deliver in TRACKS[track].options["deliver"]:
                form.fits(form.restore(output, deliver), (64, 48))
        except ValueError:
            continue


DEEP, HUGE, LONG = b"[" * 100_000, b"1" + b"0" * 400, b'"' + b"x" * (1 << 21) + b'"'
HOSTILE_VALUES = [DEEP, HUGE, b"-" + HUGE, b"1e999", b"NaN", b"true", b"null", b"[]", b"{}", LONG]


@every_track
@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=lambda value: value[:8].decode())
def test_hostile_values_in_json_are_refused(track: Track, value: bytes, good_outputs: dict[Track, bytes]) -> None:
    """Every value of a JSON output, replaced by something hostile, is refused or taken for another value."""
    form, good = SKILLS[track.value].form, good_outputs[track]
    places = list(json.loads(good)) if good[:1] == b"{" else []
    hostile = [value]
    hostile += [json.dumps({**json.loads(good), place: "HERE"}).encode().replace(b'"HERE"', value) for place in places]
    for data in hostile:
        try:
            output = form.decode(data)
        except ValueError:
            continue
        assert form.decode(form.encode(output)) == output


@every_track
def test_each_fault_is_found_and_mended_by_its_own_repair_only(
    track: Track, pictures: list[Picture], tmp_path: Path
) -> None:
    faults = SKILLS[track.value].faults
    for fault, polarity in itertools.product(faults, POLARITIES):
        _, made = fabricated(track, pictures, 9, fault=fault, polarity=polarity)
        workspace = write(tmp_path / f"{fault}-{polarity}", track, made)
        assert inspect_workspace(workspace).fault == fault
        assert inspect_workspace(workspace).polarity == polarity
        for case, repair in itertools.product(workspace.cases(), faults):
            assert find_fault(case) == fault
            if repair == fault:
                assert find_fault(mend(case, repair)) == "none"
            else:
                with pytest.raises(SkillError):
                    mend(case, repair)


def oracle_earns_everything(state: TrainingState, sandbox: Sandbox, replayer: Replayer) -> None:
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for command in oracle_commands(state):
        environment.execute_code("bash", command)
    if state.focus is not Focus.E2E:
        assert environment.get_reward() == 1.0
        return
    scores = environment.evaluate()
    assert scores.stages == dict.fromkeys(STAGES, 1.0)
    assert scores.task >= ADMISSION
    assert environment.get_reward() == pytest.approx(0.5 + 0.5 * scores.task)
    assert scores.failure is None


@pytest.mark.parametrize(("track", "focus", "outcome"), CELLS[::5])
def test_the_oracle_earns_everything_in_a_sample_of_cells(
    track: Track, focus: Focus, outcome: Outcome, make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    oracle_earns_everything(make_state(track, focus, outcome), toolkit_sandbox, replayer)


@pytest.mark.slow
@pytest.mark.parametrize(("track", "focus", "outcome"), CELLS)
def test_the_oracle_earns_everything_in_every_cell_and_under_every_fault(
    track: Track, focus: Focus, outcome: Outcome, make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    for fault in SKILLS[track.value].faults:
        oracle_earns_everything(make_state(track, focus, outcome, fault=fault), toolkit_sandbox, replayer)


@every_track
def test_no_verified_success_lies_in_a_failed_state(track: Track, make_state: MakeState) -> None:
    """A state that failed holds no finished submission, and no output of it is worth anything."""
    for focus in Focus:
        state = make_state(track, focus, Outcome.FAILURE)
        assert "submission.json" not in state.files
        references = {path.removeprefix("references/"): data for path, data in state.hidden.items()}
        scores = TRACKS[track].score(state.files, state.files, references)
        assert not any(scores.values())
