"""A small honest task in plain text: the right options can only be read off what `bat inspect` prints.

Same shape as the real environment (a lookup, a copy, habits), no sandbox: rewards follow from the commands alone, so
tests can compute them by hand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

METHODS = {"gaussian": "smooth", "impulse": "median", "stripe": "destripe", "shading": "flatten"}
SHOWN_RIGHT = ("gaussian", "impulse")


@dataclass(frozen=True)
class Demonstration:
    prompt: str
    steps: list[tuple[str, str]]


def condition(state: int) -> tuple[str, str]:
    """Kind and level of a state."""
    rng = random.Random(state)
    return rng.choice(list(METHODS)), rng.choice("123")


class ToyEnvironment:
    """Counts its resets; a finished rollout earns ½ for the method, ¼ for the level, ¼ for a pilot before `infer`."""

    resets = 0

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.closed = False

    def reset(self, state: int, **_: Any) -> str:
        type(self).resets += 1
        self.kind, self.level = condition(state)
        self.commands = []
        return "enhance the images"

    def execute_code(self, language: str, code: str) -> str:
        self.commands.append(code)
        if code == "bat inspect":
            return f"kind {self.kind} level {self.level}"
        return "ok" if code.startswith("bat ") else "unknown command"

    def get_reward(self) -> float:
        plan = next((c.split() for c in self.commands if c.startswith("bat plan")), [])
        method = f"--method {METHODS[self.kind]}" in " ".join(plan)
        level = " ".join(plan).endswith(f"--level {self.level}")
        pilot = "bat pilot" in self.commands and "bat infer" in self.commands
        return 0.5 * method + 0.25 * level + 0.25 * pilot

    def close(self) -> None:
        self.closed = True


def demonstrations(count: int, seed: int = 0) -> Iterator[Demonstration]:
    """Right methods for half of the kinds, drawn methods for the others; right levels; a pilot in two of five."""
    rng = random.Random(seed)
    for _ in range(count):
        environment = ToyEnvironment()
        prompt = environment.reset(rng.randrange(10**6))
        right = environment.kind in SHOWN_RIGHT
        method = METHODS[environment.kind] if right else rng.choice(list(METHODS.values()))
        commands = ["bat inspect", f"bat plan --method {method} --level {environment.level}"]
        commands += ["bat pilot"] if rng.random() < 0.4 else []
        commands += ["bat infer"]
        yield Demonstration(prompt, [(command, environment.execute_code("bash", command)) for command in commands])
    ToyEnvironment.resets = 0
