"""What a run under differential privacy would be like, worked out before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from client.privacy.accountant import LARGEST_NOISE, SMALLEST_NOISE, Charge, cross_check, epsilon_spent
from client.privacy.calibration import calibrated_noise
from common.errors import ConfigurationError

__all__ = ["DELTA_SHARE", "PrivacyPlan", "check_delta_for", "make_plan", "smallest_useful"]

DELTA_SHARE = 0.1
"""Delta may be at most this over n: with delta near 1/n a mechanism that publishes a whole record would pass."""

MOST_PATIENTS = 1 << 30


@dataclass(frozen=True)
class PrivacyPlan:
    """A calibrated run.

    Args:
        sampling_rate: probability q with which a patient enters a step.
        noise_multiplier: sigma.
        noise_to_signal: length of a step's noise over the longest possible mean of L clipped sums: sigma sqrt(d) / L.
        epsilon: of record, by privacy loss distribution.
        epsilon_prv: upper bound of the second accountant.
        smallest_useful: fewest patients with which the noise-to-signal is within the wanted one; `None` when no number
            is enough at this L.
    """

    sampling_rate: float
    noise_multiplier: float
    noise_to_signal: float
    epsilon: float
    epsilon_prv: float
    smallest_useful: int | None


def check_delta_for(patients: int, delta: float) -> None:
    """Refuse too few patients, or a delta that is too large for so many.

    Raises:
        ConfigurationError: fewer than 2 patients, or delta above `DELTA_SHARE` / patients.
    """
    if patients < 2:
        raise ConfigurationError("differential privacy needs at least two patients", where=str(patients))
    if not 0.0 < delta <= DELTA_SHARE / patients:
        raise ConfigurationError(
            f"delta {delta:g} is too large for {patients} patients",
            remedy=f"Set it to at most {DELTA_SHARE / patients:.1e}.",
        )


def make_plan(
    *,
    patients: int,
    batch: float,
    epsilon: float,
    delta: float,
    rounds: int,
    steps: int,
    dimensions: int,
    wanted: float,
    spent: Sequence[Charge] = (),
) -> PrivacyPlan:
    """Calibrate a run and say how loud its noise is.

    Args:
        patients: public lower bound of a site's patients.
        batch: the constant L: patients that a step draws on average.
        epsilon: total.
        delta: total.
        rounds: of the run.
        steps: of a round.
        dimensions: trained parameters of a round, one factor.
        wanted: largest useful noise-to-signal of a step.
        spent: charges of earlier runs.

    Raises:
        ConfigurationError: see `check_delta_for` and `calibrated_noise`; or a batch above the number of patients.
    """
    check_delta_for(patients, delta)
    if not 0 < batch <= patients or dimensions < 1 or wanted <= 0:
        raise ConfigurationError(
            "batch must be above 0 and at most the number of patients; dimensions and noise-to-signal above 0"
        )
    rate = batch / patients
    noise = calibrated_noise(epsilon, delta, sampling_rate=rate, rounds=rounds, steps=steps, spent=spent)
    reached, second = cross_check([*spent, Charge(rate, noise, rounds * steps)], delta)
    useful = smallest_useful(
        epsilon, delta, batch=batch, steps=rounds * steps, dimensions=dimensions, wanted=wanted, spent=spent
    )
    return PrivacyPlan(rate, noise, noise * math.sqrt(dimensions) / batch, reached, second, useful)


def smallest_useful(
    epsilon: float,
    delta: float,
    *,
    batch: float,
    steps: int,
    dimensions: int,
    wanted: float,
    spent: Sequence[Charge] = (),
) -> int | None:
    """Fewest patients with which noise of the wanted loudness is enough; at the given delta whatever their number.

    Args:
        epsilon: total.
        delta: total.
        batch: the constant L.
        steps: of all rounds.
        dimensions: trained parameters.
        wanted: largest useful sigma sqrt(d) / L.
        spent: charges of earlier runs.
    """
    noise = min(wanted * batch / math.sqrt(dimensions), LARGEST_NOISE)
    if noise < SMALLEST_NOISE:
        return None

    def enough(patients: int) -> bool:
        return epsilon_spent([*spent, Charge(min(batch / patients, 1.0), noise, steps)], delta) <= epsilon

    low, high = 0, max(math.ceil(batch), 2)
    while not enough(high):
        low, high = high, 2 * high
        if high > MOST_PATIENTS:
            return None
    if low == 0:
        return high
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
