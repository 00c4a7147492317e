"""DICOM objects without their patients: allow-lists per SOP class, keyed pseudonyms, pixels checked for text.

This package reads files with parts of `stage_bank.ingest`, which calls it in turn. So ingest is loaded first, and its
modules import from `stage_bank.deidentify.dataset`, never from this page.
"""

import stage_bank.ingest  # noqa: F401
from stage_bank.deidentify.dataset import MODALITIES, Deidentified, Options, deidentify, deidentify_with, remap_uid
from stage_bank.deidentify.faces import FaceCheck
from stage_bank.deidentify.profiles import Profile, ProfileName, open_profile
from stage_bank.deidentify.text import TextCheck

__all__ = [
    "MODALITIES",
    "Deidentified",
    "FaceCheck",
    "Options",
    "Profile",
    "ProfileName",
    "TextCheck",
    "deidentify",
    "deidentify_with",
    "open_profile",
    "remap_uid",
]
