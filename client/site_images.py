"""A site's pictures: read into its encrypted store, and taken from there patient by patient."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from client.site_config import SiteConfig
from common.errors import DataError
from common.files import write_durably, writing
from stage_bank.ingest import IngestReport, SiteMap
from stage_bank.ingest.references import ingest_site
from stage_bank.ingest.store import ImageStore
from stage_bank.picture import Picture
from stage_bank.store import read_key

__all__ = ["Ingested", "PatientTurns", "ingest_images", "open_image_store"]

IMAGES_PER_PATIENT = 64
"""Pictures kept of one patient, at most."""

CACHE_BYTES = 256_000_000
"""Decrypted pixels held in memory, at most, beside those of the patient in use."""


@dataclass(frozen=True)
class Ingested:
    """What one ingest did.

    Args:
        report: what became of every file.
        added: pictures that the store did not hold before.
        patients: patients that it holds now.
    """

    report: IngestReport
    added: int
    patients: int


def open_image_store(config: SiteConfig) -> ImageStore:
    """The site's store of pictures, sealed like its bank; made when missing.

    Raises:
        BankError: there is no usable key.
    """
    return ImageStore(config.state / "images", config.open_vault(create=True))


def ingest_images(
    config: SiteConfig,
    folder: Path,
    *,
    site_map: SiteMap | None = None,
    labels: Sequence[Path] = (),
    body_part: str = "",
    report: Path | None = None,
) -> Ingested:
    """Read a folder into the store.

    Args:
        config: the site's settings.
        folder: any nesting; only read.
        site_map: the site's own identities.
        labels: label files of the site.
        body_part: what NIfTI volumes show, DICOM defined term.
        report: JSON file to write; `ingest_report.json` in the state folder when left out.

    Raises:
        DataError: no usable image.
        BankError: another process is adding, there is no usable key, or the disk is full.
        ConfigurationError: a label file cannot be read, or the report not written.
    """
    result = ingest_site(
        folder,
        read_key("the key of the site's pseudonyms", config.state / "site.secret", create=True),
        site_map=site_map,
        labels=labels,
        body_part=body_part,
        per_patient=IMAGES_PER_PATIENT,
    )
    store = open_image_store(config)
    added = store.add(result.images, result.identifiers)
    store.record(result.report)
    place = report or config.state / "ingest_report.json"
    with writing("the report", place):
        write_durably(place, (json.dumps(result.report.to_json(), indent=1) + "\n").encode())
    return Ingested(result.report, added, len(store.patients()))


class PatientTurns:
    """The store's patients in turn, each with its own pictures; safe to use from several threads.

    Args:
        store: where the pictures lie.
        leave_out: says which picture nothing may be fabricated on.
        cache_bytes: decrypted pixels kept in memory, at most; the pictures of the patient in use are always held.
    """

    def __init__(self, store: ImageStore, leave_out: Callable[[Picture], bool], cache_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._leave_out = leave_out
        self._cache_bytes = cache_bytes
        self._patients = store.patients()
        self._cache: OrderedDict[str, list[Picture]] = OrderedDict()
        self._lock = threading.Lock()

    def turn(self, number: int) -> tuple[str, list[Picture]]:
        """Pseudonym and pictures of the patient whose turn it is; one without usable pictures is passed over.

        Raises:
            DataError: no patient has a picture that may be used.
            BankError: the store was changed, or sealed with another key.
        """
        with self._lock:
            for place in range(number, number + len(self._patients)):
                patient = self._patients[place % len(self._patients)]
                pictures = self._pictures(patient)
                if pictures:
                    return patient, pictures
        raise DataError("every usable image is in the server's held-out suites", remedy="Add images of other patients.")

    def _pictures(self, patient: str) -> list[Picture]:
        if patient not in self._cache:
            pictures = self._store.pictures(patient)
            self._cache[patient] = [picture for picture in pictures if not self._leave_out(picture)]
        self._cache.move_to_end(patient)
        while len(self._cache) > 1 and self._held_bytes() > self._cache_bytes:
            self._cache.popitem(last=False)
        return self._cache[patient]

    def _held_bytes(self) -> int:
        return sum(picture.pixels.nbytes for pictures in self._cache.values() for picture in pictures)
