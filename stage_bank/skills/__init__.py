"""The stage skills: what an agent may run or import inside the sandbox. Needs numpy and scipy and nothing else of ours.

On the command line it is `bat` (see `stage_bank.skills.cli`); in Python a whole pipeline is

    from stage_bank.skills import inspect_workspace, Pipeline, run_case
"""

from . import classification, enhancement, segmentation
from ._patterns import (
    WAVE_CYCLES,
    field_band,
    field_part,
    profile_wave,
    size_band,
    wave_part,
    without_field,
    without_waves,
)
from ._words import (
    COLUMNS,
    DELIVERIES,
    FAULTS,
    LEVELS,
    POLARITIES,
    POLARITY_CHOICE,
    ROWS,
    Array,
    Measured,
    SkillError,
)
from .delivery import FILE_NAMES, LABEL_SCHEMES, ORIENTATIONS, Output, decode, encode, requested, restore, turn
from .inspection import Inspection, inspect_workspace
from .loading import Case, display, fill_missing, find_fault, mend, polarity_of, read_case
from .pipeline import Pipeline, read_pipeline, read_repair, run_case
from .toolbox import SKILLS, TrackSkill
from .workspace import Workspace, open_workspace, task_document

__all__ = [
    "COLUMNS",
    "DELIVERIES",
    "FAULTS",
    "FILE_NAMES",
    "LABEL_SCHEMES",
    "LEVELS",
    "ORIENTATIONS",
    "POLARITIES",
    "POLARITY_CHOICE",
    "ROWS",
    "SKILLS",
    "WAVE_CYCLES",
    "Array",
    "Case",
    "Inspection",
    "Measured",
    "Output",
    "Pipeline",
    "SkillError",
    "TrackSkill",
    "Workspace",
    "classification",
    "decode",
    "display",
    "encode",
    "enhancement",
    "field_band",
    "field_part",
    "fill_missing",
    "find_fault",
    "inspect_workspace",
    "mend",
    "open_workspace",
    "polarity_of",
    "profile_wave",
    "read_case",
    "read_pipeline",
    "read_repair",
    "requested",
    "restore",
    "run_case",
    "segmentation",
    "size_band",
    "task_document",
    "turn",
    "wave_part",
    "without_field",
    "without_waves",
]
