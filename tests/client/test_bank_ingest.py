import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from client.cli import main
from stage_bank.ingest.store import ImageStore
from tests.client.hospital import Hospital, until
from tests.stage_bank.dicom_files import ct, picture, write


@pytest.fixture
def hospital(tmp_path) -> Hospital:
    return Hospital(tmp_path)


def store(hospital: Hospital) -> ImageStore:
    return ImageStore.open(hospital.root / "state" / "images", hospital.root / "state" / "bank.key")


def test_images_reach_the_store_and_left_out_files_are_named(hospital, capsys):
    write(ct("P-1"), hospital.root / "dicom" / "1.dcm")
    write(ct(""), hospital.root / "dicom" / "blank.dcm")
    (hospital.root / "dicom" / "note.txt").write_text("x")
    assert main(["bank", "ingest", str(hospital.file)]) == 0
    said = capsys.readouterr().out
    assert "quarantined: blank.dcm: patient ID is blank" in said
    assert "refused: note.txt: not DICOM" in said
    assert len(store(hospital).patients()) == 1
    report = json.loads((hospital.root / "state" / "ingest_report.json").read_text())
    assert report["counts"] == {"taken": 1, "spare": 0, "refused": 1, "quarantined": 1}
    version = store(hospital).version()
    assert main(["bank", "ingest", str(hospital.file)]) == 0
    assert store(hospital).version() == version


def test_another_folder_and_a_map(hospital, tmp_path):
    write(ct(""), tmp_path / "elsewhere" / "1.dcm")
    (tmp_path / "map.csv").write_text("kind,value,unit\nfile,1.dcm,X\n")
    words = ["bank", "ingest", str(hospital.file), str(tmp_path / "elsewhere"), "--map", str(tmp_path / "map.csv")]
    assert main([*words, "--report", str(tmp_path / "report.json")]) == 0
    assert json.loads((tmp_path / "report.json").read_text())["images"] == 1


def test_nothing_to_take_is_one_line_and_not_zero(hospital, capsys):
    (hospital.root / "dicom").mkdir()
    assert main(["bank", "ingest", str(hospital.file)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "empty" in error


def test_watching_waits_until_a_study_is_quiet_and_goes_on_after_a_bad_one(hospital):
    folder = hospital.root / "dicom"
    words = ["bank", "ingest", str(hospital.file), "--watch", "--interval", "0.1", "--quiet-for", "1"]
    watcher = subprocess.Popen([sys.executable, "-m", "client.cli", *words], stdout=subprocess.PIPE, text=True)
    try:
        (folder / "bad").mkdir(parents=True)
        (folder / "bad" / "note.txt").write_text("x")
        time.sleep(1.5)
        whole = write(ct("P-1", picture(1)), hospital.root / "whole").read_bytes()
        with (folder / "slow.dcm").open("wb") as stream:
            for start in range(0, len(whole), len(whole) // 6 + 1):
                stream.write(whole[start : start + len(whole) // 6 + 1])
                stream.flush()
                os.fsync(stream.fileno())
                time.sleep(0.3)
        until(lambda: (hospital.root / "state" / "images" / "index" / "0.sealed").exists())
        assert len(store(hospital).patients()) == 1
        assert "truncated" not in str(store(hospital).latest_report())
        write(ct("P-2", picture(2)), folder / "next" / "2.dcm")
        until(lambda: len(store(hospital).patients()) == 2)
    finally:
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(20) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_unpacked_images_do_not_outlive_a_signal(hospital, tmp_path, number):
    (hospital.root / "dicom").mkdir()
    (tmp_path / "temporary").mkdir()
    image = write(ct("P-1"), tmp_path / "image").read_bytes()
    with zipfile.ZipFile(hospital.root / "dicom" / "study.zip", "w") as archive:
        for member in range(3000):
            archive.writestr(f"{member}", image)
    words = [sys.executable, "-m", "client.cli", "bank", "ingest", str(hospital.file)]
    process = subprocess.Popen(words, env={**os.environ, "TMPDIR": str(tmp_path / "temporary")}, stderr=subprocess.PIPE)
    until(lambda: any(path.is_file() for path in (tmp_path / "temporary").rglob("*")), 60)
    process.send_signal(number)
    assert process.wait(60) == 1
    assert process.stderr.read() == b"bat-client: interrupted\n"
    assert not any((tmp_path / "temporary").iterdir())


def test_a_file_name_cannot_speak_to_the_terminal(hospital, capsys):
    write(ct("P-1"), hospital.root / "dicom" / "1.dcm")
    (hospital.root / "dicom" / "a\x1b[31m\nrefused: other.dcm").write_text("x")
    assert main(["bank", "ingest", str(hospital.file)]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "refused: a\\x1b[31m\\nrefused: other.dcm: not DICOM" in said.splitlines()
