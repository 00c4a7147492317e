"""DICOM in, pictures of pseudonymous patients out: walk, read, identify, de-identify, render, report, keep."""

from stage_bank.deidentify.dataset import deidentify
from stage_bank.dicom.identifiers import collect_identifiers
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.folder import IngestResult, PatientImage, ingest_folder
from stage_bank.ingest.hooks import PictureSource, References, SeriesSlice, SeriesSource
from stage_bank.ingest.report import FileReport, IngestReport, SeriesReport, Status
from stage_bank.ingest.site_map import SiteMap

__all__ = [
    "FileReport",
    "IngestReport",
    "IngestResult",
    "PatientImage",
    "PictureSource",
    "Reason",
    "References",
    "SeriesReport",
    "SeriesSlice",
    "SeriesSource",
    "SiteMap",
    "Status",
    "collect_identifiers",
    "deidentify",
    "ingest_folder",
]
