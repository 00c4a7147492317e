"""Tokens a second of our multi-turn rollouts against TRL's own tool loop: same policy, environment, prompts and limits.

    python tests/benchmarks/rollout_engine.py [--rollouts 64] [--repeats 3]

The environment answers at once, so that only the engines are compared. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from datasets import Dataset
from trl.trainer.grpo_trainer import GRPOTrainer

from client.trainer.settings import grpo_config
from common.messages import OptimizerSettings
from common.policy import Policy, attach_adapter, load_policy, rollout, with_adapter, zero_adapter
from server.cold_start import ColdStartSettings, cold_start

GOAL = 3.0
MAX_TOKENS = 512
WORKFLOW = ("inspect", "check", "setup", "pilot", "verify", "infer", "verify", "submit")


@dataclass(frozen=True)
class Shown:
    """A demonstration."""

    prompt: str
    steps: list[tuple[str, str]]


class Workflow:
    """Answers every command with a fixed line, of a length that depends on the command."""

    def reset(self, **_: Any) -> None:
        """Nothing to start."""

    def execute_code(self, language: str, code: str) -> str:
        """Run code.

        Args:
            language: Interpreter.
            code: The program.

        Returns:
            What it printed.
        """
        return f"{language} ran {code} " + "kind impulse polarity inverted level 2 " * (len(code) % 4)

    def get_reward(self) -> float:
        """A constant."""
        return 0.0


def demonstrations() -> Iterator[Shown]:
    """Workflows that leave out a step here and there, so that rollouts differ in length."""
    for number in range(64):
        commands = [f"bat {name}" for place, name in enumerate(WORKFLOW) if (number >> place % 6) & 1 or place % 3 == 0]
        yield Shown("track enhancement stage E2E", [(code, Workflow().execute_code("bash", code)) for code in commands])


def ours(policy: Policy, count: int) -> Callable[[], int]:
    """Our engine; returns the tokens the policy wrote."""
    decoding = with_adapter(policy, zero_adapter(policy, 0))

    def run() -> int:
        with ThreadPoolExecutor(4) as executor:
            done = rollout(
                decoding,
                [Workflow() for _ in range(count)],
                ["track enhancement stage E2E"] * count,
                temperature=1.0,
                seeds=list(range(count)),
                max_turns=24,
                max_tokens=MAX_TOKENS,
                executor=executor,
            )
        return sum(sum(one.mask) for one in done)

    return run


def stock(policy: Policy, count: int, folder: str) -> Callable[[], int]:
    """TRL's engine, with the adapter unmerged as TRL decodes; returns the tokens the policy wrote."""
    settings = OptimizerSettings(
        steps=1,
        groups_per_step=1,
        group_size=count,
        learning_rate=1e-3,
        kl_coefficient=0.0,
        temperature=1.0,
        max_turns=24,
        max_tokens=MAX_TOKENS,
    )
    prompt = [{"role": "user", "content": "track enhancement stage E2E"}]
    trainer = GRPOTrainer(
        model=attach_adapter(policy, zero_adapter(policy, 0)),
        args=grpo_config(settings, 0, folder, use_cpu=True),
        train_dataset=Dataset.from_dict({"prompt": [prompt]}),
        processing_class=policy.tokenizer,
        environment_factory=Workflow,
    )
    trainer.max_tool_calling_iterations = 23
    captured: list[int] = []
    generate = trainer._generate

    def counted(prompts: list[Any]) -> Any:
        result = generate(prompts)
        captured.append(sum(sum(mask) for mask in result[2]))
        return result

    trainer._generate = counted  # type: ignore[method-assign]

    def run() -> int:
        environments = [Workflow() for _ in range(count)]
        trainer.environments = environments  # type: ignore[assignment]
        trainer._batch_environments = [None] * count
        trainer._sync_tool_dicts = [{"execute_code": one.execute_code} for one in environments]
        trainer._async_tool_dicts = [{} for _ in range(count)]
        trainer._generate([prompt] * count)
        return captured.pop()

    return run


def rate(run: Callable[[], int]) -> float:
    """Tokens a second of one call."""
    began = time.perf_counter()
    return run() / (time.perf_counter() - began)


def main() -> None:
    """Interleave both engines and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        out = cold_start(Path(folder) / "policy", demonstrations(), 0, ColdStartSettings(steps=60, batch=16))
        policy = load_policy(out)
        engines = {"ours": ours(policy, options.rollouts), "peer": stock(policy, options.rollouts, folder)}
        for run in engines.values():
            run()
        rates: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(options.repeats):
            for name, run in engines.items():
                rates[name].append(rate(run))
                print(f"{name}: {rates[name][-1]:.0f} tokens/s", flush=True)
    median = {name: statistics.median(values) for name, values in rates.items()}
    ratio = median["ours"] / median["peer"]
    print(
        json.dumps(
            {
                "name": "rollout_engine",
                "ours": round(median["ours"]),
                "peer": round(median["peer"]),
                "ratio": round(ratio, 2),
                "unit": "sampled tokens/s, one thread, against TRL's tool loop",
                "goal": GOAL,
                "holds": ratio >= GOAL,
            }
        )
    )


if __name__ == "__main__":
    main()
