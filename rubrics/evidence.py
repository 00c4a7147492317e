"""Evidence of one rollout: verified receipts, the files before and after, and the verifier's own re-runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from common.canonical import digest_bytes, digest_json
from common.errors import SigningError
from common.sandbox.receipt import Receipt
from common.sandbox.record import Record
from common.signing import VerifyKey
from common.stages import Focus, Track
from rubrics.artifacts import PLAN_CHOICES, Pipeline, read_pipeline
from rubrics.commands import ran
from rubrics.isolation import isolation_breach
from rubrics.layout import BATCH, INSPECT, PLAN, SUBMISSION, SUBMITTED, case_of, cases_of, is_input, under
from rubrics.replay import Extent, Replayer, Rerun, ScoreFunction, View

__all__ = ["Evidence", "Task", "changed_inputs", "collect_evidence", "pick"]


@dataclass(frozen=True)
class Task:
    """What a rollout was asked, as the verifier knows it.

    Args:
        focus: stage practised, or E2E.
        track: task family.
        initial: the workspace at reset.
        view: the untouched inputs and their references.
        second: another seeded view of the same patient; `None` where there is none, and what needs it is unscored.
        right: option name to the choice that is right here.
        options: option name to its valid values.
        score: the track's metric.
    """

    focus: Focus
    track: Track
    initial: Mapping[str, bytes]
    view: View
    second: View | None
    right: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]]
    score: ScoreFunction


@dataclass(frozen=True)
class Evidence:
    """Everything the rubrics may look at.

    Args:
        task: what was asked.
        receipts: what was executed, verified, in order.
        final: workspace files at the end.
        pipeline: the choices that stand at the end.
        rerun: what these choices give on the same inputs.
        second: what they give on the second view; `None` where there is no second view or it was not needed.
        breach: why the rollout counts as a breach of isolation, or `None`.
    """

    task: Task
    receipts: tuple[Receipt, ...]
    final: Mapping[str, bytes]
    pipeline: Pipeline
    rerun: Rerun
    second: Rerun | None
    breach: str | None

    @property
    def acted(self) -> bool:
        """Whether some execution succeeded and some execution changed the workspace."""
        return any(receipt.succeeded for receipt in self.receipts) and any(r.changed for r in self.receipts)

    @cached_property
    def final_digests(self) -> Mapping[str, str]:
        """Path to SHA-256 of every file at the end."""
        return {path: digest_bytes(data) for path, data in self.final.items()}

    @cached_property
    def _initial_digests(self) -> Mapping[str, str]:
        return {path: digest_bytes(data) for path, data in self.task.initial.items()}

    def made_at(self, expected: Mapping[str, str], *, verb: str = "", start: int = 0) -> int | None:
        """The first execution, from `start`, that brought the workspace to hold exactly these files.

        Args:
            expected: path to SHA-256; nothing is ever made when it is empty.
            verb: toolkit command that the execution must really have run; empty where the files speak for themselves.
            start: receipts before it are followed but cannot be the answer.

        Returns:
            Index of the receipt, or `None` where this rollout never made them (they may have lain there before).
        """
        if not expected:
            return None
        present = {path: self._initial_digests.get(path) for path in expected}
        for index, receipt in enumerate(self.receipts):
            touched = [path for path in expected if path in receipt.changed]
            present.update((path, receipt.changed[path]) for path in touched)
            complete = touched and all(present[path] == digest for path, digest in expected.items())
            if complete and index >= start and (not verb or ran(receipt, verb)):
                return index
        return None

    def first_touch(self, folder: str) -> int | None:
        """The first execution that changed anything below a folder."""
        for index, receipt in enumerate(self.receipts):
            if any(path.startswith(folder + "/") for path in receipt.changed):
                return index
        return None

    def last_touch(self, *paths: str) -> int | None:
        """The last execution that changed one of these files."""
        touched = [i for i, receipt in enumerate(self.receipts) if any(path in receipt.changed for path in paths)]
        return touched[-1] if touched else None

    def proper(self, name: str) -> bool:
        """Whether the choice that stands for an option is the right one."""
        return self.pipeline.choices.get(name) == self.task.right[name]

    @property
    def plan_proper(self) -> bool:
        """Whether a genuine plan stands at the end and each of its choices is right."""
        return self.plan_stands and all(self.proper(name) for name in PLAN_CHOICES)

    @cached_property
    def plan_stands(self) -> bool:
        """Whether the plan files at the end are exactly what planning these choices gives."""
        return self.pipeline.planned and self._stands(pick(self.rerun.digests, *PLAN))

    @cached_property
    def plan_made_at(self) -> int | None:
        """When this rollout made the plan that stands at the end."""
        return self.made_at(pick(self.rerun.digests, *PLAN), verb="plan") if self.plan_stands else None

    @cached_property
    def inspected_at(self) -> int | None:
        """When this rollout first really inspected the inputs."""
        return self.made_at(pick(self.rerun.digests, INSPECT), verb="inspect")

    @cached_property
    def completed(self) -> float:
        """Share of cases whose batch output was made in this rollout and is what the pipeline really gives, 0 to 1."""
        expected = under(BATCH, self.rerun.digests)
        by_case: dict[str, dict[str, str]] = {}
        for path, digest in expected.items():
            by_case.setdefault(case_of(path, BATCH), {})[path] = digest
        cases = cases_of(self.task.view.files)
        genuine = [
            c for c in cases if c in by_case and self._stands(by_case[c]) and self.made_at(by_case[c]) is not None
        ]
        return len(genuine) / len(cases) if cases else 0.0

    @cached_property
    def submission_genuine(self) -> bool:
        """Whether the submission was made in this rollout and is exactly what the pipeline really delivers."""
        expected = {**pick(self.rerun.digests, SUBMISSION), **under(SUBMITTED, self.rerun.digests)}
        if SUBMISSION not in expected or len(expected) < 2 or self.made_at(expected) is None:
            return False
        return self._stands(expected) and under(SUBMITTED, self.final_digests).keys() <= expected.keys()

    def _stands(self, expected: Mapping[str, str]) -> bool:
        return bool(expected) and all(self.final_digests.get(path) == digest for path, digest in expected.items())


def pick(digests: Mapping[str, str], *paths: str) -> dict[str, str]:
    """The named entries, or nothing at all when one of them is missing."""
    return {path: digests[path] for path in paths} if all(path in digests for path in paths) else {}


_EXTENT = {Focus.S1: Extent.SETUP, Focus.S2: Extent.SETUP, Focus.S3: Extent.PILOT}
_NEEDS_SECOND = (Focus.S3, Focus.S4, Focus.E2E)


def collect_evidence(
    task: Task,
    record: Record,
    final: Mapping[str, bytes],
    *,
    key: VerifyKey,
    rollout: str,
    replayer: Replayer,
) -> Evidence:
    """Verify the record, read the pipeline that stands, and re-run it as far as the focus needs.

    Args:
        task: what was asked.
        record: of the rollout's session, sealed.
        final: its workspace files at the end.
        key: the sandbox's public key.
        rollout: id of the session that the record must be of.
        replayer: re-runs pipelines; a broken sandbox raises from there.

    Raises:
        SandboxError: the re-run could not be made; the rollout must be repeated, not scored.
    """
    pipeline = read_pipeline(final, task.options)
    breach = _forgery(task, record, final, key, rollout) or isolation_breach(record.receipts)
    if breach is not None or not record.receipts:
        return Evidence(task, record.receipts, final, pipeline, Rerun(), None, breach)
    rerun = replayer.rerun(task.view, pipeline, _EXTENT.get(task.focus, Extent.SUBMIT), task.score)
    second = None
    if task.second is not None and task.focus in _NEEDS_SECOND:
        second = replayer.batch(task.second, pipeline, task.score)
    return Evidence(task, record.receipts, final, pipeline, rerun, second, None)


def _forgery(task: Task, record: Record, final: Mapping[str, bytes], key: VerifyKey, rollout: str) -> str | None:
    """Why the record is not what the sandbox recorded of this rollout of this task, or `None`."""
    try:
        record.verify(key, rollout=rollout)
    except SigningError as error:
        return f"the record does not verify: {error}"
    if record.opening.files != _digest(task.initial):
        return "the record began with other files than the task's"
    if record.closing.files != _digest(final):
        return "the files are not those that the record ends with"
    return None


def _digest(files: Mapping[str, bytes]) -> str:
    return digest_json({path: digest_bytes(data) for path, data in files.items()})


def changed_inputs(evidence: Evidence) -> list[str]:
    """Given files that the rollout edited, removed or added to, sorted."""
    return sorted({path for receipt in evidence.receipts for path in receipt.changed if is_input(path)})
