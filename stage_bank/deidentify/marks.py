"""What a de-identified object says about its de-identification: only what was really done."""

from __future__ import annotations

from dataclasses import dataclass

from pydicom.dataset import Dataset

from stage_bank.deidentify.structured import code

__all__ = ["OPTIONS", "Done", "mark"]

OPTIONS = {
    "113100": "Basic Application Confidentiality Profile",
    "113101": "Clean Pixel Data Option",
    "113102": "Clean Recognizable Visual Features Option",
    "113103": "Clean Graphics Option",
    "113104": "Clean Structured Content Option",
    "113105": "Clean Descriptors Option",
    "113107": "Retain Longitudinal Temporal Information Modified Dates Option",
    "113108": "Retain Patient Characteristics Option",
}
"""Codes of PS3.16 CID 7050 that are used here, with their meanings."""

METHOD = "Allow-list per SOP class, values rebuilt, pixels rewritten"


@dataclass(frozen=True)
class Done:
    """What was done to one object.

    Args:
        text_searched: every frame was searched for text, and what was found is blank.
        text_share: share of the picture that was blanked because of text; 0 to 1.
        outside_regions: everything outside the device's image regions was blanked.
        face_removed: the face of a head volume was removed.
        content_cleaned: a report's content tree was cleaned.
        dates_moved: dates are there, moved.
    """

    text_searched: bool = False
    text_share: float = 0.0
    outside_regions: bool = False
    face_removed: bool = False
    content_cleaned: bool = False
    dates_moved: bool = False


def mark(clean: Dataset, done: Done) -> None:
    """Write the attributes of the Patient and SOP Common modules that describe the de-identification."""
    applied = {
        "113100": True,
        "113101": done.text_searched,
        "113102": done.face_removed,
        "113103": True,
        "113104": done.content_cleaned,
        "113105": True,
        "113107": done.dates_moved,
        "113108": "PatientAge" in clean or bool(clean.get("PatientSex")),
    }
    clean.PatientIdentityRemoved = "YES"
    clean.DeidentificationMethod = METHOD
    clean.DeidentificationMethodCodeSequence = [code(key, "DCM", OPTIONS[key]) for key, used in applied.items() if used]
    clean.LongitudinalTemporalInformationModified = "MODIFIED" if done.dates_moved else "REMOVED"
    if done.text_searched:
        clean.BurnedInAnnotation = "NO"
    if done.face_removed:
        clean.RecognizableVisualFeatures = "NO"
