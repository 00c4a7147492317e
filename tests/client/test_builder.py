"""The bank builder beside the daemon: rounds are answered from the first snapshot on, and the bank grows meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from client.site_config import SiteConfig
from common.ledger import read_ledger
from deploy.sample_sites import make
from stage_bank.store import StageBank
from stage_bank.store.checkup import check_bank
from tests.client.hospital import Hospital, until


def builders() -> list[psutil.Process]:
    """The builder processes of this test's daemons."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # ended meanwhile
            found += [child] if "client.builder" in child.cmdline() else []
    return found


def states(config: SiteConfig) -> int:
    with StageBank.open(config.bank_folder, config.open_vault()) as bank:
        return bank.stats().states


@pytest.fixture
def growing(hospital: Hospital) -> SiteConfig:
    return hospital.write(states=48, data=make(hospital.root / "sites")["ct"], first_snapshot=3, nice=19)


def test_it_is_ready_at_the_first_snapshot_and_grows_beside_at_low_priority(
    hospital: Hospital, growing: SiteConfig
) -> None:
    daemon = hospital.start()
    until(growing.admin_socket.exists, 60)
    assert states(growing) < 48
    assert [process.nice() for process in builders()] == [min(19, os.nice(0) + 19)]
    until(lambda: states(growing) == 48, 90)
    until(lambda: not builders())
    daemon.terminate()
    assert daemon.wait(15) == 0
    kept = [event.body for event in read_ledger(growing.ledger_file) if event.kind == "bank_snapshot"]
    assert [snapshot["number"] for snapshot in kept] == list(range(1, len(kept) + 1))
    assert kept[-1]["states"] == 48
    with StageBank.open(growing.bank_folder, growing.open_vault()) as bank:
        latest = bank.latest_snapshot()
        assert latest is not None
        assert latest.digest == kept[-1]["digest"]
        assert check_bank(bank).damaged == ()


def test_a_killed_builder_is_started_again_and_loses_nothing(hospital: Hospital, growing: SiteConfig) -> None:
    daemon = hospital.start()
    until(growing.admin_socket.exists, 60)
    (first,) = builders()
    first.kill()
    until(lambda: any(builder.pid != first.pid for builder in builders()))
    said = growing.progress_file.read_text()
    assert "bank builder ended with status -9, starting again in 1 s" in said
    until(lambda: states(growing) == 48, 90)
    daemon.terminate()
    assert daemon.wait(15) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_builder_ends_with_the_daemon(hospital: Hospital, growing: SiteConfig, number: signal.Signals) -> None:
    daemon = hospital.start()
    until(growing.admin_socket.exists, 60)
    (builder,) = builders()
    os.kill(daemon.pid, number)
    daemon.wait(15)
    until(lambda: not builder.is_running() or builder.status() == psutil.STATUS_ZOMBIE)
    reread = hospital.start("bank", "verify")
    output, errors = reread.communicate(timeout=60)
    assert reread.returncode == 0, errors
    assert "0 damaged" in output


def test_the_bank_commands(hospital: Hospital, tmp_path: Path) -> None:
    config = hospital.write(states=18, data=make(hospital.root / "sites")["mr"])

    def run(*words: str) -> tuple[int, str]:
        process = hospital.start("bank", *words)
        output, errors = process.communicate(timeout=90)
        return process.returncode, output + errors

    assert run("stats") == (1, f"bat-client: no Stage Bank here ({config.bank_folder}). "
                               "Fill it with `bat-client bank build`.\n")  # fmt: skip
    assert run("build")[0] == 0
    stats = json.loads(run("stats")[1])
    assert (stats["states"], stats["snapshot"]) == (18, 1)
    assert run("verify") == (0, "18 states whole in 1 snapshots, 0 damaged\n")
    with StageBank.open(config.bank_folder, config.open_vault()) as bank:
        latest = bank.latest_snapshot()
        assert latest is not None
        damaged = bank.file(latest.rows[0].state_id)
        whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    status, said = run("verify")
    assert status == 1
    assert f"damaged: encrypted with another key, or changed ({latest.rows[0].state_id})" in said
    damaged.write_bytes(whole)
