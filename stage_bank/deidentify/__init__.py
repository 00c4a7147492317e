"""DICOM objects without their patients: allow-lists per SOP class, keyed pseudonyms, pixels checked for text."""

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
