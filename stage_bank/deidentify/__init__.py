"""DICOM objects without their patients: allow-lists per SOP class, keyed pseudonyms, pixels checked for text.

This package reads files with parts of `stage_bank.ingest`, which calls it in turn. So ingest is loaded first, and its
modules import from `stage_bank.deidentify.dataset`, never from this page.
"""

import stage_bank.ingest  # noqa: F401
from stage_bank.deidentify.dataset import MODALITIES, deidentify, remap_uid

__all__ = ["MODALITIES", "deidentify", "remap_uid"]
