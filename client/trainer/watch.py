"""Reports each training step, stops a cancelled round between steps, and returns what a step has freed."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from client.trainer.grpo import RoundTrainer
from client.trainer.heap import return_freed_memory

__all__ = ["StepWatch"]


class StepWatch(TrainerCallback):
    """Calls `progress` after every optimizer step; also silences the trainer's own printing.

    Args:
        trainer: the trainer watched.
        progress: receives the figures of a step.
        check: raises to cancel.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        trainer: RoundTrainer,
        progress: Callable[[dict[str, float]], None],
        check: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        trainer.remove_callback(PrinterCallback)
        self._trainer, self._progress, self._check, self._clock = trainer, progress, check, clock
        self._began = clock()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the time."""
        self._check()
        self._began = self._clock()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the step and return the memory it has freed."""
        return_freed_memory()
        metrics, rollouts = self._trainer._metrics["train"], self._trainer.trajectories
        self._progress(
            {
                "step": state.global_step,
                "steps": state.max_steps,
                "reward_mean": metrics["reward"][-1],
                "reward_std": metrics["reward_std"][-1],
                "kl": metrics["kl"][-1] if metrics["kl"] else 0.0,
                "entropy": metrics["entropy"][-1],
                "mean_tokens": fmean(one.tokens for one in rollouts),
                "mean_turns": fmean(one.turns for one in rollouts),
                "seconds": self._clock() - self._began,
            }
        )
        self._check()
