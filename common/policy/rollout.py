"""Rollouts: the policy and many environments, turn by turn.

Used unchanged by training and by held-out evaluation. All live rollouts write their turn as one batch; their tool calls
then run side by side in a thread pool (the work itself is done by sandbox processes); what they printed is appended and
the next turn begins. Turns are joined at this barrier so that a batch, and with it every sampled token, depends on the
seeds alone and not on how fast a sandbox was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import torch

from common.errors import ConfigurationError
from common.policy.chat import ToolCall, parse_turn
from common.policy.decoder import Decoder, Sampler
from common.policy.policy import Policy

__all__ = ["Ending", "ToolEnvironment", "Trajectory", "rollout"]


class ToolEnvironment(Protocol):
    """Anything with the project's one tool."""

    def execute_code(self, language: str, code: str) -> str:
        """Run code in this rollout's workspace and return what it printed."""


class Ending(StrEnum):
    """Why a rollout ended."""

    DONE = "done"
    """The policy ended a turn without calling a tool."""
    MALFORMED = "malformed"
    """A turn tried to call a tool but could not be read."""
    TURNS = "turns"
    """The turn limit came first; a call in the last turn is not executed."""
    TOKENS = "tokens"
    """The token limit came first."""


@dataclass
class Trajectory:
    """One finished rollout.

    Args:
        prompt_ids: the prompt, up to and including the first assistant header.
        completion_ids: everything after it.
        mask: for each completion token, 1 if the policy wrote it, 0 if it was observed.
        logprobs: log-probability of each token the policy wrote, at the sampling temperature; 0 for observed ones.
        calls: tool calls that were executed, in order.
        turns: assistant turns written.
        ending: why it ended.
    """

    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    turns: int = 0
    ending: Ending = Ending.DONE

    @property
    def tokens(self) -> int:
        """Length in tokens, prompt included."""
        return len(self.prompt_ids) + len(self.completion_ids)

    def wrote(self, ids: list[int], logprobs: list[float]) -> None:
        """Append one turn of the policy."""
        self.completion_ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs
        self.turns += 1

    def observed(self, ids: list[int]) -> None:
        """Append observed tokens."""
        self.completion_ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)


def rollout(
    policy: Policy,
    environments: Sequence[ToolEnvironment],
    prompts: Sequence[str],
    *,
    temperature: float,
    seeds: Sequence[Any],
    max_turns: int,
    max_tokens: int,
    executor: Executor,
    check: Callable[[], None] = lambda: None,
) -> list[Trajectory]:
    """Run one rollout in each environment, which the caller has reset.

    Args:
        policy: with merged weights, if it carries an adapter.
        environments: one a rollout.
        prompts: the user message of each.
        temperature: of the softmax; 0 decodes greedily.
        seeds: one a rollout, integers or sequences of integers; with the same seeds the rollouts are the same.
        max_turns: assistant turns.
        max_tokens: tokens of a rollout, prompt included; the model's context also limits it.
        executor: runs the tool calls.
        check: called before every forward pass; raise from it to abandon the batch.

    Returns:
        One trajectory a rollout, in order.

    Raises:
        ConfigurationError: a prompt alone reaches the token limit.
    """
    limit = min(max_tokens, policy.context)
    done = [Trajectory(policy.dialogue.prompt(prompt)) for prompt in prompts]
    if not done:
        return done
    longest = max(trajectory.tokens for trajectory in done)
    if longest >= limit:
        raise ConfigurationError(
            f"a prompt of {longest} tokens leaves no room in {limit}", remedy="Raise max_tokens or shorten the prompt."
        )
    sampler = Sampler(seeds, temperature, limit, policy.model.device)
    decoder = Decoder(policy.model, [one.prompt_ids for one in done], policy.dialogue.end, sampler, check)
    while True:
        live = decoder.rows.tolist()
        written, logprobs = decoder.turn([limit - done[row].tokens for row in live])
        pending = []
        for row, ids, logs in zip(live, written, logprobs, strict=True):
            done[row].wrote(ids, logs)
            pending.append(_calls(policy, done[row], ids, max_turns))
        chunks = _observe(policy, environments, done, live, pending, limit, executor)
        going = [position for position, chunk in enumerate(chunks) if chunk]
        if not going:
            return done
        if len(going) < len(live):
            decoder.keep(torch.tensor(going, device=decoder.rows.device))
        decoder.feed([[written[position][-1], *chunks[position]] for position in going])


def _calls(policy: Policy, trajectory: Trajectory, ids: list[int], max_turns: int) -> list[ToolCall]:
    """Read a turn; sets `ending` and returns no calls where the rollout is over."""
    if ids[-1] != policy.dialogue.end:
        trajectory.ending = Ending.TOKENS
        return []
    calls = parse_turn(policy.dialogue.decode(ids))
    if not calls:
        trajectory.ending = Ending.MALFORMED if calls is None else Ending.DONE
        return []
    if trajectory.turns >= max_turns:
        trajectory.ending = Ending.TURNS
        return []
    return calls


def _observe(
    policy: Policy,
    environments: Sequence[ToolEnvironment],
    done: list[Trajectory],
    live: list[int],
    pending: list[list[ToolCall]],
    limit: int,
    executor: Executor,
) -> list[list[int]]:
    """Execute the calls of a turn and append what they printed; an empty chunk says that the rollout is over."""
    futures = {
        row: executor.submit(_execute, environments[row], calls)
        for row, calls in zip(live, pending, strict=True)
        if calls
    }
    chunks: list[list[int]] = []
    for row, calls in zip(live, pending, strict=True):
        if not calls:
            chunks.append([])
            continue
        done[row].calls += calls
        chunk = policy.dialogue.observation(futures[row].result())
        if done[row].tokens + len(chunk) >= limit:
            done[row].ending = Ending.TOKENS
            chunk = []
        done[row].observed(chunk)
        chunks.append(chunk)
    return chunks


def _execute(environment: ToolEnvironment, calls: list[ToolCall]) -> str:
    return "\n".join(environment.execute_code(language=call.language, code=call.code) for call in calls)
