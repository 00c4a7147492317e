"""The daemon as a process: how it starts, how it ends, and what a person sees when it cannot."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tomli_w

from client.site_config import SiteConfig, load_site_config
from common.ledger import read_ledger
from deploy.sample_sites import make
from stage_bank.bank import StageBank
from tests.e2e.federation import tiny_model


class Hospital:
    """A folder with a site's settings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "site.toml"
        tiny_model(root / "model")
        self.write()

    def write(self, states: int = 0, data: Path | None = None) -> SiteConfig:
        settings = {
            "site": "north",
            "data": str(data or self.root / "dicom"),
            "state": str(self.root / "state"),
            "model": str(self.root / "model"),
            "server": {"public_key": "ab" * 32},
            "bank": {"states": states},
        }
        self.file.write_text(tomli_w.dumps(settings))
        return load_site_config(self.file)

    def start(self, *command: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "client.cli", *(command or ("run",)), str(self.file)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def hospital() -> Iterator[Hospital]:
    root = Path(tempfile.mkdtemp(prefix="bat-", dir="/tmp"))
    root.chmod(0o711)
    yield Hospital(root)
    shutil.rmtree(root, ignore_errors=True)


def until(condition, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_it_starts_again(hospital: Hospital, number: signal.Signals) -> None:
    config = hospital.write()
    for _ in range(2):
        process = hospital.start()
        until(config.admin_socket.exists)
        process.send_signal(number)
        assert process.wait(15) == 0
        assert process.stderr.read() == ""
        assert not config.relay_socket.exists()
        assert not config.admin_socket.exists()
    assert [event.kind for event in read_ledger(config.ledger_file)] == ["daemon_started", "daemon_stopped"] * 2


def test_a_second_daemon_for_the_same_site_is_refused(hospital: Hospital) -> None:
    config = hospital.write()
    first = hospital.start()
    until(config.admin_socket.exists)
    second = hospital.start()
    assert second.wait(30) == 1
    assert "another process writes this ledger" in second.stderr.read()
    assert config.relay_socket.exists()
    first.terminate()
    assert first.wait(15) == 0


@pytest.mark.parametrize("files", [None, {}, {"notes.txt": b"hello"}, {"cut.dcm": bytes(128) + b"DICM\x02\x00"}])
def test_images_that_cannot_be_used_are_one_clear_line(hospital: Hospital, files: dict[str, bytes] | None) -> None:
    config = hospital.write(states=3)
    if files is not None:
        config.data.mkdir()
        for name, data in files.items():
            (config.data / name).write_bytes(data)
    process = hospital.start()
    assert process.wait(60) == 1
    errors = process.stderr.read().strip().splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("bat-client: ")
    assert str(config.data) in errors[0]
    assert not psutil.Process().children(recursive=True)


def test_a_missing_model_is_one_clear_line(hospital: Hospital) -> None:
    shutil.rmtree(hospital.root / "model")
    process = hospital.start()
    assert process.wait(30) == 1
    assert "initial_adapter.safetensors" in process.stderr.read()


def test_an_interrupted_bank_is_made_anew_and_a_sealed_one_is_kept(hospital: Hospital) -> None:
    config = hospital.write(states=9, data=make(hospital.root / "sites")["ct"])
    states = config.bank_folder / "states"
    process = hospital.start("bank", "build")
    until(lambda: states.exists() and any(states.iterdir()))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 1
    assert process.stderr.read().strip().splitlines()[-1] == "bat-client: interrupted"
    until(lambda: not psutil.Process().children(recursive=True))

    process = hospital.start("bank", "build")
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert "bank sealed: 9 states of 3 patients" in output
    with StageBank.open(config.bank_folder, config.bank_key_file) as bank:
        assert bank.sealed
        assert len({row.track for row in bank.rows()}) == 3

    process = hospital.start("bank", "build")
    assert process.wait(30) == 1
    assert "a sealed bank is there already" in process.stderr.read()
