"""The two ways to de-identify: dates moved and keyed UIDs, or no dates and random UIDs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydicom.dataset import Dataset

from common.errors import ConfigurationError
from stage_bank.deidentify.clock import Clock, patient_clock
from stage_bank.deidentify.names import KeyedNames, Names, RandomNames
from stage_bank.dicom.identity import Identity, read_identity
from stage_bank.dicom.read import Refused

__all__ = ["Profile", "ProfileName", "open_profile"]


class ProfileName(StrEnum):
    """The profiles by name."""

    MODIFIED_DATES = "modified-dates"
    SAFE_HARBOR = "safe-harbor"


@dataclass(frozen=True)
class Profile:
    """What varies between the profiles; everything else is the same in both.

    Args:
        name: which one.
        names: stand-ins for UIDs and patients.
        site_key: secret of the site, from which each patient's date offset is derived.
    """

    name: ProfileName
    names: Names
    site_key: bytes

    def clock(self, identity: Identity | None) -> Clock:
        """What happens to the dates of a patient; dates of nobody in particular go."""
        moves = self.name is ProfileName.MODIFIED_DATES and identity is not None
        return patient_clock(self.site_key, identity) if moves and identity else Clock(None)

    def patient(self, identity: Identity | None) -> str:
        """The patient's stand-in; empty for nobody in particular."""
        return self.names.patient(identity) if identity else ""


def open_profile(name: ProfileName, site_key: bytes, table: Path | None = None) -> Profile:
    """A profile, ready for use.

    Args:
        name: which one.
        site_key: secret of the site, at least 16 bytes.
        table: where `safe-harbor` keeps its random names; not used by the other.

    Raises:
        ConfigurationError: `safe-harbor` without a table, or a short key.
    """
    if len(site_key) < 16:
        raise ConfigurationError("the key has fewer than 16 bytes", remedy="Let the program make one.")
    if name is ProfileName.MODIFIED_DATES:
        return Profile(name, KeyedNames(site_key), site_key)
    if table is None:
        raise ConfigurationError("the safe-harbor profile needs a file for its table of random UIDs")
    return Profile(name, RandomNames(table, site_key), site_key)


def identity_of(dataset: Dataset) -> Identity | None:
    """The patient, or `None` when the header names none that can be told apart."""
    try:
        return read_identity(dataset)
    except Refused:
        return None
