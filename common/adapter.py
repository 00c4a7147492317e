"""The adapter on the wire: LoRA tensors as safetensors bytes, strictly validated.

Only safetensors crosses a trust boundary (no pickle). Tensors are kept as raw bytes with dtype and shape, so that
bfloat16, zero-dimensional and empty tensors survive bit-exactly and no deep-learning library is needed to check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, TensorSpec, deserialize, serialize

from common.canonical import digest_bytes, digest_json
from common.errors import AdapterError

__all__ = [
    "Adapter",
    "AdapterSpec",
    "RawTensor",
    "adapter_digest",
    "decode_adapter",
    "difference",
    "encode_adapter",
    "l2_norm",
]

_ITEM_BYTES: Mapping[str, int] = {"F32": 4, "F16": 2, "BF16": 2}
"""Floating dtypes an adapter may use, with bytes an element (safetensors dtype names)."""

_SERIALIZE_NAME = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class RawTensor:
    """One tensor as bytes.

    Args:
        dtype: safetensors name, one of F32, F16, BF16.
        shape: sizes; `()` is a scalar, a zero makes it empty.
        data: little-endian, row-major bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def from_array(cls, array: np.ndarray) -> RawTensor:
        """Wrap a float32 or float16 array.

        Raises:
            AdapterError: another dtype.
        """
        name = {"float32": "F32", "float16": "F16"}.get(array.dtype.name)
        if name is None:
            raise AdapterError(f"dtype {array.dtype.name} cannot be part of an adapter")
        return cls(name, tuple(array.shape), np.ascontiguousarray(array).tobytes())

    @classmethod
    def from_values(cls, values: np.ndarray, dtype: str) -> RawTensor:
        """Wrap finite or infinite float32 values in a dtype of the wire, rounding to nearest, ties to even.

        Args:
            values: any shape; a NaN stays one.
            dtype: F32, F16 or BF16.
        """
        single = np.asarray(values, dtype="<f4", order="C")
        if dtype == "F32":
            return cls(dtype, single.shape, single.tobytes())
        if dtype == "F16":
            with np.errstate(over="ignore"):
                return cls(dtype, single.shape, single.astype("<f2").tobytes())
        bits = single.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        halves = np.where(np.isnan(single), np.uint32(0x7FC0), rounded)
        return cls(dtype, single.shape, halves.astype("<u2").tobytes())

    def to_float32(self) -> np.ndarray:
        """Values as a float32 array of `shape` (exact for all three dtypes)."""
        if self.dtype == "BF16":
            halves = np.frombuffer(self.data, dtype="<u2").astype(np.uint32) << 16
            return halves.view(np.float32).reshape(self.shape)
        source = "<f4" if self.dtype == "F32" else "<f2"
        return np.frombuffer(self.data, dtype=source).astype(np.float32).reshape(self.shape)


Adapter = Mapping[str, RawTensor]


@dataclass(frozen=True)
class AdapterSpec:
    """The exact set of tensors an adapter must have: name to (dtype, shape)."""

    tensors: Mapping[str, tuple[str, tuple[int, ...]]]

    @classmethod
    def of(cls, adapter: Adapter) -> AdapterSpec:
        """The specification that `adapter` itself satisfies."""
        return cls({name: (tensor.dtype, tensor.shape) for name, tensor in adapter.items()})

    @property
    def digest(self) -> str:
        """SHA-256 over the names, dtypes and shapes."""
        return digest_json({name: [dtype, list(shape)] for name, (dtype, shape) in self.tensors.items()})

    @property
    def payload_bytes(self) -> int:
        """Bytes of all tensors without the safetensors header."""
        return sum(_ITEM_BYTES[dtype] * int(np.prod(shape, dtype=np.int64)) for dtype, shape in self.tensors.values())

    @property
    def of_update(self) -> AdapterSpec:
        """What an update of such an adapter must be: the same names and shapes, always float32."""
        return AdapterSpec({name: ("F32", shape) for name, (_, shape) in self.tensors.items()})

    def check(self, adapter: Adapter) -> None:
        """Refuse an adapter that differs in any name, dtype or shape, or holds NaN or infinity.

        Raises:
            AdapterError: naming the first offending tensor.
        """
        missing = sorted(self.tensors.keys() - adapter.keys())
        extra = sorted(adapter.keys() - self.tensors.keys())
        if missing or extra:
            raise AdapterError(
                f"adapter keys differ: {len(missing)} missing, {len(extra)} extra", where=str((missing + extra)[0])
            )
        for name, (dtype, shape) in self.tensors.items():
            tensor = adapter[name]
            if (tensor.dtype, tensor.shape) != (dtype, shape):
                raise AdapterError(
                    f"tensor is {tensor.dtype}{list(tensor.shape)}, expected {dtype}{list(shape)}", where=name
                )
            if not np.isfinite(tensor.to_float32()).all():
                raise AdapterError("tensor holds NaN or infinity", where=name)


def encode_adapter(adapter: Adapter) -> bytes:
    """Serialise as safetensors, deterministic for the same tensors (names are written in sorted order)."""
    buffers = {name: np.frombuffer(adapter[name].data or b"\0", dtype=np.uint8) for name in sorted(adapter)}
    specs = {
        name: TensorSpec(
            dtype=_SERIALIZE_NAME[adapter[name].dtype],
            shape=list(adapter[name].shape),
            data_ptr=buffer.ctypes.data,
            data_len=len(adapter[name].data),
        )
        for name, buffer in buffers.items()
    }
    return bytes(serialize(specs))


def decode_adapter(data: bytes, spec: AdapterSpec | None = None) -> dict[str, RawTensor]:
    """Parse safetensors bytes and, when a specification is given, check them against it.

    Raises:
        AdapterError: not safetensors, a dtype outside F32, F16 and BF16, or `spec` is not met.
    """
    try:
        entries: list[tuple[str, dict[str, Any]]] = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise AdapterError("not a safetensors adapter", where=str(error)[:120]) from error
    adapter = {}
    for name, entry in entries:
        if entry["dtype"] not in _ITEM_BYTES:
            raise AdapterError(f"dtype {entry['dtype']} cannot be part of an adapter", where=name)
        adapter[name] = RawTensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
    if spec is not None:
        spec.check(adapter)
    return adapter


def difference(trained: Adapter, start: Adapter) -> dict[str, RawTensor]:
    """The update a site releases: `trained` minus `start`, tensor by tensor in float32.

    Raises:
        AdapterError: the two do not have the same tensors and shapes.
    """
    AdapterSpec.of(start).of_update.check(
        {name: RawTensor.from_array(tensor.to_float32()) for name, tensor in trained.items()}
    )
    return {
        name: RawTensor.from_array(trained[name].to_float32() - tensor.to_float32()) for name, tensor in start.items()
    }


def l2_norm(adapter: Adapter) -> float:
    """Euclidean norm over all tensors together, accumulated in float64."""
    return float(np.sqrt(sum(np.square(tensor.to_float32(), dtype=np.float64).sum() for tensor in adapter.values())))


def adapter_digest(data: bytes) -> str:
    """SHA-256 of the encoded adapter: the checkpoint digest of the published formats."""
    return digest_bytes(data)
