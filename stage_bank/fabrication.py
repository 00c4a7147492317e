"""Fabricating training states: two seeded views of one patient, an honest handoff, and an admission check.

Pixels are admitted once for all states that share them: only when `bat inspect` finds their condition, and when the
oracle's outputs, made in the sandbox as an agent would make them, earn at least 0.9 on both views. Handoffs cannot take
that away again: they are real runs of the same toolkit on the same inputs, and the oracle redoes what failed in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from common.sandbox.interface import Sandbox
from common.stages import Focus, Outcome, Track
from rubrics.artifacts import Pipeline
from rubrics.facts import mean_score
from rubrics.layout import BATCH, SUBMITTED, cases_of
from rubrics.replay import Replayer, View
from stage_bank.handoffs import Workshop, handoff
from stage_bank.picture import Picture
from stage_bank.prompts import user_prompt
from stage_bank.scripts import script
from stage_bank.state import TrainingState
from stage_bank.tasks import hidden_files, task_file
from stage_bank.tracks import TRACKS, UnfitPictures

__all__ = ["ADMISSION", "CASES", "Fabricator", "fabricate_state", "random_condition"]

ADMISSION = 0.9
"""Mean score that the right choice must reach on both views."""

CASES = 4
"""Cases of a view."""


def random_condition(track: Track, rng: np.random.Generator) -> dict[str, str]:
    """A condition with every facet drawn uniformly."""
    return {facet: str(rng.choice(values)) for facet, values in TRACKS[track].facets.items()}


class Fabricator:
    """Makes the states of one patient under one condition; they share pixels, handoffs and re-runs.

    Args:
        track: task family.
        condition: facet to value.
        pictures: at least one picture of the patient.
        patient: pseudonym of the patient; stays beside the state, never in it.
        rng: decides both views.
        sandbox: where handoffs and the admission check run.
        replayer: re-runs of the admission check; its own when left out.

    Raises:
        DataError: an unknown condition.
    """

    def __init__(
        self,
        track: Track,
        condition: Mapping[str, str],
        pictures: Sequence[Picture],
        patient: str,
        rng: np.random.Generator,
        sandbox: Sandbox,
        replayer: Replayer | None = None,
    ) -> None:
        self._track = track
        self._spec = TRACKS[track]
        self._condition = dict(condition)
        self._patient = patient
        self._replayer = replayer or Replayer(sandbox)
        self._admissible: bool | None = None
        try:
            self._first, self._second = (self._view(pictures, rng) for _ in range(2))
        except UnfitPictures:
            self._first = self._second = View({}, {})
            self._admissible = False
        self._workshop = Workshop(self._first.files, sandbox)

    def _view(self, pictures: Sequence[Picture], rng: np.random.Generator) -> View:
        fabricated = self._spec.fabricate(pictures, self._condition, rng, CASES)
        task = task_file(self._track, Focus.E2E, cases_of(fabricated.files))
        return View({**fabricated.files, "task.json": task}, fabricated.references)

    @cached_property
    def _right(self) -> dict[str, str]:
        return self._spec.right_choice(self._condition)

    @cached_property
    def _hidden(self) -> dict[str, bytes]:
        return hidden_files(self._first, self._second)

    def state(self, focus: Focus, outcome: Outcome, rng: np.random.Generator) -> TrainingState | None:
        """One state, or `None` when its pixels are not admitted.

        Args:
            focus: stage practised, or E2E.
            outcome: how the earlier stages went.
            rng: decides the fault or stopping point of the handoff.

        Raises:
            SandboxError: the sandbox broke.
        """
        return self.draft(focus, outcome, rng) if self.admissible else None

    def draft(self, focus: Focus, outcome: Outcome, rng: np.random.Generator) -> TrainingState:
        """One state, whether its pixels are admitted or not.

        Args:
            focus: stage practised, or E2E.
            outcome: how the earlier stages went.
            rng: decides the fault or stopping point of the handoff.

        Raises:
            SandboxError: the sandbox broke.
        """
        done = handoff(focus, outcome, self._right, self._spec.options, rng)
        left = self._workshop.left(done, self._spec.skill.form, rng)
        task = task_file(self._track, focus, cases_of(self._first.files))
        return TrainingState(
            focus=focus,
            track=self._track,
            outcome=outcome,
            patient=self._patient,
            prompt=user_prompt(self._track, focus),
            files={**self._first.files, **left, "task.json": task},
            hidden=self._hidden,
            condition=self._condition,
        )

    @property
    def admissible(self) -> bool:
        """Whether these pictures carry the task: tried once, end to end, from a clean start.

        Raises:
            SandboxError: the sandbox broke.
        """
        if self._admissible is None:
            self._admissible = self._oracle_succeeds() and self._holds_on_second_view()
        return self._admissible

    def _oracle_succeeds(self) -> bool:
        """Run the whole workflow with the right choices on the first view; what it leaves serves the handoffs too."""
        commands = script(Focus.E2E, self._right)
        output, files = self._workshop.perform(commands)
        seen = output.split("\n", 1)[0] == " ".join(f"{name} {self._condition[name]}" for name in _INSPECTED)
        return seen and all(self._worth(files, folder) >= ADMISSION for folder in (BATCH, SUBMITTED))

    def _worth(self, files: Mapping[str, bytes], folder: str) -> float:
        return mean_score(self._spec.score(files, self._first.files, self._first.references, folder)) or 0.0

    def _holds_on_second_view(self) -> bool:
        rerun = self._replayer.batch(self._second, Pipeline(self._right, candidates=1), self._spec.score)
        return (mean_score(rerun.batch_scores) or 0.0) >= ADMISSION


_INSPECTED = ("kind", "polarity", "level", "fault", "deliver")
"""Order of the facets in the one line that `bat inspect` prints."""


def fabricate_state(
    track: Track,
    focus: Focus,
    outcome: Outcome,
    condition: Mapping[str, str],
    pictures: Sequence[Picture],
    patient: str,
    rng: np.random.Generator,
    sandbox: Sandbox,
) -> TrainingState | None:
    """Make one state and try it.

    Args:
        track: task family.
        focus: stage practised, or E2E.
        outcome: how the earlier stages went.
        condition: facet to value, all facets present.
        pictures: at least one picture of one patient.
        patient: pseudonym of the patient.
        rng: decides views and handoff.
        sandbox: where handoff and admission check run.

    Returns:
        The state, or `None` when it is not admitted: draw another condition or view.

    Raises:
        DataError: an unknown condition.
        SandboxError: the sandbox broke.
    """
    return Fabricator(track, condition, pictures, patient, rng, sandbox).state(focus, outcome, rng)
