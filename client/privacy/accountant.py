"""The accountant of record: the privacy loss distribution of Poisson-subsampled Gaussian steps.

One step lets every patient in by an independent coin, clips what each contributes to C, adds Gaussian noise of standard
deviation sigma x C to the sum, and divides by a constant. Two banks are neighbours when one is the other with one
patient added or removed. The discretisation rounds against us (`dp_accounting`, connect-the-dots, pessimistic), so that
an epsilon given here is an upper bound. Opacus' accountant by privacy random variables (Gopi et al. 2021) is a second
opinion: it brackets the loss from below as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from common.errors import ConfigurationError, LedgerError

__all__ = ["NEIGHBOURS", "Charge", "cross_check", "epsilon_spent", "prv_bounds"]

NEIGHBOURS = "add or remove one patient"
"""The neighbouring relation of every epsilon in this project."""

INTERVAL = 1e-3
"""Width of the loss buckets. A narrower one changes epsilon in the third digit and costs ten times as much."""

PRV_ERROR = 0.01
"""Error of epsilon that Opacus' accountant may make."""

SMALLEST_NOISE = 0.3
LARGEST_NOISE = 10_000.0

MOST_STEPS = 100_000
"""Of one mechanism; with more the distribution of the loss outgrows a machine's memory."""


@dataclass(frozen=True, order=True)
class Charge:
    """Steps of the same mechanism.

    Args:
        sampling_rate: probability q with which a patient enters a step, in (0, 1].
        noise_multiplier: standard deviation of the noise divided by the clipping norm.
        steps: how many.

    Raises:
        ConfigurationError: a value that no accountant can answer for; a noise of 0 is one.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0.0 < self.sampling_rate <= 1.0:
            raise ConfigurationError("the sampling rate must be above 0 and at most 1", where=str(self.sampling_rate))
        if not SMALLEST_NOISE <= self.noise_multiplier <= LARGEST_NOISE:
            raise ConfigurationError(
                f"the noise multiplier must be between {SMALLEST_NOISE} and {LARGEST_NOISE:g}",
                where=str(self.noise_multiplier),
                remedy="Plan the run with `bat-client budget plan`.",
            )
        if not 0 <= self.steps <= MOST_STEPS:
            raise ConfigurationError(f"steps must number from 0 to {MOST_STEPS} in all", where=str(self.steps))


def epsilon_spent(charges: Iterable[Charge], delta: float) -> float:
    """Upper bound of the epsilon of all charges together; 0 for none.

    Args:
        charges: in any order; each adaptively chosen from the results of those before it.
        delta: in (0, 1).

    Raises:
        ConfigurationError: delta is not in (0, 1).
    """
    merged = _merged(charges)
    _check_delta(delta)
    return _composed_epsilon(merged, delta) if merged else 0.0


def prv_bounds(charges: Iterable[Charge], delta: float) -> tuple[float, float]:
    """Lower and upper bound of the same epsilon by Opacus' accountant; loads torch."""
    from opacus.accountants.prv import PRVAccountant

    merged = _merged(charges)
    _check_delta(delta)
    if not merged:
        return 0.0, 0.0
    accountant = PRVAccountant()
    accountant.history = [(one.noise_multiplier, one.sampling_rate, one.steps) for one in merged]
    error = delta / 1000
    with np.errstate(divide="ignore", invalid="ignore"):  # logarithms of buckets that hold nothing
        loss = accountant._get_dprv(eps_error=PRV_ERROR, delta_error=error)
        lower, _, upper = loss.compute_epsilon(delta, error, PRV_ERROR)
    return max(float(lower), 0.0), float(upper)


def cross_check(charges: Iterable[Charge], delta: float) -> tuple[float, float]:
    """Both accountants' epsilon, the one of record first.

    Raises:
        LedgerError: the accountant of record states less than the other can prove was lost, or more than it allows by
            a tenth: one of the two is wrong, and neither may be relied on.
    """
    merged = _merged(charges)
    recorded = epsilon_spent(merged, delta)
    lower, upper = prv_bounds(merged, delta)
    if recorded < lower or recorded > 1.1 * upper + 2 * PRV_ERROR:
        raise LedgerError(
            f"the accountants disagree: epsilon {recorded:.4f} is not within [{lower:.4f}, {upper:.4f}]",
            where="privacy accounting",
            remedy="Do not train; check the versions of dp-accounting and opacus.",
        )
    return recorded, upper


def _merged(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    steps: Counter[tuple[float, float]] = Counter()
    for one in charges:
        steps[one.sampling_rate, one.noise_multiplier] += one.steps
    return tuple(Charge(rate, noise, count) for (rate, noise), count in sorted(steps.items()) if count)


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ConfigurationError("delta must lie between 0 and 1", where=str(delta))


@lru_cache(maxsize=1024)
def _composed_epsilon(merged: tuple[Charge, ...], delta: float) -> float:
    first, *others = (_distribution(one) for one in merged)
    composed = first
    for other in others:
        composed = composed.compose(other)
    return max(float(composed.get_epsilon_for_delta(delta)), 0.0)


@lru_cache(maxsize=64)
def _distribution(charge: Charge) -> Any:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    one = from_gaussian_mechanism(
        charge.noise_multiplier,
        sampling_prob=charge.sampling_rate,
        value_discretization_interval=INTERVAL,
        pessimistic_estimate=True,
    )
    return one.self_compose(charge.steps)
