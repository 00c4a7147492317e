import multiprocessing
import os
import stat
from pathlib import Path

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigurationError
from stage_bank.deidentify import ProfileName, open_profile, remap_uid
from stage_bank.deidentify.names import KeyedNames, RandomNames
from stage_bank.dicom.identity import Identity
from tests.stage_bank.dicom_files import KEY

PATIENT = Identity("ISSUER", "A-17", "", "", "", "")


@given(st.text(max_size=80))
def test_every_text_becomes_a_valid_uid_that_says_nothing_of_it(text):
    uid = remap_uid(text, KEY)
    assert pydicom.uid.UID(uid).is_valid
    assert uid.startswith("2.25.")
    assert len(uid) <= 64


def test_random_names_stay_the_same_in_a_table_and_differ_between_tables(tmp_path):
    first, again = RandomNames(tmp_path / "t", KEY), RandomNames(tmp_path / "t", KEY)
    other = RandomNames(tmp_path / "u", KEY)
    uid = first.uid("1.2.3")
    assert uid == again.uid("1.2.3 ") == first.uid("1.2.3")
    assert uid != other.uid("1.2.3")
    assert uid != KeyedNames(KEY).uid("1.2.3")
    assert first.patient(PATIENT) == again.patient(PATIENT)
    assert len(first.patient(PATIENT)) == 32
    assert pydicom.uid.UID(uid).is_valid


def test_the_table_holds_no_original_and_is_private(tmp_path):
    names = RandomNames(tmp_path / "t", KEY)
    names.uid("1.2.777.4711")
    names.patient(PATIENT)
    data = (tmp_path / "t").read_bytes()
    assert b"4711" not in data
    assert b"A-17" not in data
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600


def _draw(table: str) -> list[str]:
    names = RandomNames(Path(table), KEY)
    return [names.uid(f"1.2.{number}") for number in range(40)]


def test_processes_that_share_a_table_agree(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.map(_draw, [os.fspath(tmp_path / "t")] * 3)
    assert results[0] == results[1] == results[2]
    assert len(set(results[0])) == 40


def test_a_foreign_file_and_a_missing_table_are_refused(tmp_path):
    (tmp_path / "t").write_bytes(b"not a database, but longer than a header of one" * 40)
    with pytest.raises(ConfigurationError):
        RandomNames(tmp_path / "t", KEY)
    with pytest.raises(ConfigurationError):
        open_profile(ProfileName.SAFE_HARBOR, KEY)
    with pytest.raises(ConfigurationError):
        open_profile(ProfileName.MODIFIED_DATES, b"short")
