"""Averaging of factors: FedAvg, and its variants that train one factor a round.

FedAvg (McMahan et al. 2017) is previous + sum(w u) / sum(w), factors A and B alike. Averaging A and B separately is not
the average of the products B A; that is the known, accepted error of plain FedAvg on LoRA. Where one factor is frozen,
the product is linear in the other one and the average is exact (FFA-LoRA, Sun et al. 2024; RoLoRA, Chen et al. 2024).
"""

from __future__ import annotations

from common.adapter import Adapter, RawTensor
from common.factors import factor_of, frozen_factor
from server.aggregation._sums import WeightedSums
from server.aggregation.interface import AggregationError, RuleOptions

__all__ = ["FedAvg", "OneFactor"]


class FedAvg:
    """Weighted mean of updates.

    Args:
        previous: the adapter every update started from.
        options: nothing of it is used.
    """

    def __init__(self, previous: Adapter, options: RuleOptions | None = None) -> None:
        self._sums = WeightedSums(previous)

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update; see `Aggregator.add`."""
        self._sums.add(update, weight)

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        return self._sums.candidate()


class OneFactor(FedAvg):
    """FedAvg where an update may not touch the frozen factor.

    Args:
        previous: the adapter every update started from.
        options: the round decides which factor is frozen.
        rule: `ffa` or `rolora`.
    """

    def __init__(self, previous: Adapter, options: RuleOptions, rule: str) -> None:
        super().__init__(previous)
        self._frozen = frozen_factor(rule, options.round)

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update; see `Aggregator.add`. A value other than zero in the frozen factor is refused."""
        for name in update:
            if factor_of(name) == self._frozen and update[name].to_float32().any():
                raise AggregationError(f"update moves the frozen factor {self._frozen}", where=name)
        super().add(update, weight)
