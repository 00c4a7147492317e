import itertools

import numpy as np
import pytest
import torch

from client.trainer import RoundCancelled, check_round, train_round
from client.trainer.grpo import RoundTrainer
from common.adapter import encode_adapter
from common.errors import AdapterError, ConfigurationError
from common.factors import factor_of
from common.messages import OptimizerSettings
from common.policy import load_policy, with_adapter, zero_adapter
from server.cold_start import ColdStartSettings, cold_start
from tests.client.trainer.toy import ToyEnvironment, demonstrations
from tests.common.policy.small import random_adapter


def settings(**changes):
    values = {
        "steps": 2,
        "groups_per_step": 3,
        "group_size": 4,
        "learning_rate": 1e-3,
        "kl_coefficient": 0.01,
        "temperature": 1.0,
        "max_turns": 6,
        "max_tokens": 200,
    }
    return OptimizerSettings(**{**values, **changes})


def rows(count):
    return [{"state": number} for number in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("cold") / "policy"
    return cold_start(out, demonstrations(128), 0, ColdStartSettings(steps=60, short=0.0, batch=16, vocabulary=400))


@pytest.fixture(scope="module")
def policy(folder):
    return load_policy(folder)


@pytest.fixture
def watched(monkeypatch):
    """Collects the batches that TRL computes its loss on."""
    batches = []
    original = RoundTrainer._generate_and_score_completions

    def keep(self, inputs):
        batch = original(self, inputs)
        batches.append((batch, list(self.trajectories), [seat.get_reward() for seat in self.environments]))
        return batch

    monkeypatch.setattr(RoundTrainer, "_generate_and_score_completions", keep)
    return batches


def test_a_step_moves_b_and_the_policy_stays_as_it_was(policy):
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    forward = policy.model.forward
    start = zero_adapter(policy, 0)
    trained = train_round(policy, start, ToyEnvironment, rows(3), settings(steps=1), 0)
    moved = [np.abs(tensor.to_float32()).max() for name, tensor in trained.items() if name.endswith("lora_B.weight")]
    assert max(moved) > 0
    assert policy.model.forward == forward
    assert all(torch.equal(before[name], value) for name, value in policy.model.state_dict().items())
    assert not any("lora" in name for name, _ in policy.model.named_modules())


@pytest.mark.slow
@pytest.mark.parametrize(("frozen", "moving"), [("A", "B"), ("B", "A")])
def test_a_frozen_factor_keeps_every_bit_while_the_other_moves(policy, frozen, moving):
    start = random_adapter(policy, 1)
    trained = train_round(policy, start, ToyEnvironment, rows(3), settings(steps=1), 0, frozen=frozen)
    same = {name: trained[name] == tensor for name, tensor in start.items()}
    assert all(same[name] for name in same if factor_of(name) == frozen)
    assert not all(same[name] for name in same if factor_of(name) == moving)


def test_environments_are_reset_once_a_rollout_and_closed(policy):
    ToyEnvironment.resets = 0
    made = []

    def factory():
        made.append(ToyEnvironment())
        return made[-1]

    train_round(policy, zero_adapter(policy, 0), factory, rows(6), settings(), 0)
    assert ToyEnvironment.resets == 6 * 4
    assert len(made) == 3 * 4
    assert all(environment.closed for environment in made)


def test_advantages_are_rewards_minus_their_groups_mean(policy, watched):
    train_round(policy, zero_adapter(policy, 0), ToyEnvironment, rows(6), settings(), 0)
    assert len(watched) == 2
    for batch, _, rewards in watched:
        grouped = np.array(rewards).reshape(3, 4)
        expected = grouped - grouped.mean(axis=1, keepdims=True)
        assert np.allclose(batch["advantages"].numpy(), expected.reshape(-1), atol=1e-6)


def test_observed_tokens_carry_no_loss(policy, watched, monkeypatch):
    gradients = {}
    original = RoundTrainer._compute_loss

    def with_gradient(self, model, inputs):
        logps = self._get_per_token_logps_and_entropies

        def leaf(*arguments, **keywords):
            values, entropies, auxiliary = logps(*arguments, **keywords)
            gradients["logps"], gradients["mask"] = values, inputs["completion_mask"] * inputs["tool_mask"]
            values.retain_grad()
            return values, entropies, auxiliary

        monkeypatch.setattr(self, "_get_per_token_logps_and_entropies", leaf, raising=False)
        loss = original(self, model, inputs)
        monkeypatch.undo()
        return loss

    monkeypatch.setattr(RoundTrainer, "_compute_loss", with_gradient)
    train_round(policy, zero_adapter(policy, 0), ToyEnvironment, rows(3), settings(steps=1, kl_coefficient=0.0), 0)
    observed = gradients["mask"] == 0
    assert observed.any()
    assert (gradients["logps"].grad[observed] == 0).all()
    assert (gradients["logps"].grad[~observed] != 0).any()


def test_bucketed_log_probabilities_equal_those_of_the_rollouts(policy, watched):
    start = random_adapter(policy, scale=0.02)
    train_round(policy, start, ToyEnvironment, rows(3), settings(steps=1), 0)
    batch, trajectories, _ = watched[0]
    for row, one in zip(batch["ref_per_token_logps"], trajectories, strict=True):
        mask = torch.tensor(one.mask, dtype=torch.bool)
        expected = torch.tensor(one.logprobs)
        assert torch.allclose(row[: len(expected)][mask], expected[mask], atol=1e-4)


def test_the_reference_is_the_policy_that_started_the_round(policy):
    adapter = zero_adapter(policy, 0)
    for number in range(3):
        steps = []
        adapter = train_round(
            policy, adapter, ToyEnvironment, rows(6), settings(learning_rate=3e-3), number, steps.append
        )
        assert abs(steps[0]["kl"]) < 1e-6
        assert steps[1]["kl"] > 0.0


def test_the_same_seed_trains_the_same_adapter(policy):
    start = zero_adapter(policy, 0)
    one, same, other = (
        encode_adapter(train_round(policy, start, ToyEnvironment, rows(6), settings(), seed)) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_micro_batches_do_not_change_the_result(policy):
    start = zero_adapter(policy, 0)
    whole = train_round(policy, start, ToyEnvironment, rows(3), settings(steps=1), 0)
    parts = train_round(policy, start, ToyEnvironment, rows(3), settings(steps=1), 0, micro_batch=4)
    changed = {name: whole[name].to_float32() - start[name].to_float32() for name in start}
    for name, change in changed.items():
        again = parts[name].to_float32() - start[name].to_float32()
        # The first AdamW step is the sign of the gradient: it differs only where the gradient is all but zero.
        assert (np.abs(change - again) < 1e-4).mean() > 0.98


def test_practice_pays(policy):
    rewards = []
    train_round(
        policy,
        zero_adapter(policy, 0),
        ToyEnvironment,
        rows(10 * 4),
        settings(steps=10, groups_per_step=4, group_size=8, learning_rate=1.5e-3),
        0,
        lambda step: rewards.append(step["reward_mean"]),
    )
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.05


def test_cancelling_stops_within_a_step(policy):
    asked = itertools.count()
    steps = []
    with pytest.raises(RoundCancelled):
        train_round(
            policy, zero_adapter(policy, 0), ToyEnvironment, rows(6), settings(), 0, steps.append,
            lambda: next(asked) > 3,
        )  # fmt: skip
    assert steps == []
    assert next(asked) < 8


def test_a_bf16_policy_trains_a_float32_adapter(folder):
    half = load_policy(folder, torch.bfloat16)
    trained = train_round(half, zero_adapter(half, 0), ToyEnvironment, rows(3), settings(steps=1), 0)
    assert {tensor.dtype for tensor in trained.values()} == {"F32"}
    assert any(tensor.to_float32().any() for name, tensor in trained.items() if name.endswith("lora_B.weight"))
    with_adapter(half, trained)


def test_no_steps_release_the_adapter_unchanged(policy):
    start = random_adapter(policy)
    same = train_round(policy, start, ToyEnvironment, [], settings(steps=0), 0)
    assert encode_adapter(same) == encode_adapter(start)


def test_uneven_batches_are_refused_before_a_model_is_touched():
    with pytest.raises(ConfigurationError, match="needs 6 rows, not 5"):
        check_round(settings(), 5)
    for micro_batch in (5, 0, 24):
        with pytest.raises(ConfigurationError, match="does not divide the 12 rollouts"):
            train_round(None, {}, ToyEnvironment, rows(6), settings(), 0, micro_batch=micro_batch)
    check_round(settings(), 6, 12)


def test_a_foreign_adapter_is_refused(policy):
    start = dict(zero_adapter(policy, 0))
    start["base_model.model.extra.lora_A.weight"] = start.popitem()[1]
    with pytest.raises(AdapterError):
        train_round(policy, start, ToyEnvironment, rows(6), settings(), 0)
