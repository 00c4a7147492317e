"""`bat-client doctor`: every check finds what it is there for, and says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli import main as bat_client
from client.doctor import CHECKS, State
from client.doctor.check import Check, Finding
from client.doctor.cli import _findings
from client.site_config import SiteConfig
from common.errors import SandboxError
from common.sandbox import factory
from tests.client.hospital import Hospital


@pytest.fixture
def site(hospital: Hospital) -> SiteConfig:
    (hospital.root / "dicom").mkdir()
    (hospital.root / "dicom" / "1.dcm").write_bytes(b"DICM")
    config = hospital.write()
    config.state.mkdir(mode=0o700)
    for name in ("site.key", "bank.key", "site.secret"):
        (config.state / name).write_bytes(bytes(32))
        (config.state / name).chmod(0o600)
    return config


def found(name: str, config: SiteConfig) -> list[Finding]:
    return [finding for check in CHECKS if check.name == name for finding in check.look(config)]


def test_a_sound_site_is_told_so(site: SiteConfig, hospital: Hospital, capsys: pytest.CaptureFixture[str]) -> None:
    assert bat_client(["doctor", str(hospital.file), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {row["check"] for row in rows} == {check.name for check in CHECKS}
    assert not [row for row in rows if row["state"] == "bad"]
    assert all(row["remedy"] for row in rows if row["state"] != "good")
    sandbox = next(row for row in rows if row["check"] == "sandbox")
    assert all(probe in sandbox["what"] for probe in factory.PROBES)


def test_an_open_key_a_missing_model_and_no_images_are_bad(
    site: SiteConfig, hospital: Hospital, capsys: pytest.CaptureFixture[str]
) -> None:
    (site.state / "bank.key").chmod(0o640)
    (site.data / "1.dcm").unlink()
    site.data.rmdir()
    (site.model / "initial_adapter.safetensors").unlink()
    assert bat_client(["doctor", str(hospital.file)]) == 1
    text = capsys.readouterr().out
    assert f"chmod go-rwx {site.state / 'bank.key'}" in text
    assert "cannot read the image folder" in text
    assert "cannot read the base model" in text
    assert "Traceback" not in text


def test_a_site_that_never_ran_is_no_error(hospital: Hospital) -> None:
    config = hospital.write()
    (finding,) = found("keys and folders", config)
    assert (finding.state, "not made yet" in finding.what) == (State.WARNING, True)


def test_a_weaker_backend_is_used_but_named(site: SiteConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_named: object) -> Any:
        raise SandboxError("no user namespaces")

    monkeypatch.setitem(factory.BACKENDS, "bwrap", refuse)
    first, second = found("sandbox", site)
    assert (first.state, second.state) == (State.GOOD, State.WARNING)
    assert "runs in landlock" in first.what
    assert "no user namespaces" in second.what
    monkeypatch.setitem(factory.BACKENDS, "landlock", refuse)
    (none,) = found("sandbox", site)
    assert none.state is State.BAD


def test_a_check_that_breaks_stops_no_other(site: SiteConfig) -> None:
    def broken(_config: SiteConfig) -> Iterator[Finding]:
        raise ZeroDivisionError

    (finding,) = _findings(Check("broken", broken), site)
    assert (finding.state, finding.what) == (State.BAD, "the check itself failed: ZeroDivisionError")


def test_too_little_room_is_noted(site: SiteConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("client.doctor.disk.BESIDES_BYTES", 1 << 60)
    monkeypatch.setattr("client.doctor.memory.ENOUGH_BYTES", 1 << 60)
    assert found("disk", site)[0].state is State.WARNING
    assert found("memory", site)[0].state is State.WARNING
