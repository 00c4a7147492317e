"""What every aggregation rule offers: updates go in one by one, the next adapter comes out."""

from __future__ import annotations

from typing import Protocol

from common.adapter import Adapter, RawTensor
from common.errors import BatError

__all__ = ["AggregationError", "Aggregator"]


class AggregationError(BatError):
    """The updates cannot be combined; the previous adapter stands."""


class Aggregator(Protocol):
    """One aggregation of one round. Holds no more than the running combination in memory."""

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one verified update.

        Args:
            update: trained minus starting adapter, float32.
            weight: a public constant of the federation, at least 0; never a count of patients or states.

        Raises:
            AggregationError: the weight is negative or not finite, or the tensors are not the previous adapter's.
        """

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter, with the previous adapter's names, shapes and dtypes.

        Raises:
            AggregationError: nothing was added, or the weights sum to zero.
        """
