"""ZIP files opened safely: one member at a time into a private folder, never beside the archive."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import Found
from stage_bank.ingest.private_folder import private_folder

__all__ = ["unpacked"]

_MAGIC = b"PK\x03\x04"
_EMPTY_MAGIC = b"PK\x05\x06"
_MAX_MEMBER = 1 << 30
_MAX_ARCHIVE = 16 << 30
_MAX_MEMBERS = 200_000
_MAX_RATIO = 200
_RATIO_FROM = 1 << 20
"""Members smaller than this may be packed as tightly as they like: a black slice is."""
_CHUNK = 1 << 20


@contextmanager
def unpacked(entries: Iterable[Found]) -> Iterator[Iterator[Found]]:
    """The entries, with each ZIP replaced by its members; what cannot be opened safely is named with its reason.

    The members lie in a private folder until the block ends. Their names in the report are `archive.zip/member`.
    """
    with private_folder() as private:
        yield _members(entries, private)


def _members(entries: Iterable[Found], private: Path) -> Iterator[Found]:
    number = 0
    for found in entries:
        if found.reason is not None or not _is_zip(found.path):
            yield found
            continue
        yield from _open(found, private / str(number))
        number += 1


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) in (_MAGIC, _EMPTY_MAGIC)
    except OSError:
        return False


def _open(found: Found, target: Path) -> Iterator[Found]:
    try:
        with zipfile.ZipFile(found.path) as archive:
            members = [info for info in archive.infolist() if not info.filename.endswith("/")]
            if len(members) > _MAX_MEMBERS or sum(info.file_size for info in members) > _MAX_ARCHIVE:
                yield Found(found.path, found.name, Reason.ARCHIVE_BOMB)
                return
            if not members:
                yield Found(found.path, found.name, Reason.ARCHIVE)
            target.mkdir(mode=0o700)
            for number, info in enumerate(members):
                place = target / str(number)
                name = f"{found.name}/{info.filename}".encode("utf-8", "backslashreplace").decode()
                yield Found(place, name, _refusal(info) or _write(archive, info, place))
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        yield Found(found.path, found.name, Reason.ARCHIVE)


def _refusal(info: zipfile.ZipInfo) -> Reason | None:
    path = PurePosixPath(info.filename.replace("\\", "/"))
    if path.is_absolute() or not path.parts or ".." in path.parts or ":" in path.parts[0]:
        return Reason.ARCHIVE_PATH
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return Reason.ARCHIVE_LINK
    if info.flag_bits & 1:
        return Reason.ARCHIVE_LOCKED
    if info.file_size > _MAX_MEMBER:
        return Reason.ARCHIVE_BOMB
    if info.file_size > _RATIO_FROM and info.file_size > _MAX_RATIO * info.compress_size:
        return Reason.ARCHIVE_BOMB
    return Reason.EMPTY_FILE if info.file_size == 0 else None


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: Path) -> Reason | None:
    """Unpack, and believe what is read rather than what the directory of the archive says."""
    written = 0
    try:
        with archive.open(info) as source, place.open("xb") as target:
            while chunk := source.read(_CHUNK):
                if written == 0 and chunk[:4] in (_MAGIC, _EMPTY_MAGIC):
                    return Reason.ARCHIVE_NESTED
                written += len(chunk)
                if written > info.file_size:
                    return Reason.ARCHIVE_BOMB
                target.write(chunk)
    except (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, RuntimeError):
        return Reason.ARCHIVE
    except OSError:
        return Reason.UNREADABLE
    return None
