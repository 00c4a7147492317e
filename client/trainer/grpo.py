"""TRL's GRPO trainer with our rollouts and without the padding.

TRL keeps what it is good at: sampling rows, resetting environments, group advantages, the clipped loss with its KL
term, the optimizer. Two things are replaced. Rollouts come from `common.policy.rollout`, which keeps its cache over
tool turns and decodes with the adapter merged. Log-probabilities are computed in buckets of similar length: stage
rollouts are short, end-to-end ones long, and a batch padded to its longest row is mostly padding.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, cast

import torch
from peft import PeftModel
from torch.nn.functional import pad
from trl.trainer.grpo_trainer import GRPOTrainer

from client.trainer.seat import Seat
from common.messages import OptimizerSettings
from common.policy import MergedModel, Policy, Trajectory, rollout

__all__ = ["RoundTrainer"]

_BUCKET_ROWS = 16
"""Rows of one forward pass: small enough that their lengths are alike, large enough to fill the processor."""


class RoundTrainer(GRPOTrainer):
    """A GRPO trainer for one round.

    Args:
        policy: the base policy the trained model shares its weights with.
        settings: the prescription's.
        executor: runs tool calls.
        check: called before every forward pass of a rollout; raises to cancel.
        **arguments: TRL's own.
    """

    def __init__(
        self,
        policy: Policy,
        settings: OptimizerSettings,
        executor: Executor,
        check: Callable[[], None],
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self._merged = MergedModel(policy)
        self._policy = policy.with_model(self._merged.model)
        self._settings, self._executor, self._check = settings, executor, check
        self.trajectories: list[Trajectory] = []
        """The rollouts of the latest step, group by group."""

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Run the rollouts of a step in the environments TRL has reset; returns TRL's eight fields."""
        self._merged.refresh_from(cast(PeftModel, self.model))
        seats, settings = cast(list[Seat], self.environments), self._settings
        step = self.state.global_step
        self.trajectories = rollout(
            self._policy,
            seats,
            [seat._text() for seat in seats],
            temperature=settings.temperature,
            seeds=[(self.args.seed, step, number) for number in range(len(seats))],
            max_turns=settings.max_turns,
            max_tokens=settings.max_tokens,
            executor=self._executor,
            check=self._check,
        )
        for seat in seats:
            seat._finish()
        prompt_ids = [one.prompt_ids for one in self.trajectories]
        completion_ids = [one.completion_ids for one in self.trajectories]
        masks = [one.mask for one in self.trajectories]
        messages: list[list[dict[str, str]]] = [[{"role": "assistant", "content": ""}] for _ in self.trajectories]
        return prompt_ids, completion_ids, masks, messages, None, {}, None, []

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *arguments: Any,
        **keywords: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """TRL's log-probabilities [rows, logits_to_keep], computed for rows of similar length at a time."""
        prompt_columns = input_ids.shape[1] - logits_to_keep
        before = attention_mask[:, :prompt_columns].sum(dim=1)
        after = attention_mask[:, prompt_columns:].sum(dim=1)
        order = (before + after).argsort(stable=True)
        logps, entropies = [], []
        for rows in torch.split(order, _BUCKET_ROWS):
            first = prompt_columns - int(before[rows].max())
            kept = int(after[rows].max())
            columns = slice(first, prompt_columns + kept)
            part, entropy, _ = super()._get_per_token_logps_and_entropies(
                model, input_ids[rows, columns], attention_mask[rows, columns], kept, *arguments, **keywords
            )
            logps.append(pad(part, (0, logits_to_keep - kept)))
            if entropy is not None:
                entropies.append(pad(entropy, (0, logits_to_keep - kept)))
        back = order.argsort()
        return torch.cat(logps)[back], torch.cat(entropies)[back] if entropies else None, None
