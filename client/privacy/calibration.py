"""How much noise a run needs so that its bank's epsilon stays within the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

from client.privacy.accountant import LARGEST_NOISE, SMALLEST_NOISE, Charge, epsilon_spent
from common.errors import ConfigurationError

__all__ = ["calibrated_noise"]

PRECISION = 1e-3
"""How near to the smallest noise the search ends, relative; it ends on the safe side."""


def calibrated_noise(
    epsilon: float, delta: float, *, sampling_rate: float, rounds: int, steps: int, spent: Sequence[Charge] = ()
) -> float:
    """The smallest noise multiplier with which all rounds, after what is spent, stay within (epsilon, delta).

    Args:
        epsilon: total of the bank.
        delta: total of the bank.
        sampling_rate: probability with which a patient enters a step.
        rounds: how many are planned.
        steps: of each round.
        spent: charges of earlier runs.

    Raises:
        ConfigurationError: no noise is enough, or a value is out of range.
    """
    if not 0 < epsilon < math.inf or rounds < 1 or steps < 1:
        raise ConfigurationError("epsilon, rounds and steps must be above 0, and epsilon finite")

    def fits(noise: float) -> bool:
        return epsilon_spent([*spent, Charge(sampling_rate, noise, rounds * steps)], delta) <= epsilon

    low, high = SMALLEST_NOISE, 1.0
    if fits(low):
        return low
    while not fits(high):
        low, high = high, 2 * high
        if high > LARGEST_NOISE:
            raise ConfigurationError(
                f"no noise keeps the run within epsilon {epsilon:g}", remedy="Spend less, or start with a new bank."
            )
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
