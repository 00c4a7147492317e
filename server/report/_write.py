"""Writing `report.html` and `summary.json` into a run directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from common.audit import verify_folder
from common.canonical import Json
from common.errors import LedgerError
from server.report._page import render
from server.report._read import PRACTICE_FILE, read_run
from server.report.record import Practice, RoundRecord, RunRecord
from server.run_directory import write_file, write_json

__all__ = ["REPORT_FILE", "SUMMARY_FILE", "summary", "write_practice", "write_report", "write_summary"]

REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"


def write_practice(run: Path, sites: Iterable[Practice]) -> None:
    """Keep what the sites' own files say, for the report; only where one person runs sites and server, as in the demo.

    Raises:
        OSError: the disk is full or not writable.
    """
    rows: dict[str, Json] = {
        one.site: {"rewards": [round(reward, 4) for reward in one.rewards], "bank_wait_s": one.bank_wait_s}
        for one in sites
    }
    write_json(run / PRACTICE_FILE, rows)


def write_report(run: Path) -> Path:
    """Draw the report of a run, however far it came, into its directory.

    Returns:
        Path of the page.

    Raises:
        ConfigurationError: it is not a run directory, or it cannot be read.
    """
    page = run / REPORT_FILE
    record = read_run(run)
    write_file(page, render(record, _doubt(run, record)).encode(errors="backslashreplace"))
    return page


def _doubt(run: Path, record: RunRecord) -> str:
    """Why a complete run does not verify. While a run goes on its files may be ahead of the ledger."""
    if not record.complete:
        return ""
    try:
        verify_folder(run)
    except LedgerError as error:
        return str(error)
    return ""


def write_summary(run: Path, *, wall_s: float, peak_rss_mb: float) -> Path:
    """Write the run's figures for machines.

    Args:
        run: the run directory.
        wall_s: elapsed seconds of everything, set-up of the sites included.
        peak_rss_mb: largest resident memory of all processes together, in MB (10^6 bytes).

    Returns:
        Path of the file.

    Raises:
        ConfigurationError: it is not a run directory, or it cannot be read.
    """
    path = run / SUMMARY_FILE
    write_json(path, summary(read_run(run), wall_s=wall_s, peak_rss_mb=peak_rss_mb))
    return path


def summary(record: RunRecord, *, wall_s: float, peak_rss_mb: float) -> dict[str, Json]:
    """The figures of a run as one JSON object; what was not reached is null."""
    sealed = record.sealed
    return {
        "run": record.run,
        "seed": record.seed,
        "complete": record.complete,
        "cold_start_overall": sealed.cold_start if sealed else None,
        "final_overall": sealed.final if sealed else None,
        "oracle_overall": sealed.oracle if sealed else None,
        "fixed_script_overall": sealed.fixed_script if sealed else None,
        "gate_suite_cold_start_overall": record.start.overall if record.start else None,
        "rounds": [_round(one) for one in record.rounds],
        "releases": [dict(release.__dict__) for release in record.releases],
        "bank_wait_s": max((one.bank_wait_s for one in record.practice), default=None),
        "differential_privacy": record.differential_privacy,
        "wall_s": round(wall_s, 1),
        "peak_rss_mb": round(peak_rss_mb, 1),
        "versions": dict(record.versions),
    }


def _round(one: RoundRecord) -> dict[str, Json]:
    scores = one.candidate
    return {
        "round": one.number,
        "target_stage": one.target.value,
        "overall": scores.overall if scores else None,
        "task": scores.task if scores else None,
        "stage_scores": {stage.value: score for stage, score in scores.stages.items()} if scores else None,
        "promoted": one.gate.promoted if one.gate else None,
        "wall_s": one.wall_s,
    }
