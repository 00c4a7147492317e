"""LoRA adapters between the wire format, PEFT and merged weights.

The adapter of a model has, for every linear layer but the output layer, A of shape [rank, in] and B of shape
[out, rank] (Hu et al. 2021); the layer's weight becomes W + (alpha / rank) B A. Names are PEFT's, dtype is float32
whatever the model's. All conversions are strict: a missing, extra, renamed or misshapen tensor is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

from common.adapter import Adapter, AdapterSpec, RawTensor
from common.canonical import digest_bytes
from common.factors import Factor, factor_of
from common.policy.policy import Policy, share_parameters

__all__ = [
    "LORA_ALPHA",
    "LORA_RANK",
    "MergedModel",
    "adapter_spec",
    "attach_adapter",
    "export_adapter",
    "freeze_factor",
    "load_adapter",
    "with_adapter",
    "zero_adapter",
]

LORA_RANK = 16
LORA_ALPHA = 32
_PREFIX = "base_model.model."


def _linear_layers(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    head = model.get_output_embeddings()  # type: ignore[operator]
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module is not head:
            yield name, module


def adapter_spec(policy: Policy) -> AdapterSpec:
    """Names and shapes of every adapter of this policy."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, layer in _linear_layers(policy.model):
        tensors[f"{_PREFIX}{name}.lora_A.weight"] = ("F32", (LORA_RANK, layer.in_features))
        tensors[f"{_PREFIX}{name}.lora_B.weight"] = ("F32", (layer.out_features, LORA_RANK))
    return AdapterSpec(tensors)


def zero_adapter(policy: Policy, seed: int) -> dict[str, RawTensor]:
    """The adapter a run starts from: seeded A, zero B, so that it changes nothing yet.

    A is drawn as PEFT's default, uniform in ±1/sqrt(in). Every tensor has its own NumPy generator keyed by the seed and
    its name: all sites get the same bytes, whatever their torch version or number of threads.
    """
    adapter = {}
    for name, (_, shape) in adapter_spec(policy).tensors.items():
        values = np.zeros(shape, dtype=np.float32)
        if name.endswith("lora_A.weight"):
            key = int(digest_bytes(f"{seed}/{name}".encode())[:16], 16)
            bound = 1.0 / math.sqrt(shape[1])
            values = np.random.Generator(np.random.PCG64(key)).uniform(-bound, bound, shape).astype(np.float32)
        adapter[name] = RawTensor.from_array(values)
    return adapter


def attach_adapter(policy: Policy, adapter: Adapter) -> PeftModel:
    """Wrap the policy's model with trainable LoRA layers holding `adapter`.

    The policy itself stays as it was; its tensors are shared, not copied.

    Raises:
        AdapterError: the adapter is not exactly one of this policy.
    """
    adapter_spec(policy).check(adapter)
    targets = [name for name, _ in _linear_layers(policy.model)]
    config = LoraConfig(
        r=LORA_RANK, lora_alpha=LORA_ALPHA, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
    )
    wrapped = get_peft_model(share_parameters(policy.model), config)
    load_adapter(wrapped, adapter)
    return wrapped


def _lora_parameters(model: PeftModel) -> dict[str, nn.Parameter]:
    return {
        name.replace(".default.", "."): parameter
        for name, parameter in model.named_parameters()
        if ".lora_" in name and ".default." in name
    }


def load_adapter(model: PeftModel, adapter: Adapter) -> None:
    """Copy an adapter's values into a model's active LoRA layers.

    Raises:
        AdapterError: names or shapes differ from the model's, or a value is not finite.
    """
    parameters = _lora_parameters(model)
    AdapterSpec({name: ("F32", tuple(value.shape)) for name, value in parameters.items()}).check(adapter)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(_to_torch(adapter[name]))


def freeze_factor(model: PeftModel, factor: Factor) -> None:
    """Exclude one factor of the active LoRA layers from training."""
    for name, parameter in _lora_parameters(model).items():
        if factor_of(name) == factor:
            parameter.requires_grad_(False)


def export_adapter(model: PeftModel) -> dict[str, RawTensor]:
    """The values of a model's active LoRA layers in the wire format (float32)."""
    return {
        name: RawTensor.from_array(parameter.detach().float().cpu().numpy())
        for name, parameter in _lora_parameters(model).items()
    }


def _to_torch(tensor: RawTensor) -> torch.Tensor:
    return torch.from_numpy(tensor.to_float32().copy())


class MergedModel:
    """A decoding copy of the policy's model with an adapter folded into its weights.

    Only the adapted weights are held twice. They are always computed from the base weights, so refreshing after every
    optimizer step accumulates no rounding error.
    """

    def __init__(self, policy: Policy) -> None:
        self.model = share_parameters(policy.model)
        self._layers = []
        for (name, source), (_, target) in zip(_linear_layers(policy.model), _linear_layers(self.model), strict=True):
            target.weight = nn.Parameter(source.weight.detach().clone(), requires_grad=False)
            self._layers.append((name, source, target))

    @torch.no_grad()
    def refresh(self, adapter: dict[str, torch.Tensor]) -> None:
        """Set every adapted weight to W + (alpha / rank) B A.

        Args:
            adapter: wire names to float32 tensors.
        """
        scale = LORA_ALPHA / LORA_RANK
        for name, source, target in self._layers:
            a, b = adapter[f"{_PREFIX}{name}.lora_A.weight"], adapter[f"{_PREFIX}{name}.lora_B.weight"]
            merged = torch.addmm(source.weight.float(), b.float(), a.float(), alpha=scale)
            target.weight.copy_(merged)

    def refresh_from(self, model: PeftModel) -> None:
        """Take over the current values of a model in training."""
        self.refresh({name: parameter.detach() for name, parameter in _lora_parameters(model).items()})


def with_adapter(policy: Policy, adapter: Adapter) -> Policy:
    """The policy with an adapter merged into its weights, for decoding.

    Raises:
        AdapterError: the adapter is not exactly one of this policy.
    """
    adapter_spec(policy).check(adapter)
    merged = MergedModel(policy)
    merged.refresh({name: _to_torch(tensor) for name, tensor in adapter.items()})
    return policy.with_model(merged.model)
