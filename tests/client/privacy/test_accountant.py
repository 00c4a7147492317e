"""Epsilon against closed forms, published values and two other accountants; the noise that a budget needs."""

from __future__ import annotations

import math

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from client.privacy import Charge, calibrated_noise, cross_check, epsilon_spent, make_plan
from client.privacy import accountant as module
from client.privacy.accountant import prv_bounds
from client.privacy.plan import check_delta_for, smallest_useful
from common.errors import ConfigurationError, LedgerError


def gaussian_delta(epsilon: float, noise: float, steps: int) -> float:
    """Exact delta of `steps` Gaussian releases without sampling (Balle and Wang 2018, theorem 8)."""
    mean = math.sqrt(steps) / noise
    low, high = mean / 2 - epsilon / mean, -mean / 2 - epsilon / mean
    return float(ndtr(low) - math.exp(epsilon) * ndtr(high))


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 30), (20.0, 1000), (0.5, 1)])
def test_without_sampling_it_is_the_closed_form_from_above(noise: float, steps: int) -> None:
    epsilon = epsilon_spent([Charge(1.0, noise, steps)], 1e-5)
    assert gaussian_delta(epsilon, noise, steps) <= 1e-5
    assert gaussian_delta(epsilon - 0.01, noise, steps) > 1e-5


def test_a_published_value() -> None:
    # Abadi et al. 2016, section 3: q 0.01, sigma 4, 10,000 steps, delta 1e-5: 1.26 by moments, less by distributions.
    assert 0.9 < epsilon_spent([Charge(0.01, 4.0, 10_000)], 1e-5) < 1.26


@pytest.mark.parametrize("charge", [Charge(0.015, 0.7, 200), Charge(0.2, 2.0, 40)])
def test_it_is_what_dp_accounting_says_of_the_same_event(charge: Charge) -> None:
    reference = PLDAccountant(value_discretization_interval=module.INTERVAL)
    step = dp_event.PoissonSampledDpEvent(charge.sampling_rate, dp_event.GaussianDpEvent(charge.noise_multiplier))
    reference.compose(dp_event.SelfComposedDpEvent(step, charge.steps))
    assert epsilon_spent([charge], 1e-6) == pytest.approx(reference.get_epsilon(1e-6), rel=1e-9)


@settings(max_examples=8, deadline=None)
@given(
    rate=st.floats(0.005, 0.3),
    noise=st.floats(0.6, 5.0),
    steps=st.integers(1, 300),
    delta=st.sampled_from([1e-6, 1e-4]),
)
def test_the_second_accountant_brackets_the_first(rate: float, noise: float, steps: int, delta: float) -> None:
    charges = [Charge(rate, noise, steps), Charge(rate / 2, noise, 3)]
    lower, upper = prv_bounds(charges, delta)
    assert lower <= epsilon_spent(charges, delta) <= upper + 0.02
    cross_check(charges, delta)


def test_a_wrong_accountant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "epsilon_spent", lambda charges, delta: 0.5)
    with pytest.raises(LedgerError, match="disagree"):
        cross_check([Charge(0.1, 1.0, 100)], 1e-5)


def test_charges_add_up_in_any_order_and_grouping() -> None:
    one, two = Charge(0.02, 1.0, 30), Charge(0.05, 2.0, 10)
    whole = epsilon_spent([one, two], 1e-5)
    assert epsilon_spent([two, Charge(0.02, 1.0, 10), Charge(0.02, 1.0, 20)], 1e-5) == whole
    assert max(epsilon_spent([one], 1e-5), epsilon_spent([two], 1e-5)) < whole
    assert epsilon_spent([], 1e-5) == epsilon_spent([Charge(0.1, 1.0, 0)], 1e-5) == 0.0


@pytest.mark.parametrize("bad", [(0.0, 1.0, 1), (1.5, 1.0, 1), (0.1, 0.0, 1), (0.1, float("nan"), 1), (0.1, 1.0, -1)])
def test_what_no_accountant_can_answer_for_is_refused(bad: tuple[float, float, int]) -> None:
    with pytest.raises(ConfigurationError):
        Charge(*bad)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan")])
def test_a_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(ConfigurationError, match="delta"):
        epsilon_spent([Charge(0.1, 1.0, 1)], delta)


@pytest.mark.parametrize("spent", [[], [Charge(0.01, 1.0, 100)]])
def test_the_calibrated_noise_is_enough_and_hardly_more(spent: list[Charge]) -> None:
    noise = calibrated_noise(3.0, 1e-5, sampling_rate=0.02, rounds=4, steps=25, spent=spent)
    assert epsilon_spent([*spent, Charge(0.02, noise, 100)], 1e-5) <= 3.0
    assert epsilon_spent([*spent, Charge(0.02, noise * 0.995, 100)], 1e-5) > 3.0


def test_a_spent_budget_leaves_no_noise_that_is_enough() -> None:
    with pytest.raises(ConfigurationError, match="no noise"):
        calibrated_noise(1.0, 1e-5, sampling_rate=0.1, rounds=1, steps=1, spent=[Charge(0.5, 0.5, 10)])


def test_the_plan_says_how_loud_and_for_how_many() -> None:
    plan = make_plan(patients=2000, batch=30, epsilon=8.0, delta=1e-5, rounds=5, steps=20, dimensions=3600, wanted=2.0)
    assert plan.sampling_rate == 0.015
    assert plan.noise_to_signal == pytest.approx(plan.noise_multiplier * 2)
    assert plan.epsilon <= 8.0
    assert plan.smallest_useful is not None
    fewer = 30 / (plan.smallest_useful * 0.98)
    assert epsilon_spent([Charge(30 / plan.smallest_useful, 1.0, 100)], 1e-5) <= 8.0
    assert epsilon_spent([Charge(fewer, 1.0, 100)], 1e-5) > 8.0
    assert smallest_useful(8.0, 1e-5, batch=1, steps=10, dimensions=10**8, wanted=1.0) is None


@pytest.mark.parametrize(("patients", "delta"), [(1, 1e-9), (2000, 1e-4), (2000, 0.0), (10**6, 1e-6)])
def test_delta_is_held_against_the_number_of_patients(patients: int, delta: float) -> None:
    with pytest.raises(ConfigurationError):
        check_delta_for(patients, delta)
    check_delta_for(2000, 1e-5)
