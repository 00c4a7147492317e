"""`bat-client sandbox exec`: one snippet, its receipt, and a folder that ends as the rollout left it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.cli import main
from common.sandbox import Language, Receipt
from common.signing import SigningKey, VerifyKey

FIELDS = set(Receipt.__dataclass_fields__)


def execute(folder: Path, code: str, language: str = "python", *options: str) -> subprocess.CompletedProcess[str]:
    snippet = folder.parent / "snippet"
    snippet.write_text(code)
    command = ["sandbox", "exec", "--language", language, "--code-file", str(snippet), "--workspace", str(folder)]
    return subprocess.run([sys.executable, "-m", "client.cli", *command, *options], capture_output=True, text=True)


Verified = tuple[int, str, str]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Callable[..., Verified]:
    """Exit status, output and errors of `sandbox verify`."""

    def run(document: Path, *options: str) -> Verified:
        status = main(["sandbox", "verify", str(document), *options])
        return status, *capsys.readouterr()

    return run


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
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("x", "new", "b")}
    assert fields["created"] == {"new/x": digests["x"]}
    assert fields["modified"] == {"a.txt": digests["new"]}
    assert fields["deleted"] == {"sub/b": digests["b"]}
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == ["a.txt", "new/x"]
    assert (folder / "a.txt").read_text() == "new"


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another status": lambda fields: {**fields, "exit_status": 1},
    "a file more": lambda fields: {**fields, "created": {"x": "0" * 64}},
    "modified as created": lambda fields: {**fields, "created": fields["modified"], "modified": {}},
    "another digest of the code": lambda fields: {**fields, "code_sha256": "0" * 64},
    "another backend": lambda fields: {**fields, "opening": {**fields["opening"], "backend": "none"}},
    "no closing": lambda fields: {name: value for name, value in fields.items() if name != "closing"},
    "a field more": lambda fields: {**fields, "note": "honest"},
    "a number as text": lambda fields: {**fields, "exit_status": "0"},
    "another key": lambda fields: {**fields, "public_key": SigningKey.generate().public.hex},
    "no key": lambda fields: {**fields, "public_key": None},
    "a list": lambda fields: [fields],
}


def test_the_printed_receipt_is_verified_by_a_command(folder: Path, verify: Callable[..., Verified]) -> None:
    key_file = folder.parent / "key"
    done = execute(folder, "echo new > a.txt", "bash", "--key-file", str(key_file))
    fields = json.loads(done.stdout)
    assert fields["public_key"] == SigningKey.load(key_file).public.hex
    document = folder.parent / "receipt.json"
    document.write_text(done.stdout)
    for options in ((), ("--key", fields["public_key"])):
        status, said, wrong = verify(document, *options)
        assert (status, wrong) == (0, "")
        assert fields["public_key"] in said
    assert verify(document, "--key", SigningKey.generate().public.hex)[0] == 1
    assert verify(document, "--key", "abc")[0] == 1
    for forge in FORGERIES.values():
        document.write_text(json.dumps(forge(fields)))
        status, said, wrong = verify(document)
        assert (status, said, len(wrong.splitlines())) == (1, "", 1)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"[" * 100_000, None])
def test_what_is_no_receipt_is_one_clear_line(
    tmp_path: Path, content: bytes | None, verify: Callable[..., Verified]
) -> None:
    document = tmp_path / "receipt.json"
    if content is not None:
        document.write_bytes(content)
    status, said, wrong = verify(document)
    assert (status, said, len(wrong.splitlines())) == (1, "", 1)


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
