"""The federation as it is deployed: real processes, real sockets, rounds of zero steps."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from common.adapter import decode_adapter, l2_norm
from common.audit import verify_folder
from common.ledger import read_ledger
from common.messages import Release, verify_message
from common.signing import VerifyKey
from deploy.supervision import Component
from tests.e2e.federation import federation


@pytest.mark.timeout(180)
def test_two_sites_complete_two_rounds_and_everything_is_on_record() -> None:
    others = psutil.Process().children(recursive=True)
    with federation() as running:
        processes = [child for child in psutil.Process().children(recursive=True) if child not in others]
        done = running.run(running.settings(rounds=2))
        assert done.returncode == 0, done.stderr
        assert "round 2 of 2" in done.stdout

        run = running.directory
        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [record["round"] for record in metrics] == [0, 1, 2]
        assert all(record["promoted"] and not record["absent"] for record in metrics[1:])
        assert "server ledger holds" in verify_folder(run, VerifyKey.from_hex((run / "server.pub").read_text()))

        for name, site in running.sites.items():
            key = VerifyKey.from_hex(running.keys[name])
            assert "site ledger holds" in verify_folder(site.state, key)
            kinds = [event.kind for event in read_ledger(site.ledger_file)]
            assert kinds.count("prescription_accepted") == kinds.count("release") == 2
            received = (run / "rounds" / "2" / "releases" / f"{name}.json").read_bytes()
            assert received == (site.outbox / "e2e" / "2" / "release.json").read_bytes()
            assert verify_message(received, Release, key).round == 2
            update = decode_adapter((site.outbox / "e2e" / "2" / "update.safetensors").read_bytes())
            assert l2_norm(update) == 0.0, "zero steps release the adapter unchanged"
            for socket in (site.relay_socket, site.admin_socket):
                assert stat.S_IMODE(socket.stat().st_mode) == 0o600

        assert _command("client.cli", "status", running.root / "north.toml").returncode == 0
        assert _command("client.cli", "stop", running.root / "north.toml").returncode == 0
        assert _ends(_component(running.supervisor.components, "daemon-north"), 10) == 0
        again = running.run(running.settings(rounds=1))
        assert again.returncode == 1
        assert again.stderr.strip().splitlines() == [
            f"bat-server: there is a run already ({running.root}/runs/e2e). Choose another run name."
        ]
    # Flower's own helpers notice the end of their parent within seconds.
    _, alive = psutil.wait_procs(processes, timeout=15)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.timeout(180)
def test_a_site_that_is_gone_is_reported_and_the_others_go_on() -> None:
    with federation() as running:
        daemon = _component(running.supervisor.components, "daemon-south")
        daemon.process.send_signal(signal.SIGTERM)
        assert _ends(daemon, 10) == 0
        assert not running.sites["south"].relay_socket.exists()
        assert [event.kind for event in read_ledger(running.sites["south"].ledger_file)][-1] == "daemon_stopped"
        done = running.run(running.settings(quorum=1, enrolment_timeout_s=12))
        assert done.returncode == 0, done.stderr
        record = json.loads((running.directory / "metrics.jsonl").read_text().splitlines()[1])
        assert [release["site"] for release in record["releases"]] == ["north"]
        assert list(record["absent"]) == ["south"]


@pytest.mark.timeout(120)
def test_an_interrupted_run_ends_on_the_superlink_too_and_is_on_record() -> None:
    with federation(["north"]) as running:
        process = running.start(running.settings(rounds=50))
        ledger = running.directory / "ledger.jsonl"
        deadline = time.monotonic() + 60
        while not (ledger.exists() and any(event.kind == "aggregate" for event in read_ledger(ledger))):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[1].strip() == "bat-server: interrupted"
        assert process.returncode == 1
        while list(read_ledger(ledger))[-1].kind != "run_end":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert list(read_ledger(ledger))[-1].body["reason"] == "the run was stopped"
        assert "server ledger holds" in verify_folder(running.directory)


def test_a_server_without_a_superlink_says_so_in_one_line(tmp_path: Path) -> None:
    from tests.e2e.federation import Federation, tiny_model

    tiny_model(tmp_path / "model")
    running = Federation(tmp_path, None, 9, {}, {"north": "ab" * 32})  # type: ignore[arg-type]
    done = running.run(running.settings())
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr + done.stdout


def _command(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env={**os.environ})


def _component(components: list[Component], name: str) -> Component:
    component = next(component for component in components if component.name == name)
    components.remove(component)
    return component


def _ends(component: Component, timeout_s: float) -> int | None:
    deadline = time.monotonic() + timeout_s
    while component.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return component.process.poll()
