"""Server optimizers: the mean update is a pseudo-gradient, and the server takes a step of its own."""

from __future__ import annotations

import numpy as np

from common.adapter import Adapter, RawTensor
from server.aggregation._sums import finite

__all__ = ["FedAdam"]


class FedAdam:
    """Adam on the mean update (Reddi et al. 2021, algorithm 2): x + lr m / (sqrt(v) + tau), without bias correction.

    A coordinate that no site moved, such as a frozen factor's, stays as long as its momentum is zero.

    Args:
        learning_rate: of the server.
        beta1: decay of the first moment m, in [0, 1).
        beta2: decay of the second moment v, in [0, 1).
        tau: keeps the denominator away from zero.
    """

    def __init__(self, learning_rate: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> None:
        self._settings = (learning_rate, beta1, beta2, tau)
        self.moments: dict[str, RawTensor] = {}
        """`m.<tensor>` and `v.<tensor>` in float32: the whole state, to be kept between rounds."""

    def step(self, previous: Adapter, candidate: Adapter) -> dict[str, RawTensor]:
        """Move `previous` along `candidate` minus `previous`.

        Returns:
            The new candidate, in the dtypes of `previous`.

        Raises:
            AggregationError: a value is not finite; the moments stay as they were.
        """
        rate, beta1, beta2, tau = self._settings
        made: dict[str, RawTensor] = {}
        moments: dict[str, RawTensor] = {}
        for name, tensor in previous.items():
            start = tensor.to_float32()
            change = candidate[name].to_float32() - start
            m = beta1 * self._moment("m", name, start) + (1.0 - beta1) * change
            v = beta2 * self._moment("v", name, start) + (1.0 - beta2) * np.square(change)
            with np.errstate(invalid="ignore"):  # refused in the next line
                moved = start + rate * m / (np.sqrt(v) + tau)
            made[name] = finite(name, tensor, moved)
            moments |= {f"m.{name}": RawTensor.from_values(m, "F32"), f"v.{name}": RawTensor.from_values(v, "F32")}
        self.moments = moments
        return made

    def _moment(self, which: str, name: str, like: np.ndarray) -> np.ndarray:
        kept = self.moments.get(f"{which}.{name}")
        return np.zeros_like(like) if kept is None else kept.to_float32()
