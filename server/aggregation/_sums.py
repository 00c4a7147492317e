"""Running weighted sums of updates in float32, block by block so that what is added stays in the processor's cache."""

from __future__ import annotations

import numpy as np

from common.adapter import Adapter, RawTensor
from server.aggregation.interface import AggregationError, check_update

__all__ = ["WeightedSums", "finite"]

BLOCK = 1 << 14
"""Numbers handled at a time."""


BATCH = 8
"""Updates added at a time; a constant, so that memory does not grow with the number of sites."""


class WeightedSums:
    """Sum of w u for every tensor, and the sum of w. The rounding error of n terms is at most n 2^-24 sum |w u|.

    Args:
        previous: the adapter every update started from.
    """

    def __init__(self, previous: Adapter) -> None:
        self._previous = previous
        self._sums = {name: np.zeros(int(np.prod(tensor.shape)), np.float32) for name, tensor in previous.items()}
        self._scratch = np.empty(BLOCK, np.float32)
        self._waiting: list[tuple[Adapter, float]] = []
        self._total = 0.0

    def add(self, update: Adapter, weight: float) -> None:
        """Add one update; see `Aggregator.add`. It is kept, as it was given, until a batch is full."""
        check_update(self._previous, update, weight)
        self._waiting.append((update, weight))
        self._total += weight
        if len(self._waiting) == BATCH:
            self._flush()

    def candidate(self) -> dict[str, RawTensor]:
        """Previous adapter plus the weighted mean, in its dtypes. The sums are given up on the way.

        Raises:
            AggregationError: no weight above zero, or a mean that is not finite.
        """
        if self._total == 0.0:
            raise AggregationError("no update with a weight above zero", remedy="The previous adapter stands.")
        self._flush()
        made = {}
        for name, tensor in self._previous.items():
            mean = self._sums.pop(name).reshape(tensor.shape) / self._total
            made[name] = finite(name, tensor, tensor.to_float32() + mean)
        return made

    def _flush(self) -> None:
        """Add what waits, all of it to one block of the sums before the next: each sum travels from memory once."""
        for name, total in self._sums.items():
            columns = [(_values(update[name]), np.float32(weight)) for update, weight in self._waiting]
            for start in range(0, total.size, BLOCK):
                part = total[start : start + BLOCK]
                for column, weight in columns:
                    self._add_block(part, column[start : start + BLOCK], weight)
        self._waiting.clear()

    def _add_block(self, part: np.ndarray, block: np.ndarray, weight: np.float32) -> None:
        product = self._scratch[: block.size]
        if block.dtype == np.uint16:
            np.left_shift(block, np.uint32(16), out=product.view(np.uint32), dtype=np.uint32)
            np.multiply(product, weight, out=product)
        elif weight == 1.0:
            product = block
        else:
            np.multiply(block, weight, out=product)
        np.add(part, product, out=part)


def _values(tensor: RawTensor) -> np.ndarray:
    """The numbers of a tensor without a copy; bfloat16 as its 16 bits."""
    return np.frombuffer(tensor.data, {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[tensor.dtype])


def finite(name: str, like: RawTensor, values: np.ndarray) -> RawTensor:
    """`values` in the dtype of `like`.

    Raises:
        AggregationError: a value is NaN or infinite.
    """
    tensor = RawTensor.from_values(values.astype(np.float32), like.dtype)
    if not np.isfinite(tensor.to_float32()).all():
        raise AggregationError("the aggregate holds NaN or infinity", where=name)
    return tensor
