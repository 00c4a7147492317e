from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from common.errors import ConfigurationError
from common.policy import Ending, load_policy, rollout, with_adapter
from common.policy.decoder import Decoder, Sampler
from server.cold_start import ColdStartSettings, cold_start
from tests.client.trainer.toy import demonstrations
from tests.common.policy.small import random_adapter, small_policy

PROMPTS = ["track enhancement stage S1", "x", "bat inspect bat plan", "x", "kind impulse polarity inverted level 2"]


class Echo:
    """Remembers what was run; prints something of another length every time."""

    def __init__(self):
        self.ran = []

    def execute_code(self, language, code):
        self.ran.append((language, code))
        return "plan saved " * (len(code) % 5)


def full_logits(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].float()


def spoken(policy, prompts, *, temperature=1.0, seeds=None, max_tokens=120, max_turns=3, forced=None):
    environments = [Echo() for _ in prompts]
    with ThreadPoolExecutor(2) as executor:
        done = rollout(
            policy,
            environments,
            prompts,
            temperature=temperature,
            seeds=seeds or list(range(len(prompts))),
            max_turns=max_turns,
            max_tokens=max_tokens,
            executor=executor,
        )
    return done, environments


@pytest.fixture(scope="module")
def policy():
    base = small_policy()
    return with_adapter(base, random_adapter(base, scale=0.1))


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    """A policy trained for seconds, so that it calls the tool and ends its turns."""
    out = tmp_path_factory.mktemp("talker") / "policy"
    return load_policy(
        cold_start(out, demonstrations(64), 0, ColdStartSettings(steps=40, short=0.0, batch=16, vocabulary=400))
    )


def test_greedy_turns_equal_hugging_face_generation(policy):
    prompts = [policy.dialogue.prompt(text) for text in PROMPTS]
    decoder = Decoder(policy.model, prompts, policy.dialogue.end, Sampler([0] * 5, 0.0, 64))
    chunks = [[7], [8, 9, 10], [11, 12], [13, 14, 15, 16, 17], [18]]
    contexts = prompts
    for budgets in ([12, 3, 20, 9, 1], [4, 16, 2, 8, 11]):
        written, _ = decoder.turn(budgets)
        for context, ids, budget in zip(contexts, written, budgets, strict=True):
            expected = policy.model.generate(
                torch.tensor([context]), max_new_tokens=budget, do_sample=False, pad_token_id=0
            )[0, len(context) :].tolist()
            assert ids == expected
        fed = [[ids[-1], *chunk] for ids, chunk in zip(written, chunks, strict=True)]
        contexts = [c + ids[:-1] + f for c, ids, f in zip(contexts, written, fed, strict=True)]
        decoder.feed(fed)


def test_dropping_rows_changes_nothing_for_the_others(policy):
    prompts = [policy.dialogue.prompt(text) for text in PROMPTS]
    decoder = Decoder(policy.model, prompts, policy.dialogue.end, Sampler([0] * 5, 0.0, 64))
    first, _ = decoder.turn([6] * 5)
    decoder.keep(torch.tensor([4, 1]))
    decoder.feed([[first[4][-1], 30, 31], [first[1][-1], 32]])
    second, _ = decoder.turn([6, 6])
    for row, extra, ids in ((4, [30, 31], second[0]), (1, [32], second[1])):
        context = prompts[row] + first[row] + extra
        expected = policy.model.generate(torch.tensor([context]), max_new_tokens=6, do_sample=False, pad_token_id=0)
        assert ids == expected[0, len(context) :].tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_of_a_full_forward_pass(talker, temperature):
    done, _ = spoken(talker, ["enhance the images", "enhance", "images"] * 3, temperature=temperature)
    assert any(0 in one.mask for one in done), "no rollout called the tool"
    for one in done:
        assert len(one.completion_ids) == len(one.mask) == len(one.logprobs)
        ids = one.prompt_ids + one.completion_ids
        log_p = torch.log_softmax(full_logits(talker.model, ids) / temperature, dim=-1)
        for position, (token, mask, logp) in enumerate(zip(one.completion_ids, one.mask, one.logprobs, strict=True)):
            expected = float(log_p[len(one.prompt_ids) + position - 1, token]) if mask else 0.0
            assert abs(logp - expected) < 1e-4


def test_masks_cover_exactly_what_the_policy_wrote(talker):
    done, environments = spoken(talker, ["enhance the images"] * 8, max_turns=8, max_tokens=300)
    for one, environment in zip(done, environments, strict=True):
        assert [(call.language, call.code) for call in one.calls] == environment.ran
        turns, ids = [], []
        for token, mask in zip(one.completion_ids, one.mask, strict=True):
            if mask:
                ids.append(token)
            elif ids:
                turns.append(ids)
                ids = []
        turns += [ids] if ids else []
        assert len(turns) == one.turns
        replies = [talker.dialogue.observation("plan saved " * (len(code) % 5)) for _, code in environment.ran]
        seen = [token for token, mask in zip(one.completion_ids, one.mask, strict=True) if not mask]
        assert seen == [token for reply in replies for token in reply][: len(seen)]


def test_a_rollout_depends_on_its_seed_alone(talker):
    alone, _ = spoken(talker, ["enhance the images"], seeds=[(3, 1, 4)])
    among, _ = spoken(talker, ["x", "enhance the images", "images"], seeds=[(1,), (3, 1, 4), (2,)])
    other, _ = spoken(talker, ["enhance the images"] * 8, seeds=[(5, n) for n in range(8)])
    assert among[1].completion_ids == alone[0].completion_ids
    assert len({tuple(one.completion_ids) for one in other}) > 1


def test_limits_end_rollouts(talker):
    done, environments = spoken(talker, ["enhance the images"] * 4, temperature=0.0, max_turns=1, max_tokens=200)
    assert {one.ending for one in done} == {Ending.TURNS}
    assert not any(environment.ran for environment in environments)
    room = len(talker.dialogue.prompt("enhance the images")) + 10
    done, _ = spoken(talker, ["enhance the images"] * 4, temperature=0.0, max_turns=9, max_tokens=room)
    assert {one.ending for one in done} == {Ending.TOKENS}
    assert all(one.tokens <= room for one in done)
    with pytest.raises(ConfigurationError):
        spoken(talker, ["enhance the images"], max_tokens=4)


def test_sampling_follows_the_softmax():
    logits = torch.tensor([0.0, 1.0, 2.0, -30.0]).repeat(4000, 1)
    tokens, logps = Sampler(list(range(4000)), 0.5, 1).choose(torch.arange(4000), logits)
    expected = torch.softmax(logits[0] / 0.5, dim=0)
    share = torch.bincount(tokens, minlength=4) / 4000
    assert torch.allclose(share, expected, atol=0.03)
    assert torch.allclose(logps, expected.log()[tokens])
