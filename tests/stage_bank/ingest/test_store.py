import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import BankError
from stage_bank.ingest import PatientImage, ingest_folder
from stage_bank.ingest.store import ImageStore
from stage_bank.picture import Picture
from tests.stage_bank.dicom_files import KEY, ct, picture, write


def image(patient: str = "a" * 32, seed: int = 0, findings: bool = False) -> PatientImage:
    pixels = np.random.default_rng(seed).random((48, 50), dtype=np.float32)
    mask = pixels > 0.5 if findings else None
    return PatientImage(patient, Picture(pixels, mask, {"modality": "CT"}), "b" * 32)


def open_store(root: Path) -> ImageStore:
    return ImageStore.open(root / "images", root / "bank.key")


@pytest.mark.parametrize("findings", [False, True])
def test_what_was_added_comes_back_as_it_was(tmp_path, findings):
    original = image(findings=findings)
    assert open_store(tmp_path).add([original], {"Doe^Peter"}) == 1
    store = open_store(tmp_path)
    (found,) = store.pictures("a" * 32)
    np.testing.assert_array_equal(found.pixels, original.picture.pixels)
    assert (found.findings is None) == (not findings)
    if findings:
        np.testing.assert_array_equal(found.findings, original.picture.findings)
    assert found.facts == {"modality": "CT"}
    assert found.pixels.dtype == np.float32
    assert store.patients() == ("a" * 32,)
    assert store.identifiers() == {"Doe^Peter"}


def test_adding_the_same_again_changes_nothing(tmp_path):
    store = open_store(tmp_path)
    empty = store.version()
    store.add([image(seed=1), image(seed=2)], {"Doe"})
    version = store.version()
    assert store.add([image(seed=2), image(seed=1)], {"Doe"}) == 0
    assert store.version() == version != empty
    assert store.add([image(seed=3)]) == 1
    assert store.version() != version


def test_equal_pictures_of_two_patients_stay_two(tmp_path):
    store = open_store(tmp_path)
    assert store.add([image("a" * 32), image("c" * 32)]) == 2
    assert len(store.pictures("a" * 32)) == len(store.pictures("c" * 32)) == 1
    assert len(list((tmp_path / "images" / "objects").rglob("*/*"))) == 2


def test_nothing_readable_lies_on_disk_and_others_have_no_rights(tmp_path):
    write(ct("MRN-471199", PatientName="Doe^Peter"), tmp_path / "dicom" / "secret-name.dcm")
    result = ingest_folder(tmp_path / "dicom", KEY)
    store = open_store(tmp_path)
    store.add(result.images, result.identifiers)
    store.record(result.report)
    files = [path for path in (tmp_path / "images").rglob("*") if path.is_file()]
    words = [b"MRN-471199", b"Doe", b"Peter", b"secret-name", b"CT", result.images[0].patient.encode()]
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        assert not any(word in file.read_bytes() for word in words[:4] + words[5:])
        assert not any(word.decode() in str(file.relative_to(tmp_path)) for word in words[:4] + words[5:])
    assert store.latest_report() == result.report.to_json()
    assert "MRN-471199" in store.identifiers()


def test_another_key_a_changed_byte_and_a_lost_page_are_reported(tmp_path):
    store = open_store(tmp_path)
    for seed in range(3):
        store.add([image(seed=seed)])
    with pytest.raises(BankError):
        ImageStore.open(tmp_path / "images", tmp_path / "other.key").patients()
    page = tmp_path / "images" / "index" / "1.sealed"
    sealed = page.read_bytes()
    page.write_bytes(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    with pytest.raises(BankError):
        store.patients()
    page.unlink()
    with pytest.raises(BankError, match="missing"):
        store.patients()
    page.write_bytes(sealed)
    next((tmp_path / "images" / "objects").rglob("*/*")).unlink()
    with pytest.raises(BankError, match="missing"):
        store.pictures("a" * 32)


def test_pages_cannot_be_exchanged(tmp_path):
    store = open_store(tmp_path)
    for seed in range(2):
        store.add([image(seed=seed)])
    first, second = (tmp_path / "images" / "index" / f"{number}.sealed" for number in (0, 1))
    first.write_bytes(second.read_bytes())
    with pytest.raises(BankError):
        store.patients()


def test_one_writer_at_a_time_and_readers_meanwhile(tmp_path):
    store = open_store(tmp_path)
    store.add([image(seed=0)])

    def slowly():
        yield image(seed=1)
        assert len(open_store(tmp_path).pictures("a" * 32)) == 1
        with pytest.raises(BankError, match="another process"):
            open_store(tmp_path).add([image(seed=2)])

    assert store.add(slowly()) == 1
    assert len(store.pictures("a" * 32)) == 2


def test_a_failure_while_images_arrive_leaves_the_last_addition(tmp_path):
    store = open_store(tmp_path)
    store.add([image(seed=0)])
    version = store.version()

    def breaking():
        yield image(seed=1)
        raise RuntimeError("the source died")

    with pytest.raises(RuntimeError):
        store.add(breaking())
    assert store.version() == version
    assert store.add([image(seed=1)]) == 1


_WRITER = """
import sys
from pathlib import Path
from tests.stage_bank.ingest.test_store import image, open_store
store = open_store(Path(sys.argv[1]))
for number in range(10_000):
    store.add([image(seed=2 * number), image(seed=2 * number + 1)], {f"word {number}"})
    print(number, flush=True)
"""


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0.0, 0.15))
def test_a_kill_at_any_point_leaves_whole_additions(tmp_path_factory, delay):
    root = tmp_path_factory.mktemp("killed")
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(root)], stdout=subprocess.PIPE, cwd=os.getcwd())
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"0\n"
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    said = writer.stdout.read().split()
    writer.wait()
    store = open_store(root)
    count = len(store.identifiers())
    assert count >= int(said[-1]) + 1 if said else count >= 1
    pictures = store.pictures("a" * 32)
    assert len(pictures) == 2 * count
    for number, found in enumerate(pictures):
        np.testing.assert_array_equal(found.pixels, image(seed=number).pixels)
    assert store.add([image(seed=2 * count)]) == 1


def test_ingest_feeds_the_store(tmp_path):
    for number in range(3):
        write(ct(f"Z-{number}", picture(number)), tmp_path / "dicom" / f"{number}")
    result = ingest_folder(tmp_path / "dicom", KEY)
    store = open_store(tmp_path)
    assert store.add(result.images, result.identifiers) == 3
    assert set(store.patients()) == {image.patient for image in result.images}
