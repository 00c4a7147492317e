"""The two factors of LoRA layers in an adapter: which tensors pair up, and which factor a round trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

__all__ = ["A_SUFFIX", "B_SUFFIX", "Factor", "factor_of", "frozen_factor", "lora_layers"]

Factor: TypeAlias = Literal["A", "B"]
"""The low-rank product of a layer is B A: A is [rank, in], B is [out, rank]."""

A_SUFFIX = ".lora_A.weight"
B_SUFFIX = ".lora_B.weight"


def factor_of(name: str) -> Factor | None:
    """Which factor a tensor is, or `None` when it is part of no LoRA layer."""
    if name.endswith(A_SUFFIX):
        return "A"
    return "B" if name.endswith(B_SUFFIX) else None


def lora_layers(names: Iterable[str]) -> list[str]:
    """Layers that have both factors among `names`, sorted: a layer's name is its tensors' common beginning."""
    present = set(names)
    layers = (name.removesuffix(A_SUFFIX) for name in present if name.endswith(A_SUFFIX))
    return sorted(layer for layer in layers if layer + B_SUFFIX in present)


def frozen_factor(aggregation: str, round_number: int) -> Factor | None:
    """The factor that a round must leave untouched.

    `ffa` never trains A (FFA-LoRA, Sun et al. 2024); `rolora` trains B in odd rounds and A in even ones (RoLoRA, Chen
    et al. 2024).

    Args:
        aggregation: name of the rule.
        round_number: from 1.
    """
    if aggregation == "ffa":
        return "A"
    if aggregation == "rolora":
        return "A" if round_number % 2 else "B"
    return None
