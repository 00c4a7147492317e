"""Rules that bound what hostile sites can do, at the price of seeing every update at once.

Coordinate median and trimmed mean (Yin et al. 2018) and (multi-)Krum (Blanchard et al. 2017) ignore weights above zero:
a weight would let a site vote more than once. They keep the updates as they were given and read them tensor by tensor,
so that updates that lie in files need memory for one tensor of every site.
"""

from __future__ import annotations

import math

import numpy as np

from common.adapter import Adapter, RawTensor, l2_norm
from server.aggregation._sums import WeightedSums, finite
from server.aggregation.interface import AggregationError, Aggregator, RuleOptions, check_update

__all__ = ["CoordinateMedian", "Krum", "MultiKrum", "NormBound", "TrimmedMean"]


class _Gathered:
    """Keeps the updates with a weight above zero.

    Args:
        previous: the adapter every update started from.
        options: constants of the aggregation.
    """

    def __init__(self, previous: Adapter, options: RuleOptions) -> None:
        self._previous = previous
        self._options = options
        self._updates: list[Adapter] = []

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update; see `Aggregator.add`."""
        check_update(self._previous, update, weight)
        if weight > 0.0:
            self._updates.append(update)

    def _column(self, name: str) -> np.ndarray:
        """One tensor of every site, [sites, numbers]."""
        return np.stack([update[name].to_float32().ravel() for update in self._updates])

    def _some(self) -> int:
        if not self._updates:
            raise AggregationError("no update with a weight above zero", remedy="The previous adapter stands.")
        return len(self._updates)


class TrimmedMean(_Gathered):
    """Mean of every coordinate without its ceil(trim n) largest and smallest values."""

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        sites = self._some()
        cut = math.ceil(self._options.trim * sites)
        if 2 * cut >= sites:
            raise AggregationError(f"trimming {cut} of {sites} sites at each end leaves none")
        made = {}
        for name, tensor in self._previous.items():
            kept = np.sort(self._column(name), axis=0)[cut : sites - cut]
            mean = kept.mean(axis=0, dtype=np.float64).reshape(tensor.shape)
            made[name] = finite(name, tensor, tensor.to_float32() + mean)
        return made


class CoordinateMedian(_Gathered):
    """Median of every coordinate; the mean of the two middle ones for an even number of sites."""

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        self._some()
        medians = {name: np.median(self._column(name), axis=0) for name in self._previous}
        return {
            name: finite(name, tensor, tensor.to_float32() + medians[name].reshape(tensor.shape))
            for name, tensor in self._previous.items()
        }


class MultiKrum(_Gathered):
    """Mean of the n - f updates whose n - f - 2 nearest neighbours are closest, f being the hostile ones."""

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        sites = self._some()
        hostile = self._options.byzantine
        if sites < 2 * hostile + 3:
            raise AggregationError(f"{sites} sites cannot bear {hostile} hostile ones; {2 * hostile + 3} could")
        distances = sum((_squared_distances(self._column(name)) for name in self._previous), np.zeros((sites, sites)))
        nearest = np.sort(distances, axis=1)[:, 1 : sites - hostile - 1]
        order = np.argsort(nearest.sum(axis=1), kind="stable")
        mean = WeightedSums(self._previous)
        for place in sorted(order[: self._selected(sites)]):
            mean.add(self._updates[place], 1.0)
        return mean.candidate()

    def _selected(self, sites: int) -> int:
        return sites - self._options.byzantine


class Krum(MultiKrum):
    """The one update whose neighbours are closest."""

    def _selected(self, sites: int) -> int:
        return 1


class NormBound:
    """Scales every update to a largest norm before another rule takes it (Sun et al. 2019).

    Args:
        inner: the rule that combines them.
        bound: largest Euclidean norm over all tensors, above 0.
    """

    def __init__(self, inner: Aggregator, bound: float) -> None:
        self._inner = inner
        self._bound = bound

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update; see `Aggregator.add`."""
        norm = l2_norm(update)
        if not norm <= self._bound:
            share = np.float32(self._bound / norm)
            update = {name: RawTensor.from_array(tensor.to_float32() * share) for name, tensor in update.items()}
        self._inner.add(update, weight)

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        return self._inner.finish()


def _squared_distances(rows: np.ndarray) -> np.ndarray:
    """Squared Euclidean distance of every two rows, [n, n]."""
    return np.stack([np.square(rows - row, dtype=np.float64).sum(axis=1) for row in rows])
