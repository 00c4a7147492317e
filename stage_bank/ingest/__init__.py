"""DICOM in, pictures of pseudonymous patients out: walk, read, identify, de-identify, render, report."""

from stage_bank.deidentify.dataset import deidentify
from stage_bank.ingest.folder import IngestResult, PatientImage, ingest_folder
from stage_bank.ingest.identifiers import collect_identifiers
from stage_bank.ingest.report import FileReport, IngestReport, Reason, Status

__all__ = [
    "FileReport",
    "IngestReport",
    "IngestResult",
    "PatientImage",
    "Reason",
    "Status",
    "collect_identifiers",
    "deidentify",
    "ingest_folder",
]
