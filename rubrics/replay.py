"""Re-running a submitted pipeline in a fresh sandbox: the verifier's own account of what it gives.

The agent's files are never run. Only its choices are taken, the toolkit runs them on untouched inputs, and what comes
out is compared by digest with what the agent left. One run per pipeline and set of inputs is enough for all rollouts
that chose alike, so results are kept by both digests.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from common.canonical import digest_bytes, digest_json
from common.sandbox.interface import Sandbox
from common.sandbox.receipt import Language
from rubrics.artifacts import PLAN_CHOICES, Pipeline
from rubrics.layout import BATCH, PILOT, SUBMITTED

__all__ = ["Extent", "Replayer", "Rerun", "ScoreFunction", "View"]

ScoreFunction = Callable[[Mapping[str, bytes], Mapping[str, bytes], Mapping[str, bytes], str], dict[str, float | None]]
"""(outputs, public files, references, folder) to the score in [0, 1] of every case, `None` where invalid."""


class Extent(IntEnum):
    """How far a re-run goes; each extent includes the ones before it."""

    SETUP = 1
    PILOT = 2
    SUBMIT = 3


@dataclass(frozen=True)
class View:
    """One seeded view of a patient: public inputs and what only the verifier may see.

    Args:
        files: `task.json`, `cases/` and, where the track has them, `exemplars/`.
        references: hidden references by relative path.
    """

    files: Mapping[str, bytes]
    references: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over inputs and references: the case digest of the memory."""
        parts = {"files": self.files, "references": self.references}
        return digest_json(
            {name: {path: digest_bytes(data) for path, data in part.items()} for name, part in parts.items()}
        )


@dataclass(frozen=True)
class Rerun:
    """What the pipeline really gives on a view.

    Args:
        digests: path to SHA-256 of every file that the toolkit writes; `process/verify.json` is that of the pilot.
        pilot_scores: case to score of the pilot output; cases that are not piloted are `None`.
        batch_scores: case to score of the batch before delivery.
        submitted_scores: case to score of what is delivered.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    pilot_scores: Mapping[str, float | None] = field(default_factory=dict)
    batch_scores: Mapping[str, float | None] = field(default_factory=dict)
    submitted_scores: Mapping[str, float | None] = field(default_factory=dict)


class Replayer:
    """Runs pipelines again, each at most once; safe to call from many threads.

    Args:
        sandbox: where they run.
        capacity: how many results are kept, the least recently used going first.
    """

    def __init__(self, sandbox: Sandbox, *, capacity: int = 8192) -> None:
        self._sandbox = sandbox
        self._capacity = capacity
        self._memory: OrderedDict[tuple[str, str, str], Future[Rerun]] = OrderedDict()
        self._lock = threading.Lock()

    def rerun(self, view: View, pipeline: Pipeline, extent: Extent, score: ScoreFunction) -> Rerun:
        """Every step of the workflow up to `extent`, on untouched inputs.

        Raises:
            SandboxError: the sandbox itself broke; nothing is remembered then.
        """
        key = (view.digest, pipeline.digest, extent.name)
        return self._once(key, lambda: self._run(view, pipeline, extent, score))

    def batch(self, view: View, pipeline: Pipeline, score: ScoreFunction) -> Rerun:
        """Only plan, set-up and the whole batch: what the pipeline gives on a view the agent never saw.

        Raises:
            SandboxError: the sandbox itself broke; nothing is remembered then.
        """
        blind = Pipeline({name: value for name, value in pipeline.choices.items() if name != "deliver"}, 1)
        return self._once((view.digest, blind.digest, "batch"), lambda: self._run_batch(view, blind, score))

    def _once(self, key: tuple[str, str, str], compute: Callable[[], Rerun]) -> Rerun:
        with self._lock:
            future = self._memory.get(key)
            if future is not None:
                self._memory.move_to_end(key)
            else:
                mine = self._memory[key] = Future()
                while len(self._memory) > self._capacity:
                    self._memory.popitem(last=False)
        if future is not None:
            return future.result()
        try:
            mine.set_result(compute())
        except BaseException as error:
            with self._lock:
                self._memory.pop(key, None)
            mine.set_exception(error)
        return mine.result()

    def _run(self, view: View, pipeline: Pipeline, extent: Extent, score: ScoreFunction) -> Rerun:
        inspected = self._once((view.digest, "", "inspect"), lambda: Rerun(self._execute(view, ["bat inspect"])[0]))
        if not pipeline.planned:
            return inspected
        digests, files = self._execute(view, _commands(pipeline, extent))
        pilot, batch, submitted = (score(files, view.files, view.references, f) for f in (PILOT, BATCH, SUBMITTED))
        return Rerun({**inspected.digests, **digests}, pilot, batch, submitted)

    def _run_batch(self, view: View, pipeline: Pipeline, score: ScoreFunction) -> Rerun:
        if not pipeline.planned:
            return Rerun()
        digests, files = self._execute(view, [*_plan_and_setup(pipeline), "bat infer"])
        return Rerun(digests, batch_scores=score(files, view.files, view.references, BATCH))

    def _execute(self, view: View, commands: list[str]) -> tuple[dict[str, str], dict[str, bytes]]:
        session = self._sandbox.open(view.files)
        try:
            receipt = session.execute(Language.BASH, "\n".join(commands))
            files = session.files()
        finally:
            session.close()
        return {path: digest for path, digest in receipt.changed.items() if digest is not None}, files


def _plan_and_setup(pipeline: Pipeline) -> list[str]:
    options = " ".join(f"--{name} {pipeline.choices[name]}" for name in PLAN_CHOICES)
    commands = [f"bat plan {options} --candidates {pipeline.candidates}"]
    if "repair" in pipeline.choices:
        commands.append(f"bat setup --repair {pipeline.choices['repair']}")
    return commands


def _commands(pipeline: Pipeline, extent: Extent) -> list[str]:
    """Everything after the inspection, as far as asked; a step that fails is followed by the next as in the shell."""
    plan, *setup = _plan_and_setup(pipeline)
    commands = [plan, "bat check", *setup]
    if extent >= Extent.PILOT:
        commands += ["bat pilot", "bat verify"]
    if extent >= Extent.SUBMIT:
        commands.append("bat infer")
        if "deliver" in pipeline.choices:
            commands.append(f"bat submit --deliver {pipeline.choices['deliver']}")
    return commands
