import numpy as np
import pytest
import torch

from common.adapter import RawTensor, encode_adapter
from common.errors import AdapterError
from common.policy import (
    MergedModel,
    attach_adapter,
    export_adapter,
    load_adapter,
    with_adapter,
    zero_adapter,
)
from tests.common.policy.small import random_adapter, small_policy

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits.float()


def test_all_sites_start_from_the_same_bytes_and_change_nothing():
    policy = small_policy()
    adapter = zero_adapter(policy, 7)
    assert encode_adapter(adapter) == encode_adapter(zero_adapter(policy, 7)) != encode_adapter(zero_adapter(policy, 8))
    assert torch.equal(logits(with_adapter(policy, adapter).model), logits(policy.model))
    for name, tensor in adapter.items():
        values = tensor.to_float32()
        if name.endswith("lora_B.weight"):
            assert not values.any()
        else:
            bound = 1 / np.sqrt(values.shape[1])
            assert 0.9 * bound < np.abs(values).max() <= bound


def test_wire_and_peft_agree_bit_for_bit():
    policy = small_policy()
    adapter = random_adapter(policy)
    assert encode_adapter(export_adapter(attach_adapter(policy, adapter))) == encode_adapter(adapter)


def test_merging_equals_the_unmerged_layers_and_leaves_the_base_alone():
    policy = small_policy()
    before = logits(policy.model)
    model = attach_adapter(policy, random_adapter(policy))
    merged = MergedModel(policy)
    merged.refresh_from(model)
    assert torch.allclose(logits(merged.model), logits(model), atol=1e-4)
    assert not torch.allclose(logits(model), before, atol=1e-2)
    assert torch.equal(logits(policy.model), before)
    merged.refresh_from(attach_adapter(policy, zero_adapter(policy, 0)))
    assert torch.equal(logits(merged.model), before)


def test_bf16_base_keeps_a_float32_adapter():
    policy = small_policy(torch.bfloat16)
    adapter = random_adapter(policy)
    model = attach_adapter(policy, adapter)
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert encode_adapter(export_adapter(model)) == encode_adapter(adapter)
    merged = with_adapter(policy, adapter).model
    assert next(merged.parameters()).dtype is torch.bfloat16
    assert torch.allclose(logits(merged), logits(model), atol=0.1)


@pytest.mark.parametrize("damage", ["missing", "extra", "renamed", "shape", "nan", "dtype"])
def test_anything_but_an_exact_adapter_is_refused(damage):
    policy = small_policy()
    adapter = dict(random_adapter(policy))
    name = sorted(adapter)[3]
    values = adapter[name].to_float32().copy()
    if damage in ("missing", "renamed"):
        taken = adapter.pop(name)
        if damage == "renamed":
            adapter[name.replace("model.layers", "layers")] = taken
    elif damage == "extra":
        adapter["base_model.model.lm_head.lora_A.weight"] = adapter[name]
    elif damage == "shape":
        adapter[name] = RawTensor.from_array(values.T)
    elif damage == "nan":
        values[0, 0] = np.nan
        adapter[name] = RawTensor.from_array(values)
    else:
        adapter[name] = RawTensor.from_array(values.astype(np.float16))
    for use in (
        lambda: with_adapter(policy, adapter),
        lambda: attach_adapter(policy, adapter),
        lambda: load_adapter(attach_adapter(policy, zero_adapter(policy, 0)), adapter),
    ):
        with pytest.raises(AdapterError):
            use()
