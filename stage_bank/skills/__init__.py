"""The stage skills: what an agent may run or import inside the sandbox. Needs numpy and scipy and nothing else of ours.

On the command line it is `bat` (see `stage_bank.skills.cli`); in Python a whole pipeline is

    from stage_bank.skills import inspect_workspace, Pipeline, run_case

One file a track holds its methods and estimators and ends in its `SKILL`; `toolbox.SKILLS` lists them.
"""

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
    LEVELS,
    POLARITIES,
    POLARITY_CHOICE,
    ROWS,
    Array,
    Measured,
    Output,
    SkillError,
)
from .case import SPARE, Case, display, parse_case, polarity_of, read_case, read_pixels
from .delivery import ORIENTATIONS, Form
from .faults import FAULTS, LABEL_MAP, NOMINAL_SPACING, find_fault, load, load_right, mend
from .image_form import decode_image, encode_image
from .inspection import Inspection, inspect_workspace
from .mask_form import decode_mask, encode_mask
from .pipeline import Pipeline, read_pipeline, read_repair, run_case
from .skill import NO_EXEMPLARS, PIXEL_FAULTS, Exemplars, TrackSkill
from .toolbox import SKILLS
from .workspace import Workspace, open_workspace, task_document

__all__ = [
    "COLUMNS",
    "DELIVERIES",
    "FAULTS",
    "LABEL_MAP",
    "LEVELS",
    "NOMINAL_SPACING",
    "NO_EXEMPLARS",
    "ORIENTATIONS",
    "PIXEL_FAULTS",
    "POLARITIES",
    "POLARITY_CHOICE",
    "ROWS",
    "SKILLS",
    "SPARE",
    "WAVE_CYCLES",
    "Array",
    "Case",
    "Exemplars",
    "Form",
    "Inspection",
    "Measured",
    "Output",
    "Pipeline",
    "SkillError",
    "TrackSkill",
    "Workspace",
    "decode_image",
    "decode_mask",
    "display",
    "encode_image",
    "encode_mask",
    "field_band",
    "field_part",
    "find_fault",
    "inspect_workspace",
    "load",
    "load_right",
    "mend",
    "open_workspace",
    "parse_case",
    "polarity_of",
    "profile_wave",
    "read_case",
    "read_pipeline",
    "read_pixels",
    "read_repair",
    "run_case",
    "size_band",
    "task_document",
    "wave_part",
    "without_field",
    "without_waves",
]
