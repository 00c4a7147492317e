"""The site's pictures on their way to the builder: from the store, in turns, within a bound of memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from client.site_images import PatientTurns
from common.errors import DataError
from deploy.sample_sites import make
from stage_bank.ingest import PatientImage
from stage_bank.ingest.store import ImageStore
from stage_bank.picture import Picture
from stage_bank.store import StageBank, Vault
from tests.client.hospital import Hospital


def image(patient: int, brightness: float) -> PatientImage:
    return PatientImage(f"{patient:032x}", Picture(np.full((64, 64), brightness, np.float32)), "0" * 32)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    made = ImageStore(tmp_path / "images", Vault(bytes(32)))
    made.add([image(patient, (3 * patient + part) / 10) for patient in range(3) for part in range(2)])
    return made


@pytest.mark.parametrize("cache_bytes", [0, 64 * 64 * 4 * 2, 10**9])
def test_patients_take_turns_with_their_own_pictures_whatever_is_kept(store: ImageStore, cache_bytes: int) -> None:
    turns = PatientTurns(store, lambda _: False, cache_bytes)
    for number in range(9):
        patient, pictures = turns.turn(number)
        assert patient == store.patients()[number % 3]
        expected = [picture.pixels for picture in store.pictures(patient)]
        assert all(np.array_equal(got.pixels, want) for got, want in zip(pictures, expected, strict=True))
        assert turns._held_bytes() <= max(cache_bytes, 64 * 64 * 4 * 2)


def test_left_out_pictures_are_never_given_and_a_patient_of_only_those_is_passed_over(store: ImageStore) -> None:
    turns = PatientTurns(
        store, lambda picture: float(picture.pixels[0, 0]) < 0.35
    )  # all of patient 0, one of patient 1
    given = [turns.turn(number) for number in range(6)]
    assert {patient for patient, _ in given} == {f"{1:032x}", f"{2:032x}"}
    assert all(float(picture.pixels[0, 0]) >= 0.35 for _, pictures in given for picture in pictures)
    assert len(turns.turn(1)[1]) == 1
    with pytest.raises(DataError, match="held-out"):
        PatientTurns(store, lambda _: True).turn(0)


def test_the_bank_is_built_from_what_was_ingested_with_the_sites_own_identities(hospital: Hospital) -> None:
    """One map puts all files under one patient; a second look at the headers would make three of them."""
    folder = make(hospital.root / "sites")["mr"]
    config = hospital.write(states=6, data=folder)
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    table = hospital.root / "map.csv"
    table.write_text("kind,value,unit\n" + "".join(f"file,{file},one\n" for file in files))
    mapped = hospital.start("bank", "ingest", "--map", str(table))
    output, errors = mapped.communicate(timeout=90)
    assert mapped.returncode == 0, errors
    assert "the store holds 1 patients" in output
    shutil.rmtree(folder)
    build = hospital.start("bank", "build")
    output, errors = build.communicate(timeout=120)
    assert build.returncode == 0, errors
    with StageBank.open(config.bank_folder, config.open_vault()) as bank:
        assert bank.stats().patients == 1
