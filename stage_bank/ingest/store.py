"""The site's own store of ingested pictures: encrypted, append-only, safe against a crash at any point.

Under the folder, `objects/` holds one sealed file for each picture and each set of identifiers, named by a keyed digest
of its contents. `index/` holds one sealed file for each addition, numbered without gaps: it lists what the
addition brought, and is written last. So what a crash leaves behind is never half of an addition: an object that no
index names is not part of the store, and the next addition that has the same contents writes it again.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.canonical import Json
from common.errors import BankError
from common.files import write_durably
from stage_bank.ingest.folder import PatientImage
from stage_bank.ingest.report import IngestReport
from stage_bank.picture import Picture
from stage_bank.store.vault import Vault

__all__ = ["ImageStore"]

_EMPTY_VERSION = sha256(b"").hexdigest()


@dataclass(frozen=True)
class _Entry:
    patient: str
    series: str
    digest: str


class ImageStore:
    """Pictures by patient. Many may read at a time, one may add; readers see whole additions only.

    Args:
        folder: of the store; made with mode 0700.
        vault: seals everything in it.
    """

    def __init__(self, folder: Path, vault: Vault) -> None:
        self._folder = folder
        self._vault = vault
        for part in (folder, folder / "objects", folder / "index"):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)

    @classmethod
    def open(cls, path: Path, key_file: Path) -> ImageStore:
        """Open, or make, a store whose key lies in a file.

        Raises:
            BankError: the key cannot be used.
        """
        return cls(path, Vault.load(key_file, create=True))

    def add(self, images: Iterable[PatientImage], identifiers: Iterable[str] = ()) -> int:
        """Keep what is new.

        Args:
            images: what ingest gave; taken one by one.
            identifiers: strings that could name a patient, kept for the patient wall.

        Returns:
            Number of pictures that were not there before.

        Raises:
            BankError: another process is adding, or the disk is full.
        """
        with self._writing():
            entries = list(self._entries())
            known = {(entry.patient, entry.digest) for entry in entries}
            fresh: list[_Entry] = []
            try:
                for image in images:
                    plain = _pack(image.picture)
                    entry = _Entry(image.patient, image.series, self._digest("picture", image.patient, plain))
                    if (entry.patient, entry.digest) not in known:
                        known.add((entry.patient, entry.digest))
                        self._write_object(entry.digest, plain)
                        fresh.append(entry)
                needles = self._write_identifiers(frozenset(identifiers) - self.identifiers())
                if fresh or needles:
                    self._append(fresh, needles)
            except OSError as error:
                raise BankError(
                    f"cannot keep pictures: {error.strerror}", where=str(self._folder), remedy="Make room."
                ) from error
        return len(fresh)

    def patients(self) -> tuple[str, ...]:
        """Pseudonyms, sorted."""
        return tuple(sorted({entry.patient for entry in self._entries()}))

    def pictures(self, patient: str) -> list[Picture]:
        """All pictures of a patient, in the order in which they were added.

        Raises:
            BankError: changed, or sealed with another key.
        """
        return [_unpack(self._read_object(entry.digest)) for entry in self._entries() if entry.patient == patient]

    def version(self) -> str:
        """64 hex digits that change when something was added, and only then."""
        count = len(self._numbers())
        return self._vault.authenticate(f"images\0{count}".encode()) if count else _EMPTY_VERSION

    def identifiers(self) -> frozenset[str]:
        """Everything that could name a patient, of all additions."""
        found: set[str] = set()
        for page in self._pages():
            digest = page["identifiers"]
            if isinstance(digest, str) and digest:
                found.update(json.loads(self._read_object(digest)))
        return frozenset(found)

    def record(self, report: IngestReport) -> None:
        """Keep the latest ingest report, sealed: it names files.

        Raises:
            OSError: the disk is full.
        """
        plain = json.dumps(report.to_json()).encode()
        write_durably(self._folder / "report.sealed", self._vault.seal("images/report", plain))

    def latest_report(self) -> dict[str, Json] | None:
        """The report kept last, as JSON; `None` before the first."""
        file = self._folder / "report.sealed"
        if not file.exists():
            return None
        report: dict[str, Json] = json.loads(self._vault.open("images/report", file.read_bytes()))
        return report

    @contextmanager
    def _writing(self) -> Iterator[None]:
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise BankError(
                "another process adds pictures", where=str(self._folder), remedy="Wait until it is done."
            ) from error
        try:
            yield
        finally:
            os.close(descriptor)

    def _numbers(self) -> list[int]:
        """Numbers of the additions; a gap means that one was lost.

        Raises:
            BankError: a gap.
        """
        numbers = sorted(int(file.stem) for file in (self._folder / "index").glob("*.sealed"))
        if numbers != list(range(len(numbers))):
            raise BankError(
                "part of the image store is missing", where=str(self._folder), remedy="Restore it, or ingest again."
            )
        return numbers

    def _pages(self) -> Iterator[dict[str, Json]]:
        for number in self._numbers():
            sealed = (self._folder / "index" / f"{number}.sealed").read_bytes()
            yield json.loads(self._vault.open(f"images/index/{number}", sealed))

    def _entries(self) -> Iterator[_Entry]:
        for page in self._pages():
            rows = page["pictures"]
            if isinstance(rows, list):
                yield from (_Entry(*row) for row in rows if isinstance(row, list))

    def _append(self, fresh: list[_Entry], needles: str) -> None:
        number = len(self._numbers())
        rows = [[entry.patient, entry.series, entry.digest] for entry in fresh]
        plain = json.dumps({"pictures": rows, "identifiers": needles}).encode()
        place = self._folder / "index" / f"{number}.sealed"
        write_durably(place, self._vault.seal(f"images/index/{number}", plain))

    def _write_identifiers(self, fresh: frozenset[str]) -> str:
        if not fresh:
            return ""
        plain = json.dumps(sorted(fresh)).encode()
        digest = self._digest("identifiers", "", plain)
        self._write_object(digest, plain)
        return digest

    def _digest(self, kind: str, patient: str, plain: bytes) -> str:
        """Bound to the patient, so that equal pictures of two patients cannot be told from their names."""
        return self._vault.authenticate(b"\0".join([b"images", kind.encode(), patient.encode(), plain]))

    def _write_object(self, digest: str, plain: bytes) -> None:
        place = self._folder / "objects" / digest[:2] / digest
        if not place.exists():
            place.parent.mkdir(mode=0o700, exist_ok=True)
            write_durably(place, self._vault.seal(f"images/{digest}", plain))

    def _read_object(self, digest: str) -> bytes:
        place = self._folder / "objects" / digest[:2] / digest
        try:
            return self._vault.open(f"images/{digest}", place.read_bytes())
        except OSError as error:
            raise BankError(
                "a picture is missing from the image store", where=str(place), remedy="Restore it, or ingest again."
            ) from error


def _pack(picture: Picture) -> bytes:
    arrays: dict[str, NDArray[np.generic]] = {"pixels": picture.pixels}
    if picture.findings is not None:
        arrays["findings"] = picture.findings
    facts = json.dumps(dict(picture.facts), sort_keys=True).encode()
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, facts=np.frombuffer(facts, np.uint8), **arrays)
    return stream.getvalue()


def _unpack(plain: bytes) -> Picture:
    with np.load(io.BytesIO(plain), allow_pickle=False) as arrays:
        findings = arrays.get("findings")
        return Picture(arrays["pixels"], findings, json.loads(arrays["facts"].tobytes()))
