"""One conformance suite for every aggregation rule, and the arithmetic of FedAvg."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.adapter import AdapterSpec, RawTensor
from server.aggregation import RULES, AggregationError, FedAvg

SHAPES = {"layer.lora_A.weight": (2, 3), "layer.lora_B.weight": (3, 2), "scalar": ()}


def adapter(seed: int, scale: float = 1.0) -> dict[str, RawTensor]:
    rng = np.random.default_rng(seed)
    return {
        name: RawTensor.from_array((scale * rng.normal(size=shape)).astype(np.float32))
        for name, shape in SHAPES.items()
    }


def values(tensors: dict[str, RawTensor]) -> np.ndarray:
    return np.concatenate([tensors[name].to_float32().ravel() for name in sorted(tensors)])


@pytest.fixture(params=sorted(RULES))
def rule(request: pytest.FixtureRequest):
    return RULES[request.param]


def test_a_candidate_has_the_previous_adapters_tensors(rule) -> None:
    aggregator = rule(adapter(0))
    aggregator.add(adapter(1), 1.0)
    AdapterSpec.of(adapter(0)).check(aggregator.finish())


def test_updates_of_zero_change_nothing(rule) -> None:
    aggregator = rule(adapter(0))
    for _ in range(3):
        aggregator.add(adapter(1, scale=0.0), 1.0)
    assert aggregator.finish() == adapter(0)


def test_equal_updates_are_applied_once(rule) -> None:
    aggregator = rule(adapter(0))
    for _ in range(4):
        aggregator.add(adapter(1), 1.0)
    np.testing.assert_allclose(values(aggregator.finish()), values(adapter(0)) + values(adapter(1)), rtol=1e-6)


def test_nothing_to_combine_is_a_typed_error(rule) -> None:
    with pytest.raises(AggregationError, match="weight above zero"):
        rule(adapter(0)).finish()
    aggregator = rule(adapter(0))
    aggregator.add(adapter(1), 0.0)
    with pytest.raises(AggregationError, match="weight above zero"):
        aggregator.finish()


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_none_is_refused(rule, weight: float) -> None:
    with pytest.raises(AggregationError, match="weight"):
        rule(adapter(0)).add(adapter(1), weight)


def test_foreign_tensors_and_values_that_are_not_finite_are_refused(rule) -> None:
    with pytest.raises(AggregationError):
        rule(adapter(0)).add({"pixels": RawTensor.from_array(np.ones(3, np.float32))}, 1.0)
    bad = adapter(1) | {"scalar": RawTensor.from_array(np.array(np.nan, np.float32))}
    with pytest.raises(AggregationError, match="NaN"):
        rule(adapter(0)).add(bad, 1.0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.0, 100.0)), min_size=1, max_size=6))
def test_fedavg_is_the_weighted_mean_whatever_the_order(parts: list[tuple[int, float]]) -> None:
    total = sum(weight for _, weight in parts)
    aggregator, reverse = FedAvg(adapter(0)), FedAvg(adapter(0))
    for (seed, weight), (other, its) in zip(parts, reversed(parts), strict=True):
        aggregator.add(adapter(seed), weight)
        reverse.add(adapter(other), its)
    if total == 0.0:
        with pytest.raises(AggregationError):
            aggregator.finish()
        return
    expected = values(adapter(0)).astype(np.float64)
    expected += sum(weight * values(adapter(seed)).astype(np.float64) for seed, weight in parts) / total
    np.testing.assert_allclose(values(aggregator.finish()), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values(reverse.finish()), expected, rtol=1e-5, atol=1e-6)
