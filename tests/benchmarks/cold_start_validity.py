"""How well the cold start speaks: share of its turns that call a valid command, over the whole sealed suite.

    python tests/benchmarks/cold_start_validity.py

A turn is valid when it ends the rollout or calls `bat` with a verb, options and values that it knows (exit status 0 or
1; 2 is misuse). Both decodings are shown: greedy, as in evaluation, and sampled at temperature 1, as in training. The
goal holds for both. The last line is one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from common.policy import Ending, Policy, load_policy, rollout
from common.sandbox import Sandbox
from common.signing import SigningKey
from deploy.demo_settings import CELLS_PER_TRACK, TRACKS
from deploy.prepare import make_once, policy_job, suites_job
from rubrics.replay import Replayer
from server.heldout import load_suite
from server.heldout_evaluation import MAX_TOKENS, MAX_TURNS
from stage_bank.environment import StageEnvironment
from stage_bank.state import TrainingState
from stage_bank.toolkit import open_toolkit_sandbox

GOAL = 0.95
MISUSED = 2


def validity(policy: Policy, states: Sequence[TrainingState], sandbox: Sandbox, temperature: float) -> float:
    """Share of valid turns of one rollout in every state."""
    replayer = Replayer(sandbox)
    known = {state.state_id: state for state in states}
    environments = [StageEnvironment(known.__getitem__, sandbox, replayer) for _ in states]
    with ThreadPoolExecutor(2) as executor:
        for environment, state in zip(environments, states, strict=True):
            environment.reset(state_id=state.state_id)
        trajectories = rollout(
            policy,
            environments,
            [state.prompt for state in states],
            temperature=temperature,
            seeds=list(range(len(states))),
            max_turns=MAX_TURNS,
            max_tokens=MAX_TOKENS,
            executor=executor,
        )
    receipts = [receipt for environment in environments for receipt in environment.receipts]
    for environment in environments:
        environment.close()
    valid = sum(receipt.code.startswith("bat ") and receipt.exit_status in (0, 1) for receipt in receipts)
    malformed = sum(one.ending is Ending.MALFORMED for one in trajectories)
    done = sum(one.ending is Ending.DONE for one in trajectories)
    return (valid + done) / (len(receipts) + malformed + done)


def main() -> None:
    """Measure and print the result."""
    folder, suites = make_once([policy_job(TRACKS), suites_job(TRACKS, CELLS_PER_TRACK)])
    policy, suite = load_policy(folder), load_suite(suites / "sealed.jsonl")
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        greedy, sampled = (validity(policy, suite.states, sandbox, temperature) for temperature in (0.0, 1.0))
    finally:
        sandbox.close()
    print(f"valid turns: greedy {greedy:.3f}, at temperature 1 {sampled:.3f}")
    result = {
        "name": "cold_start_validity",
        "ours": round(min(greedy, sampled), 4),
        "peer": 1.0,
        "ratio": round(min(greedy, sampled), 4),
        "unit": "share of turns",
        "goal": GOAL,
        "holds": min(greedy, sampled) >= GOAL,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
