"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.files import write_durably, writing

LIMITED = """
import resource, signal, sys
from pathlib import Path
from common.files import write_durably
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_durably(Path(sys.argv[1]), bytes(5000))
except OSError as error:
    print(type(error).__name__)
"""


def test_the_content_is_replaced_and_private_unless_asked_otherwise(tmp_path: Path) -> None:
    write_durably(tmp_path / "key", b"old")
    write_durably(tmp_path / "key", b"new")
    write_durably(tmp_path / "page", b"open", mode=0o644)
    assert (tmp_path / "key").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o644 & ~umask
    assert sorted(os.listdir(tmp_path)) == ["key", "page"]


def test_no_room_leaves_the_old_content_and_no_partial_file(tmp_path: Path) -> None:
    write_durably(tmp_path / "state", b"old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "state")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "OSError"
    assert (tmp_path / "state").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


def test_a_failed_write_names_what_and_where(tmp_path: Path) -> None:
    place = tmp_path / "nowhere" / "sheet.png"
    with (
        pytest.raises(ConfigurationError, match=r"cannot write the sheet.*nowhere.*No such file"),
        writing("the sheet", place),
    ):
        place.write_bytes(b"")


def test_a_planted_link_or_file_does_not_receive_the_content(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "key.partial").symlink_to(victim)
    write_durably(tmp_path / "key", b"secret")
    assert victim.read_text() == "precious"
    (tmp_path / "key.partial").write_text("left by a crash")
    (tmp_path / "key.partial").chmod(0o666)
    write_durably(tmp_path / "key", b"secret")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
