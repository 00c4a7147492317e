"""What each rule promises beyond the conformance suite, on cases worked out by hand or by a reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

from common.adapter import Adapter, RawTensor, encode_adapter
from common.adapter_file import AdapterFile
from common.errors import AdapterError, BatError, ConfigurationError, LedgerError
from common.signing import SigningKey
from server.aggregation import (
    RULES,
    AggregationError,
    FedAdam,
    FedEx,
    ResidualLedger,
    RuleOptions,
    make_aggregator,
    refuse_combination,
)
from tests.server.aggregation_cases import LAYER, SHAPES, adapter, only, plus, products, values

A, B = f"{LAYER}.lora_A.weight", f"{LAYER}.lora_B.weight"
ONE = {"x": (3,)}


def flat(*numbers: float) -> dict[str, RawTensor]:
    return {"x": RawTensor.from_values(np.array(numbers), "F32")}


def combined(name: str, start: Adapter, updates: list[Adapter], **options: float) -> dict[str, RawTensor]:
    aggregator = make_aggregator(name, start, RuleOptions(**options))  # type: ignore[arg-type]
    for update in updates:
        aggregator.add(update, 1.0)
    return aggregator.finish()


def numbers(made: Adapter) -> list[float]:
    return [float(value) for value in made["x"].to_float32()]


VOTES = [flat(0, 1, 5), flat(1, 2, 5), flat(2, 3, 5), flat(3, 4, 5), flat(1000, -1000, 5)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fedavg", [201.2, -198.0, 5.0]),
        ("median", [2.0, 2.0, 5.0]),
        ("trimmed_mean", [2.0, 2.0, 5.0]),
        ("krum", [1.0, 2.0, 5.0]),
        ("multi_krum", [1.5, 2.5, 5.0]),
    ],
)
def test_rules_on_numbers_worked_out_by_hand(name: str, expected: list[float]) -> None:
    assert numbers(combined(name, flat(0, 0, 0), VOTES)) == pytest.approx(expected, rel=1e-6)


def test_fedavg_equals_flowers_own_aggregation() -> None:
    updates = [adapter(seed) for seed in range(1, 6)]
    records = [
        RecordDict(
            {
                "update": ArrayRecord({name: Array(tensor.to_float32()) for name, tensor in update.items()}),
                "weight": MetricRecord({"n": float(seed)}),
            }
        )
        for seed, update in enumerate(updates, 1)
    ]
    theirs = aggregate_arrayrecords(records, "n")
    aggregator = make_aggregator("fedavg", adapter(0, 0.0), RuleOptions())
    for seed, update in enumerate(updates, 1):
        aggregator.add(update, float(seed))
    for name, tensor in aggregator.finish().items():
        np.testing.assert_allclose(tensor.to_float32(), theirs[name].numpy(), rtol=1e-5, atol=1e-6)


def test_bf16_is_rounded_to_nearest_even_as_torch_does() -> None:
    import torch

    rng = np.random.default_rng(0)
    single = np.concatenate(
        [rng.normal(size=5000), rng.normal(size=100) * 1e-40, [0.0, -0.0, 3.4e38, np.inf, 1.00390625]]
    )
    single = single.astype(np.float32)
    theirs = torch.from_numpy(single).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(RawTensor.from_values(single, "BF16").to_float32(), theirs)


def test_one_factor_rules_alternate_and_refuse_the_frozen_one() -> None:
    for name, number, moved, frozen in [("ffa", 1, "B", "A"), ("ffa", 2, "B", "A"), ("rolora", 2, "A", "B")]:
        made = combined(name, adapter(0), [only(adapter(1), moved)], round=number)
        np.testing.assert_allclose(products(made), products(plus(adapter(0), only(adapter(1), moved))), atol=1e-5)
        with pytest.raises(AggregationError, match=f"frozen factor {frozen}"):
            combined(name, adapter(0), [only(adapter(1), frozen)], round=number)


def test_fedex_is_exact_with_its_residuals() -> None:
    rule = FedEx(adapter(0))
    parts = [(adapter(seed), float(seed)) for seed in range(1, 4)]
    for update, weight in parts:
        rule.add(update, weight)
    made = products(rule.finish())
    residual = np.concatenate([rule.residuals[layer].ravel() for layer in sorted(rule.residuals)])
    expected = sum(weight * products(plus(adapter(0), update)) for update, weight in parts) / 6.0
    np.testing.assert_allclose(made + residual, expected, atol=1e-5)
    assert np.abs(residual).max() > 0.1


def test_the_residual_ledger_adds_up_and_notices_an_edited_file(tmp_path: Path) -> None:
    ledger = ResidualLedger(tmp_path, SigningKey.generate(), "b" * 64)
    first, second = ({"layer": np.full((2, 3), value, np.float32)} for value in (1.0, -0.25))
    ledger.append(1, first)
    ledger.append(2, second)
    np.testing.assert_array_equal(ledger.total()["layer"], np.full((2, 3), 0.75))
    file = tmp_path / "residual-1.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(LedgerError, match="not the one that was signed"):
        ledger.total()
    file.unlink()
    with pytest.raises(LedgerError, match="not the one that was signed"):
        ledger.total()
    ledger.close()


def test_flora_stacks_modules_of_mixed_ranks_exactly() -> None:
    def module(seed: int, rank: int) -> dict[str, RawTensor]:
        shapes = {n: (rank, s[1]) if "lora_A" in n else (s[0], rank) for n, s in SHAPES.items()}
        return adapter(seed, shapes=shapes)

    modules = [(module(1, 1), 1.0), (module(2, 2), 2.0), (module(3, 5), 5.0)]
    rule = make_aggregator("flora", adapter(0), RuleOptions())
    for update, weight in modules:
        rule.add(update, weight)
    made = rule.finish()
    assert made[A].shape == (2 + 1 + 2 + 5, 5)
    expected = products(adapter(0)) + sum(weight * products(update) for update, weight in modules) / 8.0
    np.testing.assert_allclose(products(made), expected, atol=1e-5)
    with pytest.raises(AggregationError, match="shape"):
        rule.add({**module(1, 2), B: module(1, 3)[B]}, 1.0)


def test_flexlora_is_the_best_candidate_of_the_rank_and_stays_trainable() -> None:
    updates = [adapter(seed) for seed in range(1, 5)]
    made = combined("flexlora", adapter(0), updates)
    mean = sum(products(plus(adapter(0), update)) for update in updates) / 4.0
    size = 4 * 5
    got, wanted = products(made)[:size].reshape(4, 5), mean[:size].reshape(4, 5)
    left, singular, right = np.linalg.svd(wanted)
    np.testing.assert_allclose(got, (left[:, :2] * singular[:2]) @ right[:2], atol=1e-5)
    fresh = adapter(0) | {n: RawTensor.from_values(np.zeros(s), "F32") for n, s in SHAPES.items() if "lora_B" in n}
    tiny = {n: RawTensor.from_values(np.full(s, 0.1 if n == B else 0.0), "F32") for n, s in SHAPES.items()}
    grown = combined("flexlora", fresh, [tiny])
    assert (np.abs(grown[A].to_float32()).sum(axis=1) > 0).all()
    assert (np.abs(grown["model.second.lora_A.weight"].to_float32()).sum(axis=1) > 0).all()


def test_krum_needs_enough_honest_sites_and_trimming_must_leave_some() -> None:
    with pytest.raises(AggregationError, match="5 could"):
        combined("krum", flat(0, 0, 0), VOTES[:4])
    with pytest.raises(AggregationError, match="leaves none"):
        combined("trimmed_mean", flat(0, 0, 0), VOTES[:2])


@pytest.mark.parametrize("name", ["fedavg", "median"])
def test_the_norm_bound_scales_large_updates_only_and_bears_zero(name: str) -> None:
    assert numbers(combined(name, flat(0, 0, 0), [flat(30, 40, 0)], norm_bound=5.0)) == pytest.approx([3, 4, 0])
    assert numbers(combined(name, flat(1, 1, 1), [flat(3, 4, 0)], norm_bound=5.0)) == pytest.approx([4, 5, 1])
    assert numbers(combined(name, flat(1, 1, 1), [flat(0, 0, 0)], norm_bound=5.0)) == [1, 1, 1]


def test_fedadam_is_adam_on_the_mean_update() -> None:
    optimizer, x, m, v = FedAdam(0.1), np.array([1.0, 2.0, 3.0]), np.zeros(3), np.zeros(3)
    for move in ([1.0, 0.0, -2.0], [0.5, 0.0, 0.1], [0.0, 0.0, 0.0]):
        made = optimizer.step(flat(*x), flat(*(x + move)))
        m, v = 0.9 * m + 0.1 * np.array(move), 0.99 * v + 0.01 * np.square(move)
        np.testing.assert_allclose(made["x"].to_float32(), x + 0.1 * m / (np.sqrt(v) + 1e-3), rtol=1e-4)
        x = made["x"].to_float32().astype(np.float64)
    kept = dict(optimizer.moments)
    with pytest.raises(AggregationError):
        optimizer.step(flat(*x), flat(np.inf, 0, 0))
    assert optimizer.moments == kept


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("krum", {"masked": True}, "krum cannot be combined with secure aggregation"),
        ("fedex", {"masked": True}, "fedex cannot be combined with secure aggregation"),
        ("flora", {"private": True}, "flora cannot be combined with differential privacy"),
        ("fedavg", {"masked": True, "compression": "top_k"}, "secure aggregation cannot be combined with compression"),
        ("fedavg", {"masked": True, "norm_bound": 1.0}, "norm bound"),
        ("fedavg", {"masked": True, "drift_detection": True}, "drift detection"),
    ],
)
def test_combinations_that_would_be_wrong_are_refused_by_name(name: str, settings: dict, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        refuse_combination(name, **settings)


def test_every_linear_rule_bears_masks_and_privacy() -> None:
    for name in (name for name, rule in RULES.items() if rule.linear):
        refuse_combination(name, masked=True, private=True)


def test_an_adapter_read_from_its_file_is_the_same(tmp_path: Path) -> None:
    for dtype in ("F32", "BF16"):
        made = adapter(3, dtype=dtype) | {
            "scalar": RawTensor("F16", (), b"\0\x3c"),
            "empty": RawTensor("F32", (0, 2), b""),
        }
        (tmp_path / "a").write_bytes(encode_adapter(made))
        assert dict(AdapterFile(tmp_path / "a")) == made
    cut = tmp_path / "cut"
    cut.write_bytes((tmp_path / "a").read_bytes()[:-1])
    with pytest.raises(AdapterError, match="cut short"):
        dict(AdapterFile(cut))
    for data in (b"", b"\xff" * 40, b"\x02" + b"\0" * 7 + b"[]", b"\x10" + b"\0" * 7 + b'{"a": {"b": 1}} '):
        cut.write_bytes(data)
        with pytest.raises(BatError):
            AdapterFile(cut)


def test_robust_rules_bound_what_poisoned_updates_do() -> None:
    """Two of nine sites flip the sign, scale by 50, or push one direction; honest ones agree up to small noise."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200)
    honest = [truth + 0.1 * rng.normal(size=200) for _ in range(7)]
    backdoor = truth + 10.0 * (np.arange(200) == 7)
    attacks = {"sign flip": -10 * truth, "scale": 50 * truth, "backdoor": backdoor}
    for attack, hostile in attacks.items():
        votes = [{"x": RawTensor.from_values(vote, "F32")} for vote in [*honest, hostile, hostile]]
        start = {"x": RawTensor.from_values(np.zeros(200), "F32")}
        errors = {
            name: np.linalg.norm(values(combined(name, start, votes, byzantine=2, trim=0.23)) - truth)
            for name in ("fedavg", "median", "trimmed_mean", "krum", "multi_krum")
        }
        for name in ("median", "trimmed_mean", "krum", "multi_krum"):
            assert errors[name] < 1.6, (attack, name)
            assert errors[name] < errors["fedavg"], (attack, name)
