import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from common.adapter import encode_adapter
from common.base_model import INITIAL_ADAPTER, read_base_model
from common.errors import ConfigurationError
from common.policy import load_policy, policy_digest, zero_adapter
from tests.common.policy.small import save_small, small_policy


def test_size_and_freezing():
    policy = small_policy()
    assert 0.9e6 < sum(p.numel() for p in policy.model.parameters()) < 1.3e6
    assert not any(p.requires_grad for p in policy.model.parameters())
    assert not policy.model.training


def test_digest_follows_every_file(tmp_path):
    folder = save_small(tmp_path / "p")
    before = policy_digest(folder)
    assert load_policy(folder).digest == before
    (folder / INITIAL_ADAPTER).write_bytes(encode_adapter(zero_adapter(small_policy(), 1)))
    assert policy_digest(folder) != before
    assert read_base_model(folder).digest == policy_digest(folder)


def test_a_missing_or_damaged_folder_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigurationError, match="no policy there"):
        load_policy(tmp_path / "absent")
    folder = save_small(tmp_path / "p")
    (folder / "config.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        load_policy(folder)


def test_bf16_weights_load():
    assert next(small_policy(torch.bfloat16).model.parameters()).dtype is torch.bfloat16


def test_code_and_pickles_in_a_policy_folder_are_not_run(tmp_path: Path) -> None:
    pickled = save_small(tmp_path / "pickled")
    weights = load_file(pickled / "model.safetensors")
    (pickled / "model.safetensors").unlink()
    torch.save(weights, pickled / "pytorch_model.bin")
    coded = save_small(tmp_path / "coded")
    settings = json.loads((coded / "config.json").read_text())
    settings["model_type"] = "hostile"
    settings["auto_map"] = {"AutoConfig": "hostile.Config", "AutoModelForCausalLM": "hostile.Model"}
    (coded / "config.json").write_text(json.dumps(settings))
    (coded / "hostile.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for folder in (pickled, coded):
        with pytest.raises(ConfigurationError):
            load_policy(folder)
    assert not (tmp_path / "ran").exists()
