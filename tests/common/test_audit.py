"""`bat-audit` on folders from elsewhere: whoever made them also made and signed their ledgers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from common.audit_cli import main
from common.canonical import Json, digest_bytes
from common.ledger import GENESIS, Event, Ledger
from common.signing import SigningKey

KEY = SigningKey.generate()
DIGEST = "0" * 64


def ledger(folder: Path, kind: str, body: Json) -> None:
    """A run of two events in `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_bytes(b"")
    writer = Ledger(folder / "ledger.jsonl", KEY)
    writer.append("run_start", {"settings": digest_bytes(b""), "sites": {"a": KEY.public.hex}})
    writer.append(kind, body)
    writer.close()


def refused(folder: Path, capsys: pytest.CaptureFixture[str], command: str = "verify") -> str:
    assert main([command, str(folder)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bat-audit: ")
    return line


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("release_received", {"round": 1}),
        ("aggregate", {}),
        ("run_end", [1]),
        ("release_received", {"round": 1, "site": "a\0b", "release": DIGEST}),
    ],
)
def test_an_event_that_names_no_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, body: Json
) -> None:
    ledger(tmp_path, kind, body)
    refused(tmp_path, capsys)


@pytest.mark.parametrize(
    "changes",
    [
        {"signer": 5},
        {"kind": ["a"]},
        {"kind": "x\x1b[31m\nserver ledger holds"},
        {"time_unix": "now"},
        {"time_unix": 10**400},
        {"sequence": "0"},
        {"sequence": True},
    ],
)
@pytest.mark.parametrize("command", ["verify", "show"])
def test_an_event_of_wrong_types_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], command: str
) -> None:
    event = Event(**{**Event(0, 1.0, "gate", {}, GENESIS, KEY.public.hex, "").__dict__, **changes})
    signed = {**event.to_json(), "signature": KEY.sign_json(event.signed_part())}
    (tmp_path / "ledger.jsonl").write_text(json.dumps(signed, sort_keys=True, ensure_ascii=False) + "\n")
    assert "not a ledger event" in refused(tmp_path, capsys, command)


def test_a_file_outside_the_folder_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("content")
    digest = digest_bytes(b"content")
    for number, site in enumerate(("../../../../outside", str(outside.with_suffix("")))):
        folder = tmp_path / str(number)
        (folder / "rounds" / "1" / "releases").mkdir(parents=True)
        ledger(folder, "release_received", {"round": 1, "site": site, "release": digest})
        assert "outside the folder" in refused(folder, capsys)
    linked = tmp_path / "linked"
    ledger(linked, "run_end", {"adapter": digest})
    (linked / "adapter.safetensors").symlink_to(outside)
    assert "outside the folder" in refused(linked, capsys)


@pytest.mark.parametrize("plant", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")])
def test_a_pipe_or_device_does_not_hold_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plant: Callable[[Path], None]
) -> None:
    ledger(tmp_path, "run_end", {"adapter": DIGEST})
    plant(tmp_path / "adapter.safetensors")
    refused(tmp_path, capsys)
    (tmp_path / "ledger.jsonl").unlink()
    plant(tmp_path / "ledger.jsonl")
    refused(tmp_path, capsys)


def test_a_ledger_that_another_key_wrote_anew_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger(tmp_path, "round_held", {"reason": "no quorum"})
    (tmp_path / "server.pub").write_text(KEY.public.hex + "\n")
    assert main(["verify", str(tmp_path)]) == 0
    (tmp_path / "server.pub").write_text(SigningKey.generate().public.hex + "\n")
    capsys.readouterr()
    assert "another key" in refused(tmp_path, capsys)


@pytest.mark.parametrize("first", ["daemon_started", "gate"])
def test_a_ledger_of_a_site_or_without_its_beginning_is_none_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str
) -> None:
    (tmp_path / "rounds").mkdir()
    writer = Ledger(tmp_path / "ledger.jsonl", KEY)
    writer.append(first, {})
    writer.close()
    assert "does not begin with run_start" in refused(tmp_path, capsys)


def test_a_run_s_ledger_holds_no_event_of_a_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger(tmp_path, "daemon_started", {})
    assert "events of a site: daemon_started" in refused(tmp_path, capsys)


@pytest.mark.parametrize(
    "plant",
    [
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b'{"round": 0'),
        lambda path: path.write_bytes(b"\xff\0" * (8 << 20)),
        lambda path: path.mkdir(),
    ],
    ids=["pipe", "device", "empty", "truncated", "huge", "folder"],
)
@pytest.mark.parametrize("kind", ["metrics", "sealed"])
def test_figures_in_a_strange_file_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plant: Callable[[Path], None], kind: str
) -> None:
    ledger(tmp_path, kind, {"round": 0, "line": DIGEST, "sealed": DIGEST})
    plant(tmp_path / {"metrics": "metrics.jsonl", "sealed": "sealed.json"}[kind])
    refused(tmp_path, capsys)


@pytest.mark.parametrize("kind", ["metrics", "sealed", "evaluation", "gate", "release_received"])
@pytest.mark.parametrize("body", [{}, [], None, {"files": [], "line": [], "sealed": None, "round": {}, "site": "a"}])
def test_an_event_without_its_digests_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, body: Json
) -> None:
    ledger(tmp_path, kind, body)
    refused(tmp_path, capsys)


def test_the_last_sealed_result_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger(tmp_path, "sealed", {"sealed": digest_bytes(b"first")})
    (tmp_path / "sealed.json").write_bytes(b"second")
    refused(tmp_path, capsys)
    again = Ledger(tmp_path / "ledger.jsonl", KEY)
    again.append("sealed", {"sealed": digest_bytes(b"second")})
    again.close()
    assert main(["verify", str(tmp_path)]) == 0
