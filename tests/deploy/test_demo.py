"""The demonstration's command line on bad input, as a person meets it: real processes, one clear line, nothing left."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pydicom.data import get_testdata_file

from server.heldout import HeldoutSuite
from tests.e2e.federation import tiny_model

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that passes for a base policy; it is never loaded, as these runs end before."""
    return tiny_model(tmp_path_factory.mktemp("base") / "policy")


@pytest.fixture
def command(tmp_path: Path, policy: Path) -> list[str]:
    for split in ("gate", "sealed"):
        HeldoutSuite(split, ()).save(tmp_path / "suites" / f"{split}.jsonl")
    options = {"--runs": tmp_path / "runs", "--policy": policy, "--suites": tmp_path / "suites", "--states": 18}
    return [sys.executable, "-m", "deploy.demo", "--plain", *(str(part) for pair in options.items() for part in pair)]


def finish(command: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, timeout=120)


def processes_naming(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(line)
    return found


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("demo: ")
    return done.stderr


def status(runs: Path) -> dict[str, object]:
    (run,) = runs.iterdir()
    value: dict[str, object] = json.loads((run / "status.json").read_text())
    return value


def test_a_missing_folder(command: list[str], tmp_path: Path) -> None:
    assert f"cannot read the folder of sites ({tmp_path}/none)" in only_line(
        finish(command, "--sites-root", str(tmp_path / "none"))
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("folders", "says"), [((), "no site folders"), (("a",), "1 site folder in it"), (("a", "b"), "folder is empty")]
)
def test_folders_without_sites_or_files(
    command: list[str], tmp_path: Path, folders: tuple[str, ...], says: str
) -> None:
    for name in ("", *folders):
        (tmp_path / "sites" / name).mkdir(exist_ok=True)
    assert says in only_line(finish(command, "--sites-root", str(tmp_path / "sites")))
    assert not (tmp_path / "runs").exists()


def test_only_text_and_truncated_files(command: list[str], tmp_path: Path) -> None:
    whole = Path(str(get_testdata_file("CT_small.dcm"))).read_bytes()
    for name in ("a", "b"):
        (tmp_path / "sites" / name).mkdir(parents=True)
        (tmp_path / "sites" / name / "notes.txt").write_text("no image\n")
        (tmp_path / "sites" / name / "cut.dcm").write_bytes(whole[:3000])
    line = only_line(finish(command, "--sites-root", str(tmp_path / "sites")))
    assert "no usable image among 2 files" in line
    assert status(tmp_path / "runs")["state"] == "failed"
    assert processes_naming(tmp_path) == []


def test_a_busy_port(command: list[str], tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"port {port} is taken" in only_line(finish(command, "--port", str(port)))
    assert not (tmp_path / "runs").exists()


def on_small_disk(folder: Path, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in its own mount namespace, where `folder` is a disk of its own."""
    user, group = os.geteuid(), os.getegid()
    back = "" if user == 0 else f"unshare --map-user={user} --map-group={group} "
    inside = f"mount -t tmpfs -o size={size},mode=0777 none {folder} && exec {back}sh -c {shlex.quote(script)}"
    namespace = ["unshare", "--mount", *([] if user == 0 else ["--map-root-user"])]
    return subprocess.run([*namespace, "sh", "-c", inside], cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    assert shutil.which("unshare"), "util-linux is missing"
    if on_small_disk(folder, "1m", "true").returncode != 0:
        pytest.skip("this kernel lets no user mount a small disk")
    return folder


def test_a_disk_that_is_full_from_the_start(command: list[str], small_disk: Path) -> None:
    assert "MB free, a run needs" in only_line(on_small_disk(small_disk, "2m", " ".join(command)))


def test_a_disk_that_fills_up_in_the_middle(command: list[str], small_disk: Path) -> None:
    begun = f"ls {small_disk}/*/sites/*/bank >/dev/null 2>&1"
    fill = f"timeout 60 sh -c 'until {begun}; do sleep 0.1; done; cat /dev/zero > {small_disk}/fill' 2>/dev/null"
    script = f"{fill} & {' '.join(command)}; code=$?; cat {small_disk}/*/status.json; exit $code"
    done = on_small_disk(small_disk, "230m", script)
    assert "no space left on the disk" in only_line(done)
    assert json.loads(done.stdout[done.stdout.rindex("{") :])["state"] == "failed"
    assert processes_naming(small_disk) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_and_then_again(command: list[str], tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any("reading images" in line for line in demo.stdout)
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert errors.count("\n") == 1
    assert errors.startswith("demo: interrupted (starting the processes, building the banks)")
    assert status(tmp_path / "runs")["state"] == "interrupted"
    assert processes_naming(tmp_path) == []


def test_status_file_never_grows(tmp_path: Path) -> None:
    from deploy.demo_status import StatusFile

    written = StatusFile(tmp_path)
    written.running("one")
    size = (tmp_path / "status.json").stat().st_size
    written.ended("failed", "x" * 10_000)
    assert (tmp_path / "status.json").stat().st_size == size
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "failed"
    assert time.time() + 0.001 >= json.loads((tmp_path / "status.json").read_text())["updated_unix"]
