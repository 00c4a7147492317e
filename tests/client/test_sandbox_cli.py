"""`bat-client sandbox exec`: one snippet, its receipt, and a folder that ends as the rollout left it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.errors import SigningError
from common.sandbox import Language, Receipt
from common.signing import VerifyKey

FIELDS = set(Receipt.__dataclass_fields__)


def execute(folder: Path, code: str, language: str = "python", *options: str) -> subprocess.CompletedProcess[str]:
    snippet = folder.parent / "snippet"
    snippet.write_text(code)
    command = ["sandbox", "exec", "--language", language, "--code-file", str(snippet), "--workspace", str(folder)]
    return subprocess.run([sys.executable, "-m", "client.cli", *command, *options], capture_output=True, text=True)


def receipt_of(done: subprocess.CompletedProcess[str]) -> tuple[Receipt, dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    own = {name: value for name, value in fields.items() if name in FIELDS}
    return Receipt(**{**own, "language": Language(own["language"])}), fields


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "sub").mkdir(parents=True)
    (made / "a.txt").write_text("old")
    (made / "sub" / "b").write_text("b")
    return made


def test_the_receipt_is_signed_and_the_folder_ends_as_the_rollout_left_it(folder: Path) -> None:
    code = (
        "import os; os.mkdir('new'); open('new/x', 'w').write('x'); open('a.txt', 'w').write('new'); os.remove('sub/b')"
    )
    receipt, fields = receipt_of(execute(folder, code))
    assert receipt.succeeded
    receipt.verify(VerifyKey.from_hex(fields["public_key"]))
    assert receipt.digest == fields["digest"]
    assert (fields["created"], fields["modified"], fields["deleted"]) == (["new/x"], ["a.txt"], ["sub/b"])
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == ["a.txt", "new/x"]
    assert (folder / "a.txt").read_text() == "new"
    forged = Receipt(**{**receipt.__dict__, "exit_status": 1})
    with pytest.raises(SigningError):
        forged.verify(VerifyKey.from_hex(fields["public_key"]))


@pytest.mark.parametrize(
    ("language", "code", "options", "expected"),
    [
        ("bash", "exit 7", (), {"exit_status": 7, "timed_out": False}),
        ("bash", "sleep 30", ("--timeout", "0.3"), {"exit_status": -9, "timed_out": True}),
        ("python", "raise ValueError('mine')", (), {"exit_status": 1, "timed_out": False}),
        ("bash", "bat frobnicate", (), {"exit_status": 2, "timed_out": False}),
    ],
)
def test_a_failing_snippet_is_a_receipt(
    folder: Path, language: str, code: str, options: tuple[str, ...], expected: dict[str, Any]
) -> None:
    _, fields = receipt_of(execute(folder, code, language, *options))
    assert {name: fields[name] for name in expected} == expected


def test_the_snippet_sees_the_folder_and_nothing_around_it(folder: Path) -> None:
    (folder.parent / "secret").write_text("secret")
    (folder / "link").symlink_to(folder.parent / "secret")
    code = f"cat {folder.parent}/secret link; ls; cat /etc/shadow; ls /home /root; echo $HOME; env | grep -c PATH"
    receipt, _ = receipt_of(execute(folder, code, "bash"))
    assert "secret" not in receipt.output.replace(f"{folder.parent}/secret", "")
    assert "a.txt" in receipt.output


def test_nothing_is_written_through_a_link(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "out").symlink_to(outside)
    done = execute(folder, "import os; os.makedirs('out'); open('out/kept', 'w').write('taken')")
    assert done.returncode == 1
    assert "cannot write a file of the workspace" in done.stderr
    assert (outside / "kept").read_text() == "kept"
    assert os.listdir(outside) == ["kept"]


@pytest.mark.parametrize("missing", ["--code-file", "--workspace"])
def test_what_is_missing_is_one_clear_line(folder: Path, missing: str) -> None:
    done = execute(folder, "exit", "bash", missing, "/no/such/place")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "/no/such/place" in done.stderr


def test_a_folder_larger_than_a_workspace_is_refused(folder: Path) -> None:
    with (folder / "large").open("wb") as stream:
        stream.truncate(17 << 20)
    done = execute(folder, "exit", "bash")
    assert done.returncode == 1
    assert "a workspace 16777216" in done.stderr
