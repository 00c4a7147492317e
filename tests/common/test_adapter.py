"""The adapter codec: bit-exact for what is allowed, a typed refusal for everything else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from safetensors.torch import load, save

from common.adapter import AdapterSpec, RawTensor, decode_adapter, encode_adapter, l2_norm
from common.errors import AdapterError

ADAPTER = {
    "layer.lora_A": RawTensor.from_array(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "layer.lora_B": RawTensor.from_array(np.zeros((3, 2), dtype=np.float32)),
}


@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12),
        npst.arrays(
            st.sampled_from([np.float32, np.float16]), npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
        ),
        max_size=4,
    )
)
def test_any_float_tensor_survives_bit_exactly(arrays: dict[str, np.ndarray]) -> None:
    adapter = {name: RawTensor.from_array(np.asarray(array)) for name, array in arrays.items()}
    assert decode_adapter(encode_adapter(adapter)) == adapter


def test_bfloat16_from_torch_survives_and_widens_exactly() -> None:
    tensor = torch.randn(5, 7).to(torch.bfloat16)
    adapter = decode_adapter(save({"w": tensor}))
    np.testing.assert_array_equal(adapter["w"].to_float32(), tensor.float().numpy())
    assert torch.equal(load(encode_adapter(adapter))["w"], tensor)


def test_the_encoding_does_not_depend_on_the_order_of_names() -> None:
    assert encode_adapter(dict(reversed(ADAPTER.items()))) == encode_adapter(ADAPTER)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({k: v for k, v in ADAPTER.items() if k.endswith("A")}, "1 missing"),
        (ADAPTER | {"extra": ADAPTER["layer.lora_A"]}, "1 extra"),
        ({"layer.lora_A": ADAPTER["layer.lora_A"], "renamed": ADAPTER["layer.lora_B"]}, "1 missing, 1 extra"),
        (ADAPTER | {"layer.lora_B": RawTensor.from_array(np.zeros((2, 3), np.float32))}, "expected"),
        (ADAPTER | {"layer.lora_B": RawTensor.from_array(np.full((3, 2), np.nan, np.float32))}, "NaN"),
        (ADAPTER | {"layer.lora_B": RawTensor.from_array(np.zeros((3, 2), np.float16))}, "expected"),
    ],
)
def test_an_adapter_that_differs_from_the_specification_is_refused(broken: dict[str, RawTensor], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        decode_adapter(encode_adapter(broken), AdapterSpec.of(ADAPTER))


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 64, encode_adapter(ADAPTER)[:-1], b"\x80\x04K\x01."])
def test_bytes_that_are_not_safetensors_are_refused(data: bytes) -> None:
    with pytest.raises(AdapterError):
        decode_adapter(data, AdapterSpec.of(ADAPTER))


def test_integer_tensors_are_refused() -> None:
    with pytest.raises(AdapterError, match="I64"):
        decode_adapter(save({"ids": torch.arange(3)}))


def test_the_norm_runs_over_all_tensors() -> None:
    assert l2_norm(ADAPTER) == pytest.approx(np.sqrt(55.0))
    assert l2_norm({}) == 0.0
