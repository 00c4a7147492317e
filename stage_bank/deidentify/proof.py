"""The last look before anything is written: no string of the original header is in the new one."""

from __future__ import annotations

import io
import re

from pydicom.dataset import Dataset, FileDataset
from pydicom.uid import PYDICOM_IMPLEMENTATION_UID

from stage_bank.deidentify.allowlists import vocabularies
from stage_bank.deidentify.kinds import DUMMY
from stage_bank.deidentify.marks import METHOD, OPTIONS
from stage_bank.dicom.identifiers import collect_identifiers
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["checked_bytes"]

_SHORTEST = 8
"""Shorter strings occur by chance."""
_DATE = re.compile(r"\d{8}")


@quiet()
def checked_bytes(original: FileDataset, clean: FileDataset) -> tuple[bytes, int]:
    """The bytes of the new object, and how many strings of the original were looked for in its header.

    Raises:
        Refused: one was found, which is a defect of the lists; nothing may be written.
    """
    strings = {text for text in collect_identifiers(original) if len(text) >= _SHORTEST and not _DATE.fullmatch(text)}
    public = _public(clean)
    wanted = [text for text in strings if text not in public]
    stream = io.BytesIO()
    clean.save_as(stream, enforce_file_format=True)
    data = stream.getvalue()
    header = data[: len(data) - len(clean.get("PixelData") or b"")]
    if any(text.encode("utf-8", "surrogateescape") in header for text in wanted):
        raise Refused(Reason.LEFT_OVER)
    return data, len(wanted)


def _public(clean: Dataset) -> str:
    """Everything in the new object that is the same for all patients, as one text."""
    codes = [
        str(element.value)
        for element in clean.iterall()
        if element.keyword in ("CodeMeaning", "CodeValue")
        or (element.VR == "UI" and element.value.startswith("1.2.840."))
    ]
    fixed = [METHOD, DUMMY, PYDICOM_IMPLEMENTATION_UID, *OPTIONS.values(), *vocabularies()]
    return "\n".join([*fixed, *codes])
