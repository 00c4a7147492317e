"""The whole demonstration, small: every process, one round of one step, sealed suite, report, audit."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from common.audit_cli import main as bat_audit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    suites = [sys.executable, "-m", "server.cli", "suites", "--out", str(folder / "suites"), "--cells", "1"]
    subprocess.run(suites, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=300)
    sizes = {"--rounds": 1, "--steps": 1, "--states": 12, "--cells": 1}
    command = [sys.executable, "-m", "deploy.demo", "--plain", "--seed", "5"]
    command += ["--runs", str(folder / "runs"), "--suites", str(folder / "suites")]
    command += [str(part) for pair in sizes.items() for part in pair]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "runs").iterdir()
    (path / "screen.txt").write_text(done.stdout)
    return path


def test_the_screen_says_what_happened(run: Path) -> None:
    screen = (run / "screen.txt").read_text()
    assert screen.count("Differential privacy is OFF") == 2
    for text in (
        "ct: reading images",
        "held-out overall of the cold start",
        "step 1/1 reward",
        "sealed suite",
        str(run),
    ):
        assert text in screen


def test_the_summary_is_complete(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    assert summary["complete"] is True
    assert summary["seed"] == 5
    assert summary["oracle_overall"] == pytest.approx(1.0, abs=1e-6)
    assert 0.0 <= summary["cold_start_overall"] <= 1.0
    assert 0.0 <= summary["fixed_script_overall"] <= 0.65
    assert [one["round"] for one in summary["rounds"]] == [1]
    assert sorted(release["site"] for release in summary["releases"]) == ["ct", "mr", "xray"]
    assert summary["wall_s"] > 0
    assert 0 < summary["peak_rss_mb"] < 6000
    assert json.loads((run / "status.json").read_text())["state"] == "complete"


def test_the_report_shows_every_release(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "does not agree with its signed record" not in page
    assert all(one["digest"] in page for one in json.loads((run / "summary.json").read_text())["releases"])


@pytest.mark.parametrize("folder", ["", "sites/ct", "sites/mr", "sites/xray"])
def test_every_ledger_verifies(run: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bat_audit(["verify", str(run / folder)]) == 0
    assert "ledger holds" in capsys.readouterr().out


def test_nothing_runs_on(run: Path) -> None:
    assert [
        process.pid for process in psutil.process_iter(["cmdline"]) if str(run) in str(process.info["cmdline"])
    ] == []
