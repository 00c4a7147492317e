"""FLoRA (Wang et al. 2024): the sites' modules are stacked; the product is their exact mean, whatever their ranks.

With r the sum of all ranks, A is the [r, in] stack of the sites' A and B the [out, r] stack of their weighted B. The
rank, and with it memory and download, grows with the number of sites: this rule cannot stream.
"""

from __future__ import annotations

import numpy as np

from common.adapter import Adapter, RawTensor
from common.factors import A_SUFFIX, B_SUFFIX, lora_layers
from server.aggregation._sums import finite
from server.aggregation.interface import AggregationError, RuleOptions, check_update

__all__ = ["Flora"]


class Flora:
    """Stacks modules onto the previous adapter.

    Args:
        previous: the adapter that the sites' new modules stand beside.
        options: nothing of it is used.

    Raises:
        AggregationError: `previous` has a tensor outside LoRA layers.
    """

    def __init__(self, previous: Adapter, options: RuleOptions | None = None) -> None:
        self._previous = previous
        self._layers = lora_layers(previous)
        if 2 * len(self._layers) != len(previous):
            raise AggregationError("flora takes LoRA layers only")
        self._parts: list[tuple[Adapter, float]] = []

    def add(self, update: Adapter, weight: float) -> None:
        """Take in a site's module: A [rank, in] and B [out, rank] of each layer, of any rank; see `Aggregator.add`."""
        check_update(_of_rank(self._previous, self._layers, update), update, weight)
        self._parts.append((update, weight))

    def finish(self) -> dict[str, RawTensor]:
        """The stacked adapter: the previous layers with more rows in A and more columns in B."""
        total = sum(weight for _, weight in self._parts)
        if total == 0.0:
            raise AggregationError("no update with a weight above zero", remedy="The previous adapter stands.")
        made = {}
        for layer in self._layers:
            a_name, b_name = layer + A_SUFFIX, layer + B_SUFFIX
            parts = [(self._previous, 1.0)] + [(module, weight / total) for module, weight in self._parts]
            a = np.concatenate([module[a_name].to_float32() for module, _ in parts])
            b = np.concatenate([np.float32(share) * module[b_name].to_float32() for module, share in parts], axis=1)
            made[a_name] = finite(a_name, self._previous[a_name], a)
            made[b_name] = finite(b_name, self._previous[b_name], b)
        return made


def _of_rank(previous: Adapter, layers: list[str], update: Adapter) -> dict[str, RawTensor]:
    """`previous` with each layer's rank taken from `update`: what its shapes must be."""
    wanted = dict(previous)
    for layer in layers:
        a_name, b_name = layer + A_SUFFIX, layer + B_SUFFIX
        shape = update[a_name].shape if a_name in update else ()
        rank = shape[0] if len(shape) == 2 else 0
        wanted[a_name] = RawTensor("F32", (rank, previous[a_name].shape[1]), b"")
        wanted[b_name] = RawTensor("F32", (previous[b_name].shape[0], rank), b"")
    return wanted
