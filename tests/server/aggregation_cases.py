"""Small adapters for the tests of aggregation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from common.adapter import Adapter, RawTensor
from common.factors import factor_of

LAYER = "model.layer"
SHAPES = {
    f"{LAYER}.lora_A.weight": (2, 5),
    f"{LAYER}.lora_B.weight": (4, 2),
    "model.second.lora_A.weight": (2, 4),
    "model.second.lora_B.weight": (3, 2),
}


def adapter(
    seed: int, scale: float = 1.0, *, dtype: str = "F32", shapes: Mapping[str, tuple[int, ...]] = SHAPES
) -> dict[str, RawTensor]:
    rng = np.random.default_rng(seed)
    return {name: RawTensor.from_values(scale * rng.normal(size=shape), dtype) for name, shape in shapes.items()}


def only(update: Adapter, factor: str | None) -> dict[str, RawTensor]:
    """The update with every other factor set to zero; as it is when `factor` is `None`."""
    return {
        name: tensor
        if factor in (None, factor_of(name))
        else RawTensor.from_values(np.zeros(tensor.shape), tensor.dtype)
        for name, tensor in update.items()
    }


def values(tensors: Adapter) -> np.ndarray:
    return np.concatenate([tensors[name].to_float32().ravel() for name in sorted(tensors)]).astype(np.float64)


def products(tensors: Adapter) -> np.ndarray:
    """All layers' B A, flat."""
    layers = sorted(name.removesuffix(".lora_A.weight") for name in tensors if name.endswith("A.weight"))
    return np.concatenate(
        [
            (
                tensors[f"{layer}.lora_B.weight"].to_float32().astype(np.float64)
                @ tensors[f"{layer}.lora_A.weight"].to_float32().astype(np.float64)
            ).ravel()
            for layer in layers
        ]
    )


def plus(start: Adapter, update: Adapter) -> dict[str, RawTensor]:
    return {n: RawTensor.from_array(t.to_float32() + update[n].to_float32()) for n, t in start.items()}
