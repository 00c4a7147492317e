import json

import pytest

from common.base_model import read_base_model
from common.errors import ConfigurationError
from common.policy import Dialogue, adapter_spec, load_policy, parse_turn, train_tokenizer
from server.cold_start import ColdStartSettings, cold_start, encode_demonstration
from tests.client.trainer.toy import demonstrations

QUICK = ColdStartSettings(steps=6, batch=8, warmup=2, vocabulary=400)


def test_only_what_the_assistant_says_is_a_target():
    one = next(demonstrations(1))
    dialogue = Dialogue(train_tokenizer([one.prompt, *(text for step in one.steps for text in step)]))
    ids, targets = encode_demonstration(dialogue, one)
    assert len(ids) == len(targets)
    assert all(target in (-100, token) for token, target in zip(ids, targets, strict=True))
    turns, turn = [], []
    for target in [*targets, -100]:
        if target != -100:
            turn.append(target)
        elif turn:
            turns.append(turn)
            turn = []
    calls = [parse_turn(dialogue.decode(turn)) for turn in turns]
    assert [call[0].code for call in calls[:-1]] == [command for command, _ in one.steps]
    assert calls[-1] == []
    assert dialogue.decode(turns[-1]) == "done"


def test_the_same_seed_makes_the_same_policy_ready_for_a_federation(tmp_path):
    one, same, other = (
        cold_start(tmp_path / name, demonstrations(16), seed, QUICK) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    base = read_base_model(one)
    assert base.digest == read_base_model(same).digest != read_base_model(other).digest
    policy = load_policy(one)
    assert policy.digest == base.digest == json.loads((tmp_path / "a.cold_start.json").read_text())["policy"]
    assert base.spec.digest == adapter_spec(policy).digest


def test_the_loss_falls(tmp_path):
    losses = []
    settings = ColdStartSettings(steps=40, batch=16, vocabulary=400)
    cold_start(tmp_path / "p", demonstrations(64), 0, settings, lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == list(range(1, 41))
    assert losses[-1][1] < 0.5 * losses[0][1]


def test_no_demonstrations_are_refused(tmp_path):
    with pytest.raises(ConfigurationError):
        cold_start(tmp_path / "p", [], 0)
