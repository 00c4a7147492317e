"""Federated averaging of adapter updates (McMahan et al. 2017): previous + sum(w u) / sum(w), factors A and B alike.

Averaging A and B separately is not the average of the products B A; this is the known, accepted error of plain FedAvg
on LoRA.
"""

from __future__ import annotations

import math

import numpy as np

from common.adapter import Adapter, AdapterSpec, RawTensor
from common.errors import AdapterError
from server.aggregation.interface import AggregationError

__all__ = ["FedAvg"]


class FedAvg:
    """Weighted mean of updates, accumulated in float64.

    Args:
        previous: the adapter every update started from (float32 tensors).
    """

    def __init__(self, previous: Adapter) -> None:
        self._previous = previous
        self._spec = AdapterSpec.of(previous)
        self._sums = {name: np.zeros(tensor.shape) for name, tensor in previous.items()}
        self._total = 0.0

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update; see `Aggregator.add`."""
        if not (math.isfinite(weight) and weight >= 0.0):
            raise AggregationError(f"weight {weight} is not a number from 0")
        try:
            self._spec.of_update.check(update)
        except AdapterError as error:
            raise AggregationError(error.what, where=error.where) from error
        for name, tensor in update.items():
            self._sums[name] += weight * tensor.to_float32().astype(np.float64)
        self._total += weight

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        if self._total == 0.0:
            raise AggregationError("no update with a weight above zero", remedy="The previous adapter stands.")
        candidate = {}
        for name, tensor in self._previous.items():
            values = tensor.to_float32().astype(np.float64) + self._sums[name] / self._total
            candidate[name] = RawTensor.from_array(values.astype(np.float32))
        return candidate
