"""A training state as its verifier sees it: inputs, references, second view, right choices and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.canonical import canonical_json
from common.stages import Focus, Track
from rubrics.evidence import Task
from rubrics.layout import cases_of, is_input
from rubrics.replay import View
from stage_bank.skills import task_document
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

__all__ = ["hidden_files", "task_file", "task_of"]

_REFERENCES = "references/"
_SECOND_FILES = "second/files/"
_SECOND_REFERENCES = "second/references/"


def hidden_files(first: View, second: View) -> dict[str, bytes]:
    """Lay references and second view out as the hidden part of a state."""
    return {
        **{_REFERENCES + path: data for path, data in first.references.items()},
        **{_SECOND_FILES + path: data for path, data in second.files.items()},
        **{_SECOND_REFERENCES + path: data for path, data in second.references.items()},
    }


def task_file(track: Track, focus: Focus, cases: Sequence[str]) -> bytes:
    """The `task.json` of a workspace."""
    return canonical_json(task_document(track.value, focus.value, list(cases)))


def task_of(state: TrainingState) -> Task:
    """The verifier's task of a state.

    Its inputs say E2E whatever the focus is: the toolkit gives the same on all of them, and states on the same pixels
    then share their re-runs.
    """
    track = TRACKS[state.track]
    inputs = {path: data for path, data in state.files.items() if is_input(path)}
    inputs["task.json"] = task_file(state.track, Focus.E2E, cases_of(inputs))
    second = _below(_SECOND_FILES, state.hidden)
    return Task(
        focus=state.focus,
        track=state.track,
        initial=state.files,
        view=View(inputs, _below(_REFERENCES, state.hidden)),
        second=View(second, _below(_SECOND_REFERENCES, state.hidden)) if second else None,
        right=track.right_choice(state.condition),
        options=track.options,
        score=track.score,
    )


def _below(prefix: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path.removeprefix(prefix): data for path, data in files.items() if path.startswith(prefix)}
