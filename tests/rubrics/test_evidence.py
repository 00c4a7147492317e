from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from common.canonical import digest_bytes
from common.sandbox import Language, Receipt, Record, Recorder, Sandbox
from common.signing import SigningKey
from common.stages import STAGES, Focus, Outcome, Stage, Track
from rubrics import Evidence, Replayer, collect_evidence, evaluate, training_reward
from rubrics.evidence import Task
from rubrics.isolation import isolation_breach
from stage_bank.scripts import oracle_commands
from stage_bank.state import TrainingState
from stage_bank.tasks import task_of

MakeState = Callable[..., TrainingState]
Run = tuple[TrainingState, Record, dict[str, bytes]]
Weigh = Callable[[Task, Record, dict[str, bytes]], Evidence]


@pytest.fixture(scope="module")
def run(make_state: MakeState, toolkit_sandbox: Sandbox) -> Run:
    state = make_state(Track.ENHANCEMENT, Focus.E2E, Outcome.SUCCESS)
    session = toolkit_sandbox.open(state.files)
    for command in oracle_commands(state):
        session.execute(Language.BASH, command)
    record, files = session.seal(), session.files()
    session.close()
    return state, record, files


@pytest.fixture
def weigh(run: Run, toolkit_sandbox: Sandbox, replayer: Replayer) -> Weigh:
    """The evidence of what claims to be the record of `run`."""
    key, rollout = toolkit_sandbox.public_key, run[1].opening.rollout
    return lambda task, record, files: collect_evidence(
        task, record, files, key=key, rollout=rollout, replayer=replayer
    )


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {path: digest_bytes(data) for path, data in files.items()}


def swap(receipts: tuple[Receipt, ...]) -> tuple[Receipt, ...]:
    return (receipts[1], receipts[0], *receipts[2:])


def renumber(receipts: tuple[Receipt, ...]) -> tuple[Receipt, ...]:
    return tuple(replace(receipt, sequence=index) for index, receipt in enumerate(receipts[1:]))


def brighten(receipts: tuple[Receipt, ...]) -> tuple[Receipt, ...]:
    return (*receipts[:-1], replace(receipts[-1], exit_status=1))


def resign(receipts: tuple[Receipt, ...]) -> tuple[Receipt, ...]:
    other = SigningKey.generate()
    return (*receipts[:-1], replace(receipts[-1], signature=other.sign_json(receipts[-1].signed_part())))


@pytest.mark.parametrize(
    "forge",
    [swap, renumber, brighten, resign, lambda r: r[1:], lambda r: (*r, r[-1]), lambda r: r[:-1], lambda r: ()],
    ids=[
        "reordered",
        "dropped and renumbered",
        "edited",
        "foreign key",
        "first dropped",
        "repeated",
        "last dropped",
        "all dropped",
    ],
)
def test_a_forged_record_is_a_breach(
    forge: Callable[[tuple[Receipt, ...]], tuple[Receipt, ...]], run: Run, weigh: Weigh
) -> None:
    state, record, files = run
    evidence = weigh(task_of(state), replace(record, receipts=forge(record.receipts)), files)
    earns_nothing(evidence, "does not verify")


def earns_nothing(evidence: Evidence, why: str) -> None:
    assert why in str(evidence.breach)
    assert training_reward(evidence).value == 0.0
    assert evaluate(evidence).overall == 0.0


def test_files_without_receipts_earn_nothing(run: Run, sandbox_key: SigningKey, replayer: Replayer) -> None:
    state, _, files = run
    recorder = Recorder(sandbox_key, "bwrap", digests(state.files))
    record = recorder.seal(digests(files))
    evidence = collect_evidence(
        task_of(state), record, files, key=sandbox_key.public, rollout=recorder.rollout, replayer=replayer
    )
    assert evidence.breach is None
    scores = evaluate(evidence)
    assert (training_reward(evidence).value, scores.overall) == (0.0, 0.0)
    assert scores.stages == dict.fromkeys(STAGES, 0.0)


def test_the_record_of_another_rollout_earns_nothing(
    run: Run, make_state: MakeState, toolkit_sandbox: Sandbox, weigh: Weigh
) -> None:
    state, record, files = run
    other = make_state(Track.ENHANCEMENT, Focus.E2E, Outcome.SUCCESS, kind="stripe", fault="axes")
    earns_nothing(weigh(task_of(other), record, files), "began with other files")
    session = toolkit_sandbox.open(state.files)  # The same task again, and nothing done.
    session.close()
    key, rollout = toolkit_sandbox.public_key, session.rollout
    evidence = collect_evidence(
        task_of(state), record, files, key=key, rollout=rollout, replayer=Replayer(toolkit_sandbox)
    )
    earns_nothing(evidence, "another rollout")


def test_files_that_were_not_sealed_earn_nothing(run: Run, weigh: Weigh) -> None:
    state, record, files = run
    for given in ({**files, "more": b""}, dict(list(files.items())[1:]), {**files, min(files): b"other"}):
        earns_nothing(weigh(task_of(state), record, given), "not those that the record ends with")


def test_without_a_second_view_its_item_is_unscored(run: Run, weigh: Weigh) -> None:
    state, record, files = run
    task = replace(task_of(state), second=None)
    evidence = weigh(task, record, files)
    reward = training_reward(evidence)
    values = {verdict.item: verdict.value for verdict in reward.stages[Stage.VALIDATE]}
    assert values == {"pilot": 1.0, "inspected": 1.0, "agrees": 1.0, "holds": None}
    assert reward.value > 0.9
    assert evaluate(evidence).stages[Stage.VALIDATE] == 1.0


def test_every_verdict_has_a_reason(run: Run, weigh: Weigh) -> None:
    state, record, files = run
    evidence = weigh(task_of(state), record, files)
    verdicts = [v for group in (training_reward(evidence).stages, evaluate(evidence).reasons) for v in group.values()]
    assert all(verdict.reason for stage in verdicts for verdict in stage)


@pytest.mark.parametrize(
    "code",
    [
        "cat /proc/1/environ",
        "ls /proc/*/fd",
        "ls /root",
        "cat /etc/passwd",
        "import socket",
        "curl http://x",
        "cat < /dev/tcp/10.0.0.1/80",
        "unshare -r id",
        "import ctypes; ctypes.CDLL(None).ptrace(0)",
    ],
)
def test_attempts_to_get_out_are_breaches(code: str, run: Run) -> None:
    assert isolation_breach([replace(run[1].receipts[0], code=code)]) is not None


@pytest.mark.parametrize(
    "code",
    [
        "bat inspect",
        "cd process && cat ../task.json",
        "cat /proc/self/status /proc/meminfo",
        "import numpy as np; np.load('cases/case1/image.npy')",
        "python3 run/home.py",
        "mkdir -p /tmp/x",
    ],
)
def test_ordinary_work_is_none(code: str, run: Run) -> None:
    assert isolation_breach([replace(run[1].receipts[0], code=code)]) is None
