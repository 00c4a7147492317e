"""`bat-ingest` against a server over real sockets."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from stage_bank.ingest import ingest_folder
from stage_bank.ingest.dicomweb import Staging, cli, session
from stage_bank.ingest.dicomweb.session import origin
from tests.stage_bank.dicom_files import KEY, ct, picture
from tests.stage_bank.dicomweb.pacs import (
    HEAD,
    TAIL,
    Pacs,
    filled,
    multipart,
    send,
    send_instance,
    serving,
    settings_file,
    slowly,
    staged,
)


def run(path: Path) -> int:
    return cli.main([str(path)])


def is_instance(handler: BaseHTTPRequestHandler) -> bool:
    return "/instances/" in handler.path


def test_everything_arrives_and_only_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(filled(tmp_path)) as pacs:
        path = settings_file(tmp_path, pacs.url)
        assert run(path) == 0
        assert staged(tmp_path) == pacs.instances
        assert capsys.readouterr().out == "2 studies complete, 4 instances fetched, 0 already there, 0 failed\n"
        pacs.asked.clear()
        assert run(path) == 0
        assert not [line for line in pacs.asked if "/instances/" in line]
        assert "0 instances fetched, 4 already there" in capsys.readouterr().out
    assert not list((tmp_path / "staging/incoming").iterdir())


def test_what_ingest_reads_is_whole_and_nothing_else(tmp_path: Path) -> None:
    with serving(filled(tmp_path)) as pacs:
        assert run(settings_file(tmp_path, pacs.url)) == 0
    result = ingest_folder(tmp_path / "staging/studies", KEY)
    assert result.report.complete
    assert (len(result.images), result.report.patients) == (4, 2)


def test_studies_that_ingest_has_read_may_be_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(filled(tmp_path)) as pacs:
        path = settings_file(tmp_path, pacs.url)
        run(path)
        for file in (tmp_path / "staging/studies/1.1/1.1.1").iterdir():
            file.unlink()
        pacs.add(
            ct("P-1", picture(9), StudyInstanceUID="1.1", SeriesInstanceUID="1.1.1", SOPInstanceUID="1.7"), tmp_path
        )
        capsys.readouterr()
        assert run(path) == 0
        assert "1 instances fetched, 4 already there" in capsys.readouterr().out
        assert {key for key in staged(tmp_path) if key[0] == "1.1"} == {("1.1", "1.1.1", "1.7")}


@pytest.mark.parametrize(
    ("select", "studies"),
    [
        ("", {"1.1", "1.2", "1.3"}),
        ("since = 2025-01-02", {"1.2", "1.3"}),
        ("since = 2025-01-02\nuntil = 2025-01-02", {"1.2"}),
        ('patients = "patients.txt"', {"1.3"}),
        ('modalities = ["MR", "SEG"]', {"1.2"}),
    ],
)
def test_filters_hold_even_when_the_server_ignores_them(tmp_path: Path, select: str, studies: set[str]) -> None:
    (tmp_path / "patients.txt").write_text("P-3\n\nP-9\n")
    pacs = filled(tmp_path, studies=3)
    extra = {"StudyInstanceUID": "1.2", "SeriesInstanceUID": "1.2.2", "SOPInstanceUID": "1.2.2.1", "Modality": "SEG"}
    pacs.add(ct("P-2", picture(5), StudyDate="20250102", **extra), tmp_path)
    with serving(pacs):
        assert run(settings_file(tmp_path, pacs.url, select=select)) == 0
    found = staged(tmp_path)
    assert {key[0] for key in found} == studies
    if "modalities" in select:
        assert set(found) == {("1.2", "1.2.2", "1.2.2.1")}
        assert any("ModalitiesInStudy=MR" in line for line in pacs.asked)


@pytest.mark.parametrize("text", ["P*\n", "P?\n", "a\\b\n", "\n"])
def test_a_list_of_patients_without_meaning_is_refused(tmp_path: Path, text: str, capsys) -> None:
    (tmp_path / "patients.txt").write_text(text)
    with serving(filled(tmp_path)) as pacs:
        assert run(settings_file(tmp_path, pacs.url, select='patients = "patients.txt"')) == 1
    assert "patients.txt" in capsys.readouterr().err
    assert not pacs.asked


@pytest.mark.parametrize("respects_offset", [True, False])
def test_long_lists_come_in_pages_and_end(tmp_path: Path, respects_offset: bool) -> None:
    pacs = filled(tmp_path, studies=1, per_series=1)
    (key, data) = pacs.instances.popitem()
    pacs.instances = {(key[0], key[1], f"1.1.1.{number}"): data for number in range(1, 206)}
    pacs.respects_offset = respects_offset
    pacs.answer = lambda handler: send(handler, 404, b"") if is_instance(handler) else None
    with serving(pacs):
        assert run(settings_file(tmp_path, pacs.url)) == 1
    tried = sum("/instances/" in line for line in pacs.asked)
    assert tried == (205 if respects_offset else 100)


def refused(tmp_path: Path, pacs: Pacs, capsys: pytest.CaptureFixture[str], **extra: str) -> str:
    """What is said when nothing can be had; one line."""
    with serving(pacs):
        assert run(settings_file(tmp_path, pacs.url, **extra)) == 1
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    assert not staged(tmp_path)
    return said


@pytest.mark.parametrize("status", [401, 403])
def test_wrong_credentials_end_the_run_at_once(tmp_path: Path, status: int, capsys) -> None:
    pacs = filled(tmp_path)
    pacs.answer = lambda handler: send(handler, status, b"")
    assert "the server refuses the credentials" in refused(tmp_path, pacs, capsys)
    assert len(pacs.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("at_instance", [False, True])
def test_a_redirect_is_never_followed(tmp_path: Path, status: int, at_instance: bool, capsys) -> None:
    with serving(filled(tmp_path)) as elsewhere:
        pacs = filled(tmp_path)

        def answer(handler: BaseHTTPRequestHandler) -> bool | None:
            if at_instance and not is_instance(handler):
                return None
            place = elsewhere.url.removesuffix("/dicom-web") + handler.path
            return send(handler, status, b"", Location=place)

        pacs.answer = answer
        assert "the server redirects, which is refused" in refused(tmp_path, pacs, capsys)
        assert not elsewhere.asked


def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(filled(tmp_path)) as pacs, serving(Pacs()) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert run(settings_file(tmp_path, pacs.url)) == 0
        assert not proxy.asked


def test_origins() -> None:
    assert origin("https://PACS.example.org/x") == origin("https://pacs.example.org:443/y")
    assert origin("https://pacs.example.org") != origin("http://pacs.example.org:443")
    assert origin("https://pacs.example.org") != origin("https://pacs.example.org.evil.org")


def test_a_server_that_is_gone_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(filled(tmp_path)) as pacs:
        pass
    assert run(settings_file(tmp_path, pacs.url)) == 1
    assert "the server does not answer" in capsys.readouterr().err


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pacs = filled(tmp_path)
    pacs.answer = slowly(3)
    started = time.monotonic()
    assert "the server does not answer" in refused(tmp_path, pacs, capsys)
    assert time.monotonic() - started < 20


def test_an_endless_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(session, "MAX_ANSWER", 100_000)
    pacs = filled(tmp_path)
    body = gzip.compress(b"[" + b" " * 200_000 + b"]")
    pacs.answer = lambda handler: send(handler, 200, body, Content_Encoding="gzip")
    assert "the server's answer is too long" in refused(tmp_path, pacs, capsys)


def once_failing(pacs: Pacs, fail) -> None:
    """Every instance fails the first time it is asked for."""
    seen: set[str] = set()

    def answer(handler: BaseHTTPRequestHandler) -> bool | None:
        if not is_instance(handler) or handler.path in seen:
            return None
        seen.add(handler.path)
        return fail(handler)

    pacs.answer = answer


def hang_up(handler: BaseHTTPRequestHandler) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Type", 'multipart/related; boundary="a-boundary"')
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(multipart(b"x" * 500)[:400])
    handler.close_connection = True
    return True


def half(handler: BaseHTTPRequestHandler) -> bool:
    body = multipart(b"x" * 500)[:-20]
    return send(handler, 200, body, Content_Type='multipart/related; boundary="a-boundary"')


@pytest.mark.parametrize(
    "fail",
    [
        lambda handler: send(handler, 503, b""),
        hang_up,
        half,
        lambda handler: send_instance(handler, b"no DICOM at all"),
    ],
    ids=["busy", "hang up", "cut", "not DICOM"],
)
def test_passing_failures_are_tried_again(tmp_path: Path, fail) -> None:
    pacs = filled(tmp_path)
    once_failing(pacs, fail)
    with serving(pacs):
        assert run(settings_file(tmp_path, pacs.url)) == 0
    assert staged(tmp_path) == pacs.instances


def test_an_instance_that_cannot_be_had_holds_back_its_study_only(tmp_path: Path, capsys) -> None:
    pacs = filled(tmp_path)
    pacs.answer = lambda handler: send(handler, 404, b"") if handler.path.endswith("/1.1.1.2") else None
    with serving(pacs):
        path = settings_file(tmp_path, pacs.url)
        assert run(path) == 1
        assert capsys.readouterr().out.splitlines() == [
            "1 studies complete, 3 instances fetched, 0 already there, 1 failed",
            "failed: instance 1.1.1.2 of study 1.1: the server answers 404",
        ]
        assert {key[0] for key in staged(tmp_path)} == {"1.2"}
        assert set(staged(tmp_path, "incoming")) == {("1.1", "1.1.1", "1.1.1.1")}
        pacs.answer = lambda _: None
        pacs.asked.clear()
        assert run(path) == 0
    assert [line for line in pacs.asked if "/instances/" in line] == [
        "/dicom-web/studies/1.1/series/1.1.1/instances/1.1.1.2"
    ]
    assert staged(tmp_path) == pacs.instances


def test_another_instance_than_asked_for_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pacs = filled(tmp_path)
    wrong = pacs.instances["1.2", "1.2.1", "1.2.1.1"]
    pacs.answer = lambda handler: send_instance(handler, wrong) if handler.path.endswith("/1.1.1.1") else None
    with serving(pacs):
        assert run(settings_file(tmp_path, pacs.url)) == 1
    assert "another instance than asked for" in capsys.readouterr().out
    assert {key[0] for key in staged(tmp_path)} == {"1.2"}


def test_an_instance_too_large_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(filled(tmp_path)) as pacs:
        assert run(settings_file(tmp_path, pacs.url, server="max_instance_bytes = 1000")) == 1
    assert "larger than max_instance_bytes" in capsys.readouterr().out
    assert not staged(tmp_path)
    assert not staged(tmp_path, "incoming")


MEASURED = """
import sys
from stage_bank.ingest.dicomweb.cli import main
status = main(sys.argv[1:])
with open("/proc/self/status") as stream:
    print(next(line.split()[1] for line in stream if line.startswith("VmHWM")))
sys.exit(status)
"""


def test_a_large_instance_takes_little_memory(tmp_path: Path) -> None:
    pacs = filled(tmp_path, studies=1, per_series=1)
    small = pacs.instances["1.1", "1.1.1", "1.1.1.1"]
    blocks, block = 256, bytes(1 << 20)

    def answer(handler: BaseHTTPRequestHandler) -> bool | None:
        if not is_instance(handler):
            return None
        handler.send_response(200)
        handler.send_header("Content-Type", 'multipart/related; boundary="a-boundary"')
        handler.send_header("Content-Length", str(len(HEAD + small + TAIL) + blocks * len(block)))
        handler.end_headers()
        for part in (HEAD, small, *([block] * blocks), TAIL):
            handler.wfile.write(part)
        return True

    pacs.answer = answer
    with serving(pacs):
        command = [sys.executable, "-c", MEASURED, str(settings_file(tmp_path, pacs.url))]
        measured = subprocess.run(command, capture_output=True, text=True, check=True)
    (data,) = staged(tmp_path).values()
    assert len(data) == blocks * len(block) + len(small)
    peak_kib = int(measured.stdout.splitlines()[-1])
    assert peak_kib < 200 << 10  # imports alone take most of it


@pytest.mark.parametrize("uid", ["../../../etc/cron.d/x", "1.2/../../x", "1..2", "", "1.2\x00", "9" * 65, "a.b"])
def test_names_that_are_no_uids_never_become_paths(tmp_path: Path, uid: str) -> None:
    pacs = filled(tmp_path, studies=1)
    data = pacs.instances["1.1", "1.1.1", "1.1.1.1"]
    pacs.instances["1.1", "1.1.1", uid] = data
    pacs.modalities["1.1", uid] = "CT"
    pacs.attributes[uid] = {}
    before = {file for file in tmp_path.parent.rglob("*") if "staging" not in file.parts}
    with serving(pacs):
        assert run(settings_file(tmp_path, pacs.url)) == 0
    assert set(staged(tmp_path)) == {("1.1", "1.1.1", "1.1.1.1"), ("1.1", "1.1.1", "1.1.1.2")}
    assert {file for file in tmp_path.parent.rglob("*") if "staging" not in file.parts} - before <= {
        tmp_path / "ingest.toml"
    }


@pytest.mark.parametrize("body", [b"no JSON", b"{}", b"[1, null]", b'[{"0020000D": 3}]', b'"x"', b"3"])
def test_searches_answered_with_nonsense_crash_nothing(tmp_path: Path, body: bytes, capsys) -> None:
    pacs = filled(tmp_path)
    pacs.answer = lambda handler: send(handler, 200, body, Content_Type="application/dicom+json")
    with serving(pacs):
        run(settings_file(tmp_path, pacs.url))
    assert "Traceback" not in capsys.readouterr().err
    assert not staged(tmp_path)


def test_two_writers_do_not_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(filled(tmp_path)) as pacs, Staging(tmp_path / "staging"):
        assert run(settings_file(tmp_path, pacs.url)) == 1
    assert "another bat-ingest writes here" in capsys.readouterr().err


def test_killed_at_any_point_it_goes_on_where_it_was(tmp_path: Path) -> None:
    pacs = filled(tmp_path, studies=4, per_series=6)
    pacs.answer = lambda handler: time.sleep(0.03)
    with serving(pacs):
        path = settings_file(tmp_path, pacs.url)
        command = [sys.executable, "-m", "stage_bank.ingest.dicomweb.cli", str(path)]
        kills = 0
        while kills < 3:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            before = len(pacs.asked)
            while len(pacs.asked) < before + 9 and process.poll() is None:
                time.sleep(0.005)
            if process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            for key, data in staged(tmp_path).items():
                assert pacs.instances[key] == data  # type: ignore[index]
        assert kills >= 2
        assert run(path) == 0
    assert staged(tmp_path) == pacs.instances
    asked = [line for line in pacs.asked if "/instances/" in line]
    assert len(asked) <= len(pacs.instances) + kills


def test_it_imports_nothing_of_bank_keys_or_trainer() -> None:
    program = "import sys, stage_bank.ingest.dicomweb.cli; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "stage_bank.ingest.dicomweb.pull" in loaded
    banned = (
        "stage_bank.store",
        "stage_bank.ingest.store",
        "common.signing",
        "client",
        "server",
        "torch",
        "trl",
        "peft",
    )
    assert not [name for name in loaded if any(name == ban or name.startswith(ban + ".") for ban in banned)]
