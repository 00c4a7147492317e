import os
import stat
import struct
import tempfile
import zipfile
from pathlib import Path

import pytest

from common.errors import DataError
from stage_bank.ingest import Reason, Status, ingest_folder
from tests.stage_bank.dicom_files import KEY, ct, picture, write


@pytest.fixture
def image(tmp_path) -> bytes:
    return write(ct("Z-1", picture(5)), tmp_path / "made" / "x").read_bytes()


@pytest.fixture
def share(tmp_path, image) -> Path:
    folder = tmp_path / "share"
    write(ct("GOOD-1", picture(99)), folder / "good.dcm")
    return folder


def reasons(share: Path) -> dict[str, Reason]:
    return {file.path: file.reason for file in ingest_folder(share, KEY).report.files if file.path != "good.dcm"}


def test_members_are_ingested_without_a_trace_on_a_read_only_share(share, image, monkeypatch, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with zipfile.ZipFile(share / "study.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b/image", image)
        archive.writestr("a/readme.txt", "hello")
    before = {path: path.stat().st_mtime_ns for path in share.rglob("*")}
    share.chmod(0o500)
    assert reasons(share) == {"study.zip/a/b/image": Reason.TAKEN, "study.zip/a/readme.txt": Reason.NOT_DICOM}
    assert {path: path.stat().st_mtime_ns for path in share.rglob("*")} == before
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/out", "..\\out", "C:\\out", "c:out"])
def test_a_path_that_leaves_the_archive_is_refused_by_name(share, image, tmp_path, name):
    with zipfile.ZipFile(share / "slip.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), image)
        archive.writestr("inside", image)
    found = reasons(share)
    assert found.pop("slip.zip/inside") is Reason.TAKEN
    assert list(found.values()) == [Reason.ARCHIVE_PATH]
    assert not list(tmp_path.rglob("*out"))


def test_links_devices_and_archives_inside_are_refused(share, image, tmp_path):
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as inner:
        inner.writestr("image", image)
    with zipfile.ZipFile(share / "odd.zip", "w") as archive:
        for name, kind in (("link", stat.S_IFLNK), ("device", stat.S_IFCHR)):
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
        archive.write(tmp_path / "inner.zip", "renamed.dcm")
        archive.writestr("image", image)
    assert reasons(share) == {
        "odd.zip/link": Reason.ARCHIVE_LINK,
        "odd.zip/device": Reason.ARCHIVE_LINK,
        "odd.zip/renamed.dcm": Reason.ARCHIVE_NESTED,
        "odd.zip/image": Reason.TAKEN,
    }


def test_a_member_packed_too_tightly_is_refused_and_the_rest_read(share, image):
    with zipfile.ZipFile(share / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(64 << 20))
        archive.writestr("image", image)
    assert reasons(share) == {"bomb.zip/zeros": Reason.ARCHIVE_BOMB, "bomb.zip/image": Reason.TAKEN}


def test_a_member_longer_than_it_says_is_refused(share, image):
    place = share / "liar.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(8 << 20))
    raw = place.read_bytes()
    said, lie = struct.pack("<I", 8 << 20), struct.pack("<I", 900_000)
    place.write_bytes(raw.replace(said, lie))
    found = reasons(share)
    assert found["liar.zip/zeros"] in (Reason.ARCHIVE_BOMB, Reason.ARCHIVE)


def test_an_encrypted_member_is_refused(share, image):
    place = share / "locked.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("image", image)
    raw = bytearray(place.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(magic) + offset] |= 1
    place.write_bytes(raw)
    assert reasons(share) == {"locked.zip/image": Reason.ARCHIVE_LOCKED}


@pytest.mark.parametrize("cut", [10, 200, 3000])
def test_a_damaged_archive_is_refused_by_name(share, image, cut):
    place = share / "cut.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("image", image)
    place.write_bytes(place.read_bytes()[:cut])
    assert reasons(share) == {"cut.zip": Reason.ARCHIVE}


def test_a_damaged_member_is_refused_and_the_rest_read(share, image):
    place = share / "study.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("first", image)
        archive.writestr("second", image)
    raw = bytearray(place.read_bytes())
    raw[2000] ^= 0xFF
    place.write_bytes(raw)
    assert reasons(share) == {"study.zip/first": Reason.ARCHIVE, "study.zip/second": Reason.TAKEN}


def test_a_share_of_nothing_but_bad_archives_is_one_clear_error(tmp_path):
    (tmp_path / "noise.zip").write_bytes(b"PK\x03\x04" + os.urandom(500))
    with pytest.raises(DataError, match=r"no usable image among 1 files .*noise\.zip: damaged or unknown archive"):
        ingest_folder(tmp_path, KEY)


def test_refused_members_are_refused_and_not_quarantined(share, image):
    (share / "noise.zip").write_bytes(b"PK\x05\x06")
    (file,) = (file for file in ingest_folder(share, KEY).report.files if file.path == "noise.zip")
    assert file.status is Status.REFUSED


@pytest.mark.parametrize("name", [".", "./.", ""])
def test_a_member_without_a_name_is_refused_and_the_rest_read(share, image, name):
    with zipfile.ZipFile(share / "odd.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), image)
        archive.writestr("inside", image)
    found = reasons(share)
    assert found.pop("odd.zip/inside") is Reason.TAKEN
    assert list(found.values()) == [Reason.ARCHIVE_PATH]


def test_a_damaged_lzma_member_is_refused_and_the_rest_read(share, image):
    with zipfile.ZipFile(share / "packed.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("member", image)
    packed = share / "packed.zip"
    packed.write_bytes(packed.read_bytes()[:60] + b"\xff" * 8 + packed.read_bytes()[68:])
    assert reasons(share) == {"packed.zip/member": Reason.ARCHIVE}
