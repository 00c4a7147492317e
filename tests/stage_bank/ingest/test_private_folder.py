"""Unpacked images outlive neither an orderly end nor a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stage_bank.ingest.private_folder import private_folder

_HOLDER = """
import sys, time
from stage_bank.ingest.private_folder import private_folder
with private_folder() as folder:
    (folder / "slice.dcm").write_text("DOE^JANE")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    """A process with a private folder under `tmp_path`; ends when its input is closed."""
    command = [sys.executable, "-c", _HOLDER]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_after_a_kill_the_next_start_removes_what_was_left(
    holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = _folder_of(holder)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (left / "slice.dcm").exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder() as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_and_a_stranger_s_stay(
    holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = _folder_of(holder)
    stranger = tmp_path / "bat-ingest-link"
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o700)
    stranger.symlink_to(kept)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder():
        assert (used / "slice.dcm").exists()
    assert kept.is_dir()
    holder.communicate("")
    assert not used.exists()
