"""The run report and its machine-readable summary, made from the run directory alone."""

from server.report._page import render
from server.report._read import read_run
from server.report._write import REPORT_FILE, SUMMARY_FILE, summary, write_practice, write_report, write_summary
from server.report.record import (
    GateRecord,
    Practice,
    ReleaseRecord,
    RoundRecord,
    RunRecord,
    Scores,
    SealedScores,
    SiteRecord,
)

__all__ = [
    "REPORT_FILE",
    "SUMMARY_FILE",
    "GateRecord",
    "Practice",
    "ReleaseRecord",
    "RoundRecord",
    "RunRecord",
    "Scores",
    "SealedScores",
    "SiteRecord",
    "read_run",
    "render",
    "summary",
    "write_practice",
    "write_report",
    "write_summary",
]
