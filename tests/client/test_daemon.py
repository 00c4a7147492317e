"""The daemon as a process: how it starts, how it ends, and what a person sees when it cannot."""

from __future__ import annotations

import shutil
import signal

import psutil
import pytest

from common.ledger import read_ledger
from deploy.sample_sites import make
from stage_bank.store import StageBank
from tests.client.hospital import Hospital, until


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
    others = _children()
    process = hospital.start()
    assert process.wait(60) == 1
    errors = process.stderr.read().strip().splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("bat-client: ")
    assert str(config.data) in errors[0]
    assert _children() <= others


def test_a_missing_model_is_one_clear_line(hospital: Hospital) -> None:
    shutil.rmtree(hospital.root / "model")
    process = hospital.start()
    assert process.wait(30) == 1
    assert "initial_adapter.safetensors" in process.stderr.read()


def test_an_interrupted_bank_goes_on_and_a_full_one_is_kept(hospital: Hospital) -> None:
    config = hospital.write(states=9, data=make(hospital.root / "sites")["ct"])
    states = config.bank_folder / "states"
    others = _children()
    process = hospital.start("bank", "build")
    until(lambda: states.exists() and any(states.rglob("*.state")))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 1
    assert process.stderr.read().strip().splitlines()[-1] == "bat-client: interrupted"
    until(lambda: _children() <= others)

    process = hospital.start("bank", "build")
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert "bank filled: 9 states of 3 patients in snapshot 1" in output
    with StageBank.open(config.bank_folder, config.open_vault()) as bank:
        latest = bank.latest_snapshot()
        assert latest is not None
        assert len({row.track for row in latest.rows}) == 3

    process = hospital.start("bank", "build")
    output, _ = process.communicate(timeout=60)
    assert output.strip() == "the bank is full already: 9 states"


def _children() -> set[psutil.Process]:
    """All processes under this one; those of other tests may be among them."""
    return set(psutil.Process().children(recursive=True))
