"""The rule of a run: chosen in the settings or on the command line, refused by name, and its frozen factor watched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.adapter import RawTensor, encode_adapter
from common.errors import ConfigurationError
from common.factors import factor_of
from common.messages import Prescription, sign_message
from server.config import load_federation_config
from server.verification import Reply
from tests.server.test_round_loop import Run, Sites, sends


def trains(factor: str, value: float):
    """A site that moves one factor only."""

    def answer(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
        update = encode_adapter(
            {
                name: RawTensor.from_array(np.full(shape, value if factor_of(name) == factor else 0.0, np.float32))
                for name, (_, shape) in sites.model.spec.tensors.items()
            }
        )
        return Reply(sign_message(sites.release(prescription, update), sites.keys[prescription.site]), b"", update)

    return answer


def test_an_update_that_moves_the_frozen_factor_is_left_out_and_the_round_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": trains("B", 1.0), "b": sends(1.0)}, None, aggregation="ffa")
    assert "frozen" in run.metrics[1]["absent"]["b"]
    assert [release["site"] for release in run.metrics[1]["releases"]] == ["a"]
    assert run.metrics[1]["promoted"]


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "krum", "multi_krum", "flexlora"])
def test_every_rule_runs_a_round(tmp_path: Path, rule: str) -> None:
    run = Run(tmp_path, {name: sends(1.0) for name in "abcde"}, None, aggregation=rule)
    assert [event.body["rule"] for event in run.events("aggregate")] == [rule]
    assert run.metrics[1]["promoted"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [("nonsense", "is one of"), ("fedex", "Python API"), ("flora", "Python API"), ("krum", "2 byzantine")],
)
def test_a_rule_that_cannot_run_is_refused_by_name(tmp_path: Path, rule: str, said: str) -> None:
    run = Run(tmp_path, {"a": sends(1.0)}, None)
    file = run.path / "config.toml"
    assert load_federation_config(file, {"aggregation": "median"}).aggregation == "median"
    with pytest.raises(ConfigurationError, match=said):
        load_federation_config(file, {"aggregation": rule})
