import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from common.errors import FederationError
from deploy.supervision import MemoryMeter, Supervisor

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)

PARENT = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
    " start_new_session=True); print(child.pid, flush=True); time.sleep(600)"
)


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}


def wait_for(path: Path) -> str:
    for _ in range(200):
        if path.exists() and path.read_text().strip():
            return path.read_text().strip()
        time.sleep(0.05)
    raise AssertionError(f"nothing in {path}")


def gone(pid: int) -> bool:
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_leaving_the_block_ends_children_and_their_children(tmp_path: Path) -> None:
    with Supervisor(tmp_path, environment()) as supervisor:
        component = supervisor.start("parent", [sys.executable, "-c", PARENT])
        grandchild = int(wait_for(component.log))
        assert psutil.pid_exists(grandchild)
    assert component.process.returncode is not None
    assert gone(grandchild)


def test_a_stubborn_component_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.supervision.GRACE_S", 0.3)
    with Supervisor(tmp_path, environment()) as supervisor:
        component = supervisor.start("stubborn", [sys.executable, "-c", STUBBORN])
        wait_for(component.log)
    assert gone(component.process.pid)


def test_an_early_end_is_told_with_its_last_words(tmp_path: Path) -> None:
    with Supervisor(tmp_path, environment()) as supervisor:
        component = supervisor.start("daemon-x", [sys.executable, "-c", "print('bat-client: no image'); exit(1)"])
        component.process.wait()
        supervisor.check(besides=component)
        with pytest.raises(FederationError, match=r"^daemon-x: no image$"):
            supervisor.check()


def test_a_missing_program_is_one_clear_error(tmp_path: Path) -> None:
    with Supervisor(tmp_path, environment()) as supervisor, pytest.raises(FederationError, match="cannot start ghost"):
        supervisor.start("ghost", ["/nowhere/ghost"])


def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from deploy.supervision import Supervisor\n"
        f"supervisor = Supervisor(Path({str(tmp_path)!r}), {environment()!r})\n"
        f"supervisor.start('stubborn', [sys.executable, '-c', {STUBBORN!r}])\n"
        "print(supervisor.components[0].process.pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        component = int(process.stdout.readline())
        wait_for(tmp_path / "stubborn.log")
        process.kill()
    assert gone(component)


def test_the_meter_sees_memory_of_children(tmp_path: Path) -> None:
    hog = "data = b'x' * 200_000_000; print('up', flush=True); import time; time.sleep(600)"
    with MemoryMeter(0.05) as meter, Supervisor(tmp_path, environment()) as supervisor:
        wait_for(supervisor.start("hog", [sys.executable, "-c", hog]).log)
        before = meter.peak_bytes
        time.sleep(0.3)
    assert meter.peak_bytes >= max(before, 200_000_000)
