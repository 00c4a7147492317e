"""The cold start: `bat-tiny` learns from scarce demonstrations to speak in valid commands, once.

Trains the tokenizer on the demonstrations' text, then the model by supervised fine-tuning with the loss on assistant
tokens only: what the model is shown (prompt, observations) is never a target (BaT, arXiv 2608.16211). The result is the
base policy of a federation; everything after it is learned by practice.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from common.adapter import encode_adapter
from common.base_model import INITIAL_ADAPTER
from common.errors import ConfigurationError
from common.policy import (
    Dialogue,
    fresh_tiny_model,
    load_policy,
    policy_digest,
    save_policy,
    train_tokenizer,
    zero_adapter,
)

__all__ = ["ColdStartReport", "ColdStartSettings", "Shown", "cold_start", "encode_demonstration"]

CLOSING = "done"
"""What the assistant says when it calls no tool any more."""

_IGNORED = -100


class Shown(Protocol):
    """A demonstration."""

    @property
    def prompt(self) -> str:
        """The user message."""

    @property
    def steps(self) -> Sequence[tuple[str, str]]:
        """Commands, each with what it printed."""


@dataclass(frozen=True)
class ColdStartSettings:
    """How the cold start trains.

    Args:
        steps: optimizer steps. Reading a value off an observation emerges after some hundreds.
        short: share of the steps, from the first on, that use only the shorter half of the demonstrations: the same
            choices at a third of the cost.
        batch: demonstrations a step.
        learning_rate: highest one; linear warm-up over the first steps, cosine decay to a tenth.
        warmup: steps of warm-up.
        vocabulary: of the tokenizer.
        bucket: demonstrations of one forward pass, grouped by length.
    """

    steps: int = 800
    short: float = 0.75
    batch: int = 32
    learning_rate: float = 3e-3
    warmup: int = 20
    vocabulary: int = 1024
    bucket: int = 16


@dataclass(frozen=True)
class ColdStartReport:
    """What a cold start has reached.

    Args:
        policy: digest of the policy folder.
        demonstrations: how many it was shown.
        loss: mean cross-entropy in nats over the assistant tokens of the last 20 steps.
        tokens: mean length of a demonstration.
        seconds: wall time.
    """

    policy: str
    demonstrations: int
    loss: float
    tokens: float
    seconds: float


def encode_demonstration(dialogue: Dialogue, shown: Shown) -> tuple[list[int], list[int]]:
    """Token ids of a demonstration and its targets.

    Returns:
        Ids, and as many targets: the id itself where the assistant wrote it, -100 elsewhere.
    """
    ids = dialogue.prompt(shown.prompt)
    targets = [_IGNORED] * len(ids)
    for command, observation in shown.steps:
        turn, seen = dialogue.call(command), dialogue.observation(observation)
        ids += turn + seen
        targets += turn + [_IGNORED] * len(seen)
    turn = dialogue.closing(CLOSING)
    return ids + turn, targets + turn


def cold_start(
    out: Path,
    demonstrations: Iterable[Shown],
    seed: int,
    settings: ColdStartSettings | None = None,
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> Path:
    """Make a base policy from demonstrations.

    Args:
        out: folder to write, with the adapter that every run starts from; `<out>.cold_start.json` with the report is
            laid beside it, so that wall time is not part of the digest.
        demonstrations: any number of them.
        seed: with the same demonstrations and the same number of threads, the same policy comes out.
        settings: of the training.
        progress: called after every step with the step and its loss.

    Returns:
        `out`.

    Raises:
        ConfigurationError: no demonstrations.
    """
    settings = settings or ColdStartSettings()
    began = time.monotonic()
    shown = list(demonstrations)
    if not shown:
        raise ConfigurationError("a cold start needs demonstrations")
    tokenizer = train_tokenizer(_texts(shown), settings.vocabulary)
    dialogue = Dialogue(tokenizer)
    encoded = [encode_demonstration(dialogue, one) for one in shown]
    model = fresh_tiny_model(tokenizer, seed)
    losses = _train(model, encoded, seed, settings, progress)
    save_policy(model, tokenizer, out)
    initial = encode_adapter(zero_adapter(load_policy(out), seed))
    (out / INITIAL_ADAPTER).write_bytes(initial)
    digest = policy_digest(out)
    report = ColdStartReport(
        policy=digest,
        demonstrations=len(shown),
        loss=float(np.mean(losses[-20:])),
        tokens=float(np.mean([len(ids) for ids, _ in encoded])),
        seconds=time.monotonic() - began,
    )
    out.with_name(f"{out.name}.cold_start.json").write_text(json.dumps(asdict(report), indent=2) + "\n")
    return out


def _texts(shown: Sequence[Shown]) -> Iterable[str]:
    for one in shown:
        yield one.prompt
        yield CLOSING
        for command, observation in one.steps:
            yield command
            yield observation


def _train(
    model: Any,
    encoded: Sequence[tuple[list[int], list[int]]],
    seed: int,
    settings: ColdStartSettings,
    progress: Callable[[int, float], None],
) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, settings))
    rng = np.random.Generator(np.random.PCG64(seed))
    by_length = sorted(encoded, key=lambda pair: len(pair[0]))
    shorter = _batches(by_length[: (len(by_length) + 1) // 2], settings.batch, rng)
    all_lengths = _batches(by_length, settings.batch, rng)
    losses = []
    model.train()
    for step in range(settings.steps):
        batch = next(shorter if step < settings.short * settings.steps else all_lengths)
        count = sum(target != _IGNORED for _, targets in batch for target in targets)
        loss = 0.0
        for start in range(0, len(batch), settings.bucket):
            part = _loss(model, batch[start : start + settings.bucket]) / count
            part.backward()  # type: ignore[no-untyped-call]
            loss += float(part.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss)
        progress(step + 1, loss)
    model.eval()
    return losses


def _batches(
    encoded: Sequence[tuple[list[int], list[int]]], size: int, rng: np.random.Generator
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Endless batches, shortest sequence first in each; every sequence comes once before any comes again."""
    order: list[int] = []
    while True:
        while len(order) < size:
            order += rng.permutation(len(encoded)).tolist()
        yield sorted((encoded[index] for index in order[:size]), key=lambda pair: len(pair[0]))
        del order[:size]


def _rate(step: int, settings: ColdStartSettings) -> float:
    """Factor on the learning rate at a step, counted from 0."""
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    past = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * past))


def _loss(model: Any, batch: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    """Summed cross-entropy over the targets of some demonstrations, padded on the right."""
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([ids + [model.config.pad_token_id] * (longest - len(ids)) for ids, _ in batch])
    targets = torch.tensor([targets + [_IGNORED] * (longest - len(targets)) for _, targets in batch])
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    aimed = targets[:, 1:] != _IGNORED
    logits = model.get_output_embeddings()(hidden[aimed])
    return cross_entropy(logits, targets[:, 1:][aimed], reduction="sum")
