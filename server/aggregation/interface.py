"""What every aggregation rule offers: updates go in one by one, the next adapter comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from common.adapter import Adapter, RawTensor
from common.errors import BatError

__all__ = ["AggregationError", "Aggregator", "RuleOptions", "check_update"]


WEIGHTS = (1e-6, 1e6)
"""Smallest and largest weight above zero: far apart, and harmless in float32."""


class AggregationError(BatError):
    """The updates cannot be combined; the previous adapter stands."""


@dataclass(frozen=True)
class RuleOptions:
    """Constants of one aggregation. A rule reads those it knows.

    Args:
        round: number of the round, from 1; decides which factor `rolora` trains.
        trim: share of the sites cut off at each end of every coordinate (`trimmed_mean`), below one half.
        byzantine: how many sites may be hostile (`krum`, `multi_krum`).
        norm_bound: an update with a larger Euclidean norm is scaled down to it; none when `None`.
    """

    round: int = 1
    trim: float = 0.2
    byzantine: int = 1
    norm_bound: float | None = None


class Aggregator(Protocol):
    """One aggregation of one round."""

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update. Its values were verified before; a rule looks at names and shapes alone.

        Args:
            update: trained minus starting adapter, F32, F16 or BF16. It may read its tensors from a file each time.
            weight: a public constant of the federation, 0 or within `WEIGHTS`; never a count of patients or states.

        Raises:
            AggregationError: the weight is none, or the tensors do not fit the previous adapter.
        """

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter, with the previous adapter's names, shapes and dtypes. Called once.

        Raises:
            AggregationError: nothing was added, the weights sum to zero, or the result is not finite.
        """


def check_update(previous: Adapter, update: Adapter, weight: float) -> None:
    """Refuse a weight that is none, or tensors that are not those of `previous`.

    Raises:
        AggregationError: naming the first offence.
    """
    low, high = WEIGHTS
    if weight != 0.0 and not low <= weight <= high:
        raise AggregationError(f"weight {weight} is neither 0 nor from {low:g} to {high:g}")
    odd = sorted(previous.keys() ^ update.keys())
    if odd:
        raise AggregationError(f"update differs in {len(odd)} tensors", where=odd[0])
    for name, tensor in previous.items():
        shape = update[name].shape
        if shape != tensor.shape:
            raise AggregationError(f"update has shape {list(shape)}, not {list(tensor.shape)}", where=name)
