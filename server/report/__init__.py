"""The run report and its machine-readable summary, made from the run directory alone."""

from server.report._page import render
from server.report.record import (
    GateRecord,
    ReleaseRecord,
    RoundRecord,
    RunRecord,
    Scores,
    SealedScores,
    SiteRecord,
)

__all__ = [
    "GateRecord",
    "ReleaseRecord",
    "RoundRecord",
    "RunRecord",
    "Scores",
    "SealedScores",
    "SiteRecord",
    "render",
]
