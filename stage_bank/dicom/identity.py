"""Who a file belongs to: issuer and patient ID, as a keyed pseudonym, or the reason why nobody can tell.

The privacy unit is the patient, so an identity that might join two people, or split one, is quarantined.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydicom.dataset import Dataset
from pydicom.multival import MultiValue

from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["Identity", "conflicts", "pseudonym", "read_identity", "series_pseudonym"]

_PLACEHOLDERS = frozenset(
    {
        "ANON", "ANONYM", "ANONYMIZED", "ANONYMISED", "ANONYMOUS", "DEFAULT", "DEIDENTIFIED", "DUMMY",
        "EMPTY", "ID", "NA", "NAN", "NIL", "NO", "NOID", "NONE", "NONAME", "NOTAVAILABLE", "NULL",
        "PATIENT", "PATIENTID", "PHANTOM", "QA", "REMOVED", "TBD", "TEMP", "TEST", "TESTPATIENT",
        "UNDEFINED", "UNKNOWN", "XX",
    }
)  # fmt: skip
_COUNTING = "01234567890"


@dataclass(frozen=True)
class Identity:
    """The identifying header values of one file, normalised.

    Args:
        issuer: issuer of the patient ID, upper case; empty when absent.
        patient_id: patient ID, upper case, without spaces at the ends.
        name: letters and digits of the patient name, case-folded; empty when blank.
        birth_date: as written; empty when blank.
        sex: M or F; empty otherwise.
        study: study instance UID; empty when absent.
    """

    issuer: str
    patient_id: str
    name: str
    birth_date: str
    sex: str
    study: str

    @property
    def key(self) -> tuple[str, str]:
        """What makes a patient: issuer and ID."""
        return self.issuer, self.patient_id


def pseudonym(site_key: bytes, identity: Identity) -> str:
    """The patient's keyed pseudonym: HMAC-SHA-256 over issuer and ID, first 128 bits as 32 hex digits."""
    message = b"\0".join([b"patient", identity.issuer.encode(), identity.patient_id.encode()])
    return hmac.new(site_key, message, hashlib.sha256).hexdigest()[:32]


def series_pseudonym(site_key: bytes, uid: str, name: str) -> str:
    """The keyed pseudonym of a series, 32 hex digits; of a file by its name, where the UID is empty."""
    message = uid or "file\0" + name
    return hmac.new(site_key, b"series\0" + message.encode(), hashlib.sha256).hexdigest()[:32]


def read_identity(dataset: Dataset) -> Identity:
    """The patient of one file.

    Raises:
        Refused: the ID is blank, a placeholder, or several.
    """
    value = dataset.get("PatientID")
    if isinstance(value, MultiValue):
        raise Refused(Reason.SEVERAL_PATIENTS)
    patient_id = _text(value).upper()
    if not patient_id:
        raise Refused(Reason.NO_PATIENT)
    if _is_placeholder(patient_id):
        raise Refused(Reason.PLACEHOLDER)
    return Identity(
        issuer=_text(dataset.get("IssuerOfPatientID")).upper(),
        patient_id=patient_id,
        name=re.sub(r"\W", "", _text(dataset.get("PatientName")).casefold()),
        birth_date=_text(dataset.get("PatientBirthDate")),
        sex=sex if (sex := _text(dataset.get("PatientSex")).upper()) in ("M", "F") else "",
        study=_text(dataset.get("StudyInstanceUID")),
    )


def conflicts(identities: Iterable[Identity]) -> Mapping[tuple[str, str], Reason]:
    """Patients whose files contradict each other, with the reason.

    Two non-blank names, birth dates or sexes under one ID may be two people; a study under two IDs may be one person.
    """
    facts: dict[tuple[str, str], tuple[set[str], set[str], set[str]]] = defaultdict(lambda: (set(), set(), set()))
    owners: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for identity in identities:
        for seen, value in zip(facts[identity.key], (identity.name, identity.birth_date, identity.sex), strict=True):
            seen.add(value)
        owners[identity.study].add(identity.key)
    found = {key: Reason.CONFLICT for key, sets in facts.items() if any(len(seen - {""}) > 1 for seen in sets)}
    for study, keys in owners.items():
        if study and len(keys) > 1:
            found.update(dict.fromkeys(keys, Reason.SHARED_STUDY))
    return found


def _text(value: object) -> str:
    return "" if value is None else str(value).strip(" \t\r\n\0")


def _is_placeholder(patient_id: str) -> bool:
    core = re.sub(r"[\W_]", "", patient_id)
    return (
        len(set(core)) <= 1  # only punctuation, or one character repeated: 0000, XXXX
        or core in _PLACEHOLDERS
        or (len(core) >= 3 and core in _COUNTING)  # 123, 123456, 0123456789
    )
