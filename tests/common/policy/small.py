"""A tiny untrained policy for tests: real architecture and tokenizer, random weights."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch

from common.adapter import RawTensor
from common.policy import Policy, adapter_spec, fresh_tiny_model, load_policy, save_policy, train_tokenizer

TEXTS = [
    "track enhancement stage S1",
    "bat inspect",
    "bat plan --method median --polarity invert --level 2 --candidates 3",
    "kind impulse polarity inverted level 2 fault axes deliver flip",
    "plan saved",
    "fault remains axes\nexit 1",
] * 20


def save_small(folder: Path) -> Path:
    """Write an untrained policy."""
    tokenizer = train_tokenizer(TEXTS, vocabulary=400)
    save_policy(fresh_tiny_model(tokenizer, seed=0), tokenizer, folder)
    return folder


@cache
def small_policy(dtype: torch.dtype = torch.float32) -> Policy:
    """An untrained policy, loaded."""
    with tempfile.TemporaryDirectory() as folder:
        return load_policy(save_small(Path(folder) / "policy"), dtype)


def random_adapter(policy: Policy, seed: int = 0, scale: float = 0.05) -> dict[str, RawTensor]:
    """An adapter with normal values in A and B."""
    rng = np.random.default_rng(seed)
    return {
        name: RawTensor.from_array(rng.normal(0, scale, shape).astype(np.float32))
        for name, (_, shape) in adapter_spec(policy).tensors.items()
    }
