"""One round of practice at a site: from the received adapter to the trained one."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from client.trainer.seat import EnvironmentFactory, Seating
from client.trainer.settings import check_round, grpo_config
from common.adapter import Adapter, RawTensor
from common.errors import BatError
from common.factors import Factor
from common.messages import OptimizerSettings
from common.policy import Policy, adapter_spec, attach_adapter, export_adapter, freeze_factor

__all__ = ["RoundCancelled", "train_round"]

Progress = Callable[[dict[str, float]], None]


class RoundCancelled(BatError):
    """The round was cancelled; nothing of it is kept."""


def train_round(
    policy: Policy,
    start: Adapter,
    environment_factory: EnvironmentFactory,
    rows: Sequence[Mapping[str, Any]],
    settings: OptimizerSettings,
    seed: int,
    progress: Progress = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    micro_batch: int | None = None,
    workers: int = 4,
    frozen: Factor | None = None,
) -> dict[str, RawTensor]:
    """Train an adapter by GRPO on the given states.

    The policy is left as it was. The KL reference is the policy with the starting adapter: TRL copies the adapter of a
    model that already carries one, and the copy lives only as long as this call.

    Args:
        policy: the base model.
        start: the adapter the round starts from.
        environment_factory: makes environments; each is reset many times, once for every rollout.
        rows: keyword arguments of `reset`, one a group in the order of training: steps x groups_per_step of them.
        settings: the prescription's.
        seed: with the same arguments and the same number of threads, the same adapter comes out.
        progress: called after every step with step, steps, reward_mean, reward_std, kl, entropy,
            mean_tokens, mean_turns and seconds of the step.
        cancelled: asked before every forward pass of a rollout.
        micro_batch: rollouts of one backward pass, a whole step's if `None`; bounds memory, not the result.
        workers: threads for environments.
        frozen: a factor that keeps its values.

    Returns:
        The trained adapter, same names and shapes as `start`.

    Raises:
        ConfigurationError: rows and settings do not fit together.
        AdapterError: `start` is not an adapter of this policy, or training ended in NaN or infinity.
        RoundCancelled: `cancelled` said so.
    """
    check_round(settings, len(rows), micro_batch)
    spec = adapter_spec(policy)
    spec.check(start)
    if settings.steps == 0:
        return dict(start)
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="rollout") as executor,
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # its own renamed settings
        seating = Seating(environment_factory, rows, executor)
        try:
            trained = _train(
                policy,
                start,
                seating,
                len(rows),
                settings,
                seed,
                progress,
                cancelled,
                executor,
                folder,
                micro_batch,
                frozen,
            )
        finally:
            seating.close()
    spec.check(trained)
    return trained


def _train(
    policy: Policy,
    start: Adapter,
    seating: Seating,
    count: int,
    settings: OptimizerSettings,
    seed: int,
    progress: Progress,
    cancelled: Callable[[], bool],
    executor: ThreadPoolExecutor,
    folder: str,
    micro_batch: int | None,
    frozen: Factor | None,
) -> dict[str, RawTensor]:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # silences the notice that environments are experimental
    from datasets import Dataset

    from client.trainer.grpo import RoundTrainer
    from client.trainer.watch import StepWatch

    def check() -> None:
        if cancelled():
            raise RoundCancelled("the round was cancelled")

    use_cpu = policy.model.device.type == "cpu"
    model = attach_adapter(policy, start)
    trainer = RoundTrainer(
        policy,
        settings,
        executor,
        check,
        model=model,
        args=grpo_config(settings, seed, folder, use_cpu=use_cpu, micro_batch=micro_batch),
        train_dataset=Dataset.from_dict(
            {"prompt": [[{"role": "user", "content": ""}]] * count, "row": list(range(count))}
        ),
        processing_class=policy.tokenizer,
        environment_factory=seating,
    )
    if frozen is not None:  # only now: building the trainer makes the whole adapter trainable again
        freeze_factor(model, frozen)
    trainer.add_callback(StepWatch(trainer, progress, check, time.monotonic))
    trainer.train()
    return export_adapter(model)
