"""One conformance suite for every aggregation rule."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.adapter import Adapter, AdapterSpec, RawTensor
from server.aggregation import RULES, AggregationError, Aggregator, RuleOptions, make_aggregator
from tests.server.aggregation_cases import LAYER, SHAPES, adapter, only, plus, products, values

NAMES = sorted(RULES)
SITES = 5
"""Enough for Krum with one hostile site."""
MOVES = {"ffa": "B", "rolora": "B"}
"""The factor that round 1 may move, where it is one."""


def update(name: str, seed: int, scale: float = 0.1, dtype: str = "F32") -> dict[str, RawTensor]:
    return only(adapter(seed, scale, dtype=dtype), MOVES.get(name))


def combine(name: str, parts: Sequence[tuple[Adapter, float]], start: Adapter | None = None) -> dict[str, RawTensor]:
    aggregator: Aggregator = make_aggregator(name, adapter(0) if start is None else start, RuleOptions())
    for part, weight in parts:
        aggregator.add(part, weight)
    return aggregator.finish()


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_a_candidate_is_like_the_previous_adapter_in_every_dtype(name: str, dtype: str) -> None:
    start = adapter(0, dtype=dtype)
    made = combine(name, [(update(name, seed, dtype=dtype), 1.0) for seed in range(1, SITES + 1)], start)
    assert {tensor.dtype for tensor in made.values()} == {dtype}
    if name != "flora":
        AdapterSpec.of(start).check(made)


def test_updates_of_zero_change_nothing(name: str) -> None:
    made = combine(name, [(update(name, 1, scale=0.0), 1.0)] * SITES)
    np.testing.assert_array_equal(products(made), products(adapter(0)))


def test_equal_updates_are_applied_once(name: str) -> None:
    moved = update(name, 1)
    made = combine(name, [(moved, 1.0)] * SITES)
    if name == "flora":
        np.testing.assert_allclose(products(made), products(adapter(0)) + products(moved), atol=1e-5)
    else:
        np.testing.assert_allclose(products(made), products(plus(adapter(0), moved)), atol=1e-5)


def test_the_order_of_the_sites_does_not_matter(name: str) -> None:
    parts = [(update(name, seed), 1.0 + seed) for seed in range(1, SITES + 1)]
    np.testing.assert_allclose(products(combine(name, parts)), products(combine(name, parts[::-1])), atol=1e-5)


def test_a_weight_of_zero_is_no_voice(name: str) -> None:
    parts = [(update(name, seed), 1.0) for seed in range(1, SITES + 1)]
    made = combine(name, [*parts, (update(name, 99, scale=100.0), 0.0)])
    np.testing.assert_allclose(products(made), products(combine(name, parts)), atol=1e-5)


def test_nothing_to_combine_is_a_typed_error(name: str) -> None:
    for parts in ([], [(update(name, 1), 0.0)] * SITES):
        with pytest.raises(AggregationError, match="weight above zero"):
            combine(name, parts)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, 1e-7, 1e7])
def test_a_weight_that_is_none_is_refused(name: str, weight: float) -> None:
    with pytest.raises(AggregationError, match="weight"):
        combine(name, [(update(name, 1), weight)])


@pytest.mark.parametrize(
    "change",
    [
        {"pixels": RawTensor.from_array(np.ones(3, np.float32))},
        {f"{LAYER}.lora_B.weight": RawTensor.from_array(np.ones((5, 2), np.float32))},
        {f"{LAYER}.lora_A.weight": RawTensor.from_array(np.ones(10, np.float32))},
    ],
)
def test_tensors_that_do_not_fit_are_refused_and_nothing_of_them_is_kept(name: str, change: Adapter) -> None:
    aggregator = make_aggregator(name, adapter(0), RuleOptions())
    with pytest.raises(AggregationError):
        aggregator.add({**update(name, 1), **change}, 1.0)
    for seed in range(1, SITES + 1):
        aggregator.add(update(name, seed), 1.0)
    clean = combine(name, [(update(name, seed), 1.0) for seed in range(1, SITES + 1)])
    np.testing.assert_array_equal(products(aggregator.finish()), products(clean))


@pytest.mark.parametrize("bad", [math.inf, 3e38])
def test_an_aggregate_that_is_not_finite_is_never_handed_out(name: str, bad: float) -> None:
    tensor = f"{LAYER}.lora_B.weight"
    hostile = update(name, 1) | {tensor: RawTensor.from_values(np.full(SHAPES[tensor], bad), "F32")}
    with np.errstate(all="ignore"):
        try:
            made = combine(name, [(hostile, 2.0)] * SITES)
        except AggregationError:
            return
    assert np.isfinite(values(made)).all()


@pytest.mark.parametrize("linear", [name for name in NAMES if RULES[name].linear])
@settings(deadline=None, max_examples=25)
@given(parts=st.lists(st.tuples(st.integers(1, 9), st.just(0.0) | st.floats(1e-6, 100.0)), min_size=1, max_size=6))
def test_a_linear_rule_is_the_weighted_mean(linear: str, parts: list[tuple[int, float]]) -> None:
    total = sum(weight for _, weight in parts)
    given = [(update(linear, seed), weight) for seed, weight in parts]
    if total == 0.0:
        with pytest.raises(AggregationError):
            combine(linear, given)
        return
    expected = values(adapter(0)) + sum(weight * values(part) for part, weight in given) / total
    np.testing.assert_allclose(values(combine(linear, given)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exact", [name for name in NAMES if RULES[name].exact and name not in ("fedex", "flora")])
def test_an_exact_rule_gives_the_mean_of_the_products(exact: str) -> None:
    parts = [(update(exact, seed), float(seed)) for seed in range(1, SITES + 1)]
    expected = sum(weight * products(plus(adapter(0), part)) for part, weight in parts) / 15.0
    np.testing.assert_allclose(products(combine(exact, parts)), expected, atol=1e-5)


def test_fedavg_is_not_exact_which_is_why_the_others_exist() -> None:
    parts = [(update("fedavg", seed, scale=1.0), 1.0) for seed in range(1, 4)]
    expected = sum(products(plus(adapter(0), part)) for part, _ in parts) / 3.0
    assert np.abs(products(combine("fedavg", parts)) - expected).max() > 0.1
