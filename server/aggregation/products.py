"""Rules that average the products B A instead of the factors.

FlexLoRA (Bai et al. 2024) takes the mean product and brings it back to the rank by a truncated SVD: the best candidate
of that rank, exact where the mean has it. FedEx-LoRA (Singhal et al. 2025) keeps the mean factors and states what they
miss, mean(B A) - mean(B) mean(A), as a residual for each layer: exact together. Both hold one dense [out, in] sum a
layer, whatever the number of sites.
"""

from __future__ import annotations

import numpy as np

from common.adapter import Adapter, RawTensor
from common.factors import A_SUFFIX, B_SUFFIX, lora_layers
from server.aggregation._sums import WeightedSums, finite
from server.aggregation.interface import AggregationError, RuleOptions

__all__ = ["FedEx", "FlexLora", "product"]

RANK_TOLERANCE = 1e-7
"""Singular values below this share of the largest are rounding of float32 inputs."""


def product(adapter: Adapter, layer: str) -> np.ndarray:
    """B A of a layer in float64, [out, in]."""
    b, a = (adapter[layer + suffix].to_float32().astype(np.float64) for suffix in (B_SUFFIX, A_SUFFIX))
    return b @ a


class FedEx:
    """Mean factors; `residuals` holds what they miss. Tensors outside LoRA layers are averaged.

    Args:
        previous: the adapter every update started from.
        options: nothing of it is used.
    """

    def __init__(self, previous: Adapter, options: RuleOptions | None = None) -> None:
        self._previous = previous
        self._mean = WeightedSums(previous)
        self._layers = lora_layers(previous)
        self._products: dict[str, np.ndarray] = {}
        self._total = 0.0
        self._moved = False
        self.residuals: dict[str, np.ndarray] = {}
        """Layer to float32 [out, in], to be added to the base weight's update; known after `finish`."""

    def add(self, update: Adapter, weight: float) -> None:
        """Take in one update; see `Aggregator.add`."""
        self._mean.add(update, weight)
        for layer in self._layers:
            names = (layer + B_SUFFIX, layer + A_SUFFIX)
            moves = [update[name].to_float32() for name in names]
            self._moved |= weight > 0.0 and any(move.any() for move in moves)
            b, a = (self._previous[n].to_float32().astype(np.float64) + m for n, m in zip(names, moves, strict=True))
            term = weight * (b @ a)
            self._products[layer] = self._products[layer] + term if layer in self._products else term
        self._total += weight

    def finish(self) -> dict[str, RawTensor]:
        """The mean factors; see `Aggregator.finish`."""
        candidate = self._mean.candidate()
        for layer in self._layers:
            residual = self._products[layer] / self._total - product(candidate, layer)
            self.residuals[layer] = residual.astype(np.float32)
            if not np.isfinite(self.residuals[layer]).all():
                raise AggregationError("the residual holds NaN or infinity", where=layer)
        return candidate


class FlexLora(FedEx):
    """Mean product, brought back to the adapter's rank.

    A direction that the mean product does not use keeps a unit row in A beside a zero column in B: it adds nothing and
    can still be trained. Where no update moves anything, the previous factors stand.
    """

    def finish(self) -> dict[str, RawTensor]:
        """The candidate adapter; see `Aggregator.finish`."""
        candidate = self._mean.candidate()
        for layer in self._layers if self._moved else ():
            a_name, b_name = layer + A_SUFFIX, layer + B_SUFFIX
            rank = self._previous[a_name].shape[0]
            mean = self._products.pop(layer) / self._total
            if not np.isfinite(mean).all():
                raise AggregationError("the mean product holds NaN or infinity", where=layer)
            b, a = _factors(mean, rank)
            candidate[a_name] = finite(a_name, self._previous[a_name], a)
            candidate[b_name] = finite(b_name, self._previous[b_name], b)
        return candidate


def _factors(mean: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """B [out, rank] and A [rank, in] of the closest matrix of that rank (Eckart and Young 1936), signs fixed."""
    left, values, right = np.linalg.svd(mean, full_matrices=False)
    kept = min(rank, values.size)
    left, values, right = left[:, :kept], values[:kept], right[:kept]
    largest = left[np.abs(left).argmax(axis=0), np.arange(kept)]
    signs = np.where(largest < 0.0, -1.0, 1.0)
    used = values > RANK_TOLERANCE * max(values.max(initial=0.0), np.finfo(np.float64).tiny)
    root = np.sqrt(np.where(used, values, 0.0))
    b = np.zeros((mean.shape[0], rank))
    a = np.zeros((rank, mean.shape[1]))
    b[:, :kept] = left * (signs * root)
    a[:kept] = right * (signs * np.where(used, root, 1.0))[:, None]
    return b, a
