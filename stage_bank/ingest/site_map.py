"""The site's own word on who is who: a CSV that maps files, studies or patient IDs to privacy units."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydicom.dataset import Dataset

from common.errors import ConfigurationError
from stage_bank.dicom.identity import Identity
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["SiteMap"]

_KINDS = ("file", "study", "patient")
_ISSUER = "\0site map"
"""No header can hold it, so that a unit never meets an issuer of the same name."""


@dataclass(frozen=True)
class SiteMap:
    """Units by file name, study instance UID and patient ID; the more exact one decides.

    Args:
        units: `(kind, value)` to unit, kind being file, study or patient.
    """

    units: Mapping[tuple[str, str], str]

    @classmethod
    def load(cls, path: Path) -> SiteMap:
        """Read a CSV with the columns `kind`, `value` and `unit`.

        Raises:
            ConfigurationError: unreadable, other columns, an unknown kind, an empty field, or one value in two units.
        """
        units: dict[tuple[str, str], str] = {}
        try:
            with path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.DictReader(stream)
                if not {"kind", "value", "unit"} <= set(reader.fieldnames or ()):
                    raise ConfigurationError("a site map has the columns kind, value, unit", where=str(path))
                for line, row in enumerate(reader, start=2):
                    kind, value, unit = ((row[name] or "").strip() for name in ("kind", "value", "unit"))
                    if kind not in _KINDS or not value or not unit:
                        raise ConfigurationError("kind is file, study or patient", where=f"{path}, line {line}")
                    if units.setdefault((kind, value), unit) != unit:
                        raise ConfigurationError("one value has two units", where=f"{path}, line {line}")
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigurationError("cannot read the site map", where=str(path), remedy="Save as UTF-8.") from error
        return cls(units)

    def identity(self, name: str, dataset: Dataset) -> Identity | None:
        """The mapped identity of a file; `None` when the map does not mention it.

        Raises:
            Refused: its study or patient ID is several values, of which one is mapped.
        """
        study, patient = (str(dataset.get(key) or "").strip(" \0") for key in ("StudyInstanceUID", "PatientID"))
        found = (self.units.get(pair) for pair in (("file", name), ("study", study), ("patient", patient)))
        unit = next((unit for unit in found if unit is not None), None)
        if unit is None:
            return None
        if "\\" in study:
            raise Refused(Reason.DAMAGED)
        return Identity(_ISSUER, unit, name="", birth_date="", sex="", study=study)
