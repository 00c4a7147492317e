"""Memoised replay, and scoring one finished end-to-end rollout of 64x64 images on top, against replaying it anew.

Run it with `python -m tests.benchmarks.scoring`; the last line is one JSON object. Fresh and remembered re-runs are
interleaved, so that both meet the same load of the machine.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np

from common.sandbox import Language, Record, Sandbox
from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from rubrics import Replayer, collect_evidence, evaluate, training_reward
from rubrics.evidence import Task
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.images import public_images
from stage_bank.scripts import oracle_commands
from stage_bank.state import TrainingState
from stage_bank.tasks import task_of
from stage_bank.toolkit import open_toolkit_sandbox

GOAL = "replay <= 30 ms and scoring on top <= 60 ms"
REPLAY_MS, SCORING_MS = 30.0, 60.0
ROUNDS, REMEMBERED_A_ROUND = 5, 10


def milliseconds(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3


def states(sandbox: Sandbox) -> list[TrainingState]:
    """One end-to-end state of each track."""
    replayer, rng = Replayer(sandbox), np.random.default_rng(1)
    pictures = [image.picture for image in public_images("demonstrations")]
    made: list[TrainingState] = []
    for track in Track:
        state = None
        while state is None:
            picture = pictures[int(rng.integers(len(pictures)))]
            condition = random_condition(track, rng)
            fabricator = Fabricator(track, condition, [picture], "patient", rng, sandbox, replayer)
            state = fabricator.state(Focus.E2E, Outcome.SUCCESS, rng) if fabricator.admissible else None
        made.append(state)
    return made


def played(state: TrainingState, sandbox: Sandbox) -> tuple[Record, dict[str, bytes]]:
    session = sandbox.open(state.files)
    try:
        for command in oracle_commands(state):
            session.execute(Language.BASH, command)
        return session.seal(), session.files()
    finally:
        session.close()


def measure(task: Task, rollout: tuple[Record, dict[str, bytes]], sandbox: Sandbox) -> dict[str, list[float]]:
    """Milliseconds of a fresh replay, of a remembered one, and of the scores that follow from the evidence."""
    record, final = rollout
    key, name = sandbox.public_key, record.opening.rollout
    times: dict[str, list[float]] = {"fresh": [], "replay": [], "scoring": []}
    for _ in range(ROUNDS):
        replayer = Replayer(sandbox)
        for number in range(1 + REMEMBERED_A_ROUND):
            begin = time.perf_counter()
            evidence = collect_evidence(task, record, final, key=key, rollout=name, replayer=replayer)
            times["replay" if number else "fresh"].append(milliseconds(begin))
            begin = time.perf_counter()
            scores, reward = evaluate(evidence), training_reward(evidence)
            times["scoring"].append(milliseconds(begin))
            assert scores.agentic == 1.0, scores
            assert reward.value > 0.9, reward
    return times


def main() -> None:
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        every: dict[str, list[float]] = {"fresh": [], "replay": [], "scoring": []}
        for state in states(sandbox):
            times = measure(task_of(state), played(state, sandbox), sandbox)
            print(state.track.value, {name: round(statistics.median(column), 2) for name, column in times.items()})
            for name, column in times.items():
                every[name] += column
    finally:
        sandbox.close()
    fresh, replay, scoring = (statistics.median(every[name]) for name in ("fresh", "replay", "scoring"))
    holds = replay <= REPLAY_MS and scoring <= SCORING_MS
    print(f"scoring on top: {scoring:.2f} ms")
    result = {"name": "scoring", "ours": round(replay, 2), "peer": round(fresh, 1), "ratio": round(replay / fresh, 4)}
    print(json.dumps({**result, "unit": "ms", "goal": GOAL, "holds": holds}))


if __name__ == "__main__":
    main()
