"""Fabricating training states: two seeded views of one patient, an honest handoff, and an admission check.

A state is admitted only when `bat inspect` finds its condition and the oracle's script earns at least 0.9 of both
training reward and task score, in the real environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from common.sandbox.interface import Sandbox
from common.sandbox.receipt import Language, Receipt
from common.stages import Focus, Outcome, Track
from rubrics.evidence import collect_evidence
from rubrics.facts import task_outcome
from rubrics.layout import cases_of
from rubrics.replay import Replayer, View
from rubrics.training import training_reward
from stage_bank.handoffs import Workshop, handoff_commands
from stage_bank.picture import Picture
from stage_bank.prompts import user_prompt
from stage_bank.scripts import Script, oracle_commands
from stage_bank.state import TrainingState
from stage_bank.tasks import hidden_files, task_file, task_of
from stage_bank.tracks import TRACKS, UnfitPictures

__all__ = ["ADMISSION", "CASES", "Fabricator", "fabricate_state", "random_condition"]

ADMISSION = 0.9
"""What the oracle must earn of training reward and task score."""

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
        self._condition = dict(condition)
        self._patient = patient
        self._sandbox = sandbox
        self._replayer = replayer or Replayer(sandbox)
        self._admissible: bool | None = None
        try:
            self._first, self._second = (self._view(pictures, rng) for _ in range(2))
        except UnfitPictures:
            self._first = self._second = View({}, {})
            self._admissible = False
        self._workshop = Workshop(self._first.files, sandbox)

    def _view(self, pictures: Sequence[Picture], rng: np.random.Generator) -> View:
        fabricated = TRACKS[self._track].fabricate(pictures, self._condition, rng, CASES)
        task = task_file(self._track, Focus.E2E, cases_of(fabricated.files))
        return View({**fabricated.files, "task.json": task}, fabricated.references)

    @cached_property
    def _hidden(self) -> dict[str, bytes]:
        return hidden_files(self._first, self._second)

    def state(self, focus: Focus, outcome: Outcome, rng: np.random.Generator) -> TrainingState | None:
        """One state, or `None` when it is not admitted.

        Args:
            focus: stage practised, or E2E.
            outcome: how the earlier stages went.
            rng: decides the fault or stopping point of the handoff.

        Raises:
            SandboxError: the sandbox broke.
        """
        if not self.admissible:
            return None
        state = self.draft(focus, outcome, rng)
        clean = focus is Focus.E2E and outcome is Outcome.SUCCESS
        return state if clean or self._trial(state)[0] >= ADMISSION else None

    def draft(self, focus: Focus, outcome: Outcome, rng: np.random.Generator) -> TrainingState:
        """One state that is not tried itself; its pixels are, by `admissible`.

        Args:
            focus: stage practised, or E2E.
            outcome: how the earlier stages went.
            rng: decides the fault or stopping point of the handoff.

        Raises:
            SandboxError: the sandbox broke.
        """
        track = TRACKS[self._track]
        commands = handoff_commands(focus, outcome, track.right_choice(self._condition), track.options, rng)
        abandoned = outcome is Outcome.FAILURE and focus in (Focus.S1, Focus.E2E)
        handoff = self._workshop.abandoned(commands) if abandoned else self._workshop.run(commands)
        task = task_file(self._track, focus, cases_of(self._first.files))
        return TrainingState(
            focus=focus,
            track=self._track,
            outcome=outcome,
            patient=self._patient,
            prompt=user_prompt(self._track, focus),
            files={**self._first.files, **handoff, "task.json": task},
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
            clean = self.draft(Focus.E2E, Outcome.SUCCESS, np.random.default_rng(0))
            reward, task, first = self._trial(clean, keep=True)
            seen = first.output.strip() == " ".join(f"{name} {self._condition[name]}" for name in _INSPECTED)
            self._admissible = seen and reward >= ADMISSION and task >= ADMISSION
        return self._admissible

    def _trial(self, state: TrainingState, *, keep: bool = False) -> tuple[float, float, Receipt]:
        """Training reward and task score of the oracle, and the receipt of its first command.

        Args:
            state: what it is tried on.
            keep: whether to keep what lies there after each command for the handoffs.
        """
        session = self._sandbox.open(state.files)
        done: Script = ()
        try:
            for command in oracle_commands(state):
                session.execute(Language.BASH, command)
                done = (*done, command)
                if keep:
                    self._workshop.keep(done, session.files())
            receipts, final = session.receipts, session.files()
        finally:
            session.close()
        evidence = collect_evidence(
            task_of(state), receipts, final, key=self._sandbox.public_key, replayer=self._replayer
        )
        return training_reward(evidence).value, task_outcome(evidence), receipts[0]


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
