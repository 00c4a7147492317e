"""`site.toml`: what is read, and what a slip in it looks like."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from client.cli import main
from client.site_config import load_site_config
from client.site_policy import SitePolicy, check_policy
from common.errors import ConfigurationError, PolicyRefusal

MINIMAL = f"""
site = "north"
data = "dicom"
state = "state"
model = "/models/tiny"
[server]
public_key = "{"ab" * 32}"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "site.toml"
    path.write_text(text)
    return path


def test_relative_paths_start_at_the_files_folder(tmp_path: Path) -> None:
    text = MINIMAL + '[sockets]\nfolder = "run"\nrelay_mode = "0660"\n'
    config = load_site_config(write(tmp_path, text))
    assert config.data == tmp_path / "dicom"
    assert config.model == Path("/models/tiny")
    assert config.relay_socket == tmp_path / "run" / "relay.sock"
    assert config.sockets.relay_mode == 0o660
    assert config.ledger_file == tmp_path / "state" / "ledger.jsonl"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("site = [", "not TOML"),
        (MINIMAL.replace('"north"', '"../north"'), "setting site"),
        (MINIMAL + "colour = 1\n", "setting server.colour"),
        (MINIMAL.replace("ab" * 32, "ab"), "setting server.public_key"),
        (MINIMAL + "[policy]\nstages = ['S9']\n", "setting policy.stages.0"),
        (MINIMAL + "[bank]\nstates = -1\n", "setting bank.states"),
        (MINIMAL + f'[sockets]\nfolder = "/tmp/{"x" * 100}"\n', "too long"),
        (MINIMAL.replace('site = "north"', ""), "setting site: Field required"),
    ],
)
def test_a_slip_is_one_line_that_names_it(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=said):
        load_site_config(path)
    assert main(["status", str(path)]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("bat-client: ")
    assert len(errors.strip().splitlines()) == 1


def test_a_missing_file_and_a_daemon_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.toml")]) == 1
    assert main(["status", str(write(tmp_path, MINIMAL))]) == 1
    missing, silent = capsys.readouterr().err.strip().splitlines()
    assert "cannot read the settings" in missing
    assert "does not answer" in silent


def test_wrong_usage_is_status_2() -> None:
    with pytest.raises(SystemExit) as raised:
        main(["fly"])
    assert raised.value.code == 2


def test_an_approval_ends_with_its_last_day(site) -> None:
    policy = SitePolicy(approved_until=date(2026, 6, 30))
    check_policy(policy, site.prescription(), now=datetime(2026, 6, 30, 23, 59, tzinfo=UTC))
    with pytest.raises(PolicyRefusal, match="approval ended"):
        check_policy(policy, site.prescription(), now=datetime(2026, 7, 1, tzinfo=UTC))


def test_a_site_may_insist_on_differential_privacy_and_limit_rollouts(site) -> None:
    with pytest.raises(PolicyRefusal, match="without differential privacy"):
        check_policy(SitePolicy(require_differential_privacy=True), site.prescription())
    with pytest.raises(PolicyRefusal, match="2 rollouts"):
        check_policy(SitePolicy(max_rollouts=1), site.prescription())
