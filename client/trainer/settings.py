"""The checks of a round that need no model, and the TRL configuration that follows from its settings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from common.errors import ConfigurationError
from common.messages import OptimizerSettings

if TYPE_CHECKING:
    from trl.trainer.grpo_config import GRPOConfig

__all__ = ["check_round", "grpo_config"]


def check_round(settings: OptimizerSettings, rows: int, micro_batch: int | None = None) -> None:
    """Refuse a round whose batches do not come out even; loads nothing, so call it as early as you like.

    Args:
        settings: the prescription's.
        rows: states drawn for the round, one row a group.
        micro_batch: rollouts of one backward pass, a whole step's if `None`.

    Raises:
        ConfigurationError: rows are not steps x groups, or the micro-batch does not divide a step's rollouts.
    """
    wanted = settings.steps * settings.groups_per_step
    if rows != wanted:
        raise ConfigurationError(
            f"a round of {settings.steps} steps x {settings.groups_per_step} groups needs {wanted} rows, not {rows}"
        )
    rollouts = settings.groups_per_step * settings.group_size
    if micro_batch is not None and (micro_batch < 1 or rollouts % micro_batch):
        raise ConfigurationError(
            f"a micro-batch of {micro_batch} does not divide the {rollouts} rollouts of a step "
            f"({settings.groups_per_step} groups of {settings.group_size})"
        )


def grpo_config(
    settings: OptimizerSettings, seed: int, folder: str, *, use_cpu: bool, micro_batch: int | None = None
) -> GRPOConfig:
    """GRPO as BaT has it: advantages are rewards minus their group's mean, not divided by its deviation.

    The loss is the mean over rollouts of the mean over their own tokens, plus the KL term in the loss; one optimizer
    step for each batch of rollouts; constant learning rate, AdamW without weight decay, gradient norm clipped at 1.

    Args:
        settings: the prescription's.
        seed: of everything TRL draws.
        folder: TRL insists on an output folder; nothing is written to it.
        use_cpu: whether to compute on the processor.
        micro_batch: rollouts of one backward pass, a whole step's if `None`.
    """
    from trl.trainer.grpo_config import GRPOConfig

    rollouts = settings.groups_per_step * settings.group_size
    micro_batch = micro_batch or rollouts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=rollouts // micro_batch,
            num_generations=settings.group_size,
            max_steps=settings.steps,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="constant",
            warmup_steps=0,
            weight_decay=0.0,
            max_grad_norm=1.0,
            beta=settings.kl_coefficient,
            temperature=settings.temperature,
            max_completion_length=settings.max_tokens,
            loss_type="grpo",
            scale_rewards="none",
            num_iterations=1,
            shuffle_dataset=False,
            mask_truncated_completions=False,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=use_cpu,
            seed=seed,
            data_seed=seed,
            logging_strategy="no",
            save_strategy="no",
            eval_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=0,
            dataloader_pin_memory=False,
        )
