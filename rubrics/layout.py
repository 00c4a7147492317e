"""Where the workflow leaves its artifacts in a workspace, and which stage owns them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = [
    "BATCH",
    "CHECK",
    "INPUTS",
    "INSPECT",
    "PILOT",
    "PILOT_RECORD",
    "PIPELINE",
    "PLAN",
    "PLAN_PICTURE",
    "PLAN_TEXT",
    "SETUP",
    "SUBMISSION",
    "SUBMITTED",
    "VERIFY",
    "case_of",
    "cases_of",
    "is_input",
    "under",
]

INPUTS = ("task.json", "cases/", "exemplars/")
"""What the agent is given; nothing of it may change."""

INSPECT = "process/inspect.json"
PLAN_TEXT = "plan/plan.md"
PLAN_PICTURE = "plan/plan.png"
PIPELINE = "plan/pipeline.json"
PLAN = (PIPELINE, PLAN_TEXT, PLAN_PICTURE)
CHECK = "process/check.json"
SETUP = "process/setup.json"
PILOT_RECORD = "process/pilot.json"
PILOT = "process/pilot"
VERIFY = "process/verify.json"
BATCH = "process/batch"
SUBMITTED = "agents_outputs"
SUBMISSION = "submission.json"


def is_input(path: str) -> bool:
    """Whether a workspace path belongs to what the agent was given."""
    return path == INPUTS[0] or path.startswith(INPUTS[1:])


def under(folder: str, digests: Mapping[str, str]) -> dict[str, str]:
    """The entries below a folder."""
    return {path: digest for path, digest in digests.items() if path.startswith(folder + "/")}


def case_of(path: str, folder: str) -> str:
    """The case an output below `folder` belongs to: its first path component."""
    return path[len(folder) + 1 :].split("/", 1)[0]


def cases_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Sorted case names of a set of input paths `cases/<case>/...`."""
    return tuple(sorted({path.split("/", 2)[1] for path in paths if path.startswith("cases/") and path.count("/") > 1}))
