"""The server's side of the work: searching (QIDO-RS) and retrieving (WADO-RS), with bounded retries (PS3.18)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from email.message import Message
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import requests
from dicomweb_client import DICOMwebClient

from common.errors import ConfigurationError, DataError
from stage_bank.ingest.dicomweb.multipart import Cut, TooLong, copy_part
from stage_bank.ingest.dicomweb.session import open_session
from stage_bank.ingest.dicomweb.settings import Selection, ServerSettings

__all__ = ["NotGiven", "Server", "is_uid"]

_PAGE = 100
_CHUNK = 256 << 10
_CONNECT_SECONDS = 10.0
_MAX_WAIT = 30.0
_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
_UID = re.compile(r"[0-9]+(\.[0-9]+)*")
_ACCEPT = 'multipart/related; type="application/dicom"; transfer-syntax=*'
"""Every instance as it is stored, whatever its compression."""

T = TypeVar("T")


class NotGiven(Exception):
    """The server does not give this one thing; the message says why."""


def is_uid(text: object) -> bool:
    """Whether this is a UID by its form (PS3.5 9.1); so it is also a harmless file name."""
    return isinstance(text, str) and len(text) <= 64 and _UID.fullmatch(text) is not None


class Server:
    """A DICOMweb server.

    Args:
        settings: which, and how to speak to it.
        sleep: waits that many seconds.

    Raises:
        ConfigurationError: credentials or certificates cannot be used.
    """

    def __init__(self, settings: ServerSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._session = open_session(settings)
        timeout = (min(_CONNECT_SECONDS, settings.timeout), settings.timeout)
        self._timeout = timeout
        self._client = DICOMwebClient(settings.url, session=self._session, timeout=timeout)
        self._client.set_http_retry_params(retry=False)  # ours also covers lost connections

    def studies(self, select: Selection) -> Iterator[str]:
        """UIDs of the studies that match, each once.

        Raises:
            DataError: no answer, or one that makes going on pointless.
            ConfigurationError: the list of patients cannot be used.
        """
        seen: set[str] = set()
        for patient in [None] if select.patients is None else _patients(select.patients):
            for modality in select.modalities or (None,):
                filters = {"ModalitiesInStudy": modality, "PatientID": patient, "StudyDate": _range(select)}
                given = {name: value for name, value in filters.items() if value}
                for found in self._pages(self._client.search_for_studies, "0020000D", search_filters=given):
                    uid = str(_value(found, "0020000D"))
                    if uid not in seen and _matches(found, patient, select):
                        seen.add(uid)
                        yield uid

    def series(self, study: str) -> Iterator[tuple[str, str]]:
        """UID and modality of each series.

        Raises:
            DataError: as above.
        """
        for found in self._pages(self._client.search_for_series, "0020000E", study_instance_uid=study):
            yield str(_value(found, "0020000E")), str(_value(found, "00080060") or "")

    def instances(self, study: str, series: str) -> Iterator[str]:
        """UIDs of the instances of a series.

        Raises:
            DataError: as above.
        """
        search = self._client.search_for_instances
        for found in self._pages(search, "00080018", study_instance_uid=study, series_instance_uid=series):
            yield str(_value(found, "00080018"))

    def fetch(self, study: str, series: str, instance: str, target: IO[bytes], check: Callable[[], bool]) -> None:
        """Write one instance to a file, byte by byte as the server gives it.

        Args:
            study: UID.
            series: UID.
            instance: UID.
            target: opened for writing; started anew for every attempt.
            check: asked after each attempt whether the file is what was asked for.

        Raises:
            NotGiven: this instance cannot be had.
            DataError: no answer, or one that makes going on pointless.
        """
        url = f"{self._client.base_url}/studies/{study}/series/{series}/instances/{instance}"

        def attempt() -> None:
            target.seek(0)
            target.truncate()
            with self._session.get(url, headers={"Accept": _ACCEPT}, stream=True, timeout=self._timeout) as response:
                response.raise_for_status()
                self._copy(response, target)
            target.flush()
            if not check():
                raise Cut

        self._tried(attempt)

    def _copy(self, response: requests.Response, target: IO[bytes]) -> None:
        header = Message()
        header["Content-Type"] = response.headers.get("Content-Type", "")
        limit = self._settings.max_instance_bytes
        chunks = response.iter_content(_CHUNK)
        if header.get_content_type() == "application/dicom":
            for chunk in chunks:
                if target.tell() + len(chunk) > limit:
                    raise TooLong
                target.write(chunk)
            return
        boundary = header.get_boundary()
        if header.get_content_type() != "multipart/related" or not boundary:
            raise NotGiven("the answer is not DICOM")
        copy_part(chunks, boundary.encode(), target, limit)

    def _pages(self, search: Callable[..., Any], key: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """All results, a page at a time; ends when a page brings nothing new, whatever the server makes of offsets."""
        seen: set[object] = set()
        while True:
            offset = len(seen)
            page = self._tried(partial(search, limit=_PAGE, offset=offset, **filters))
            if not isinstance(page, list):
                raise NotGiven("the answer cannot be read")
            fresh = [found for found in page if isinstance(found, dict) and is_uid(_value(found, key))]
            fresh = [found for found in fresh if _value(found, key) not in seen]
            seen.update(_value(found, key) for found in fresh)
            yield from fresh
            if not fresh:
                return

    def _tried(self, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that works."""
        for number in range(1, self._settings.attempts + 1):
            last = number == self._settings.attempts
            try:
                return attempt()
            except requests.exceptions.SSLError as error:
                raise self._error("the secure connection fails", "Check ca_file and the certificates.") from error
            except requests.HTTPError as error:
                status = error.response.status_code
                if status in (401, 403):
                    raise self._error("the server refuses the credentials", "Check them.") from error
                if status not in _RETRY or last:
                    raise NotGiven(f"the server answers {status}") from error
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                if last:
                    raise self._error("the server does not answer", "What is staged is kept; run again.") from error
            except TooLong:
                raise NotGiven("larger than max_instance_bytes") from None
            except (Cut, requests.exceptions.ContentDecodingError):
                if last:
                    raise NotGiven("cut short, or another instance than asked for") from None
            except OSError as error:
                if isinstance(error, requests.RequestException):
                    raise NotGiven("the answer cannot be read") from error
                raise
            except ValueError as error:  # no JSON, or not of DICOM's JSON model
                raise NotGiven("the answer cannot be read") from error
            self._sleep(min(_MAX_WAIT, 2.0 ** (number - 1)))
        raise AssertionError("the last attempt returns or raises")

    def _error(self, what: str, remedy: str) -> DataError:
        return DataError(what, where=self._settings.url, remedy=remedy)


def _value(found: dict[str, Any], tag: str) -> object:
    with suppress(KeyError, IndexError, TypeError):
        return found[tag]["Value"][0]
    return None


def _range(select: Selection) -> str:
    since, until = (f"{day:%Y%m%d}" if day else "" for day in (select.since, select.until))
    return f"{since}-{until}" if since or until else ""


def _matches(found: dict[str, Any], patient: str | None, select: Selection) -> bool:
    """The server's own matching, checked where servers differ: patient and date."""
    if patient is not None and str(_value(found, "00100020") or "").strip() != patient:
        return False
    if select.since is None and select.until is None:
        return True
    try:
        day = date.fromisoformat(str(_value(found, "00080020")))
    except ValueError:
        return False
    return (select.since or day) <= day <= (select.until or day)


def _patients(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            "cannot read the list of patients", where=str(path), remedy="Save as UTF-8."
        ) from error
    patients = [line.strip() for line in lines if line.strip()]
    for number, patient in enumerate(patients, start=1):
        if re.search(r"[*?\\\x00-\x1f]", patient):
            raise ConfigurationError("a patient ID has no *, ? or \\", where=f"{path}, patient {number}")
    if not patients:
        raise ConfigurationError(
            "the list of patients is empty", where=str(path), remedy="Remove the setting, or fill it."
        )
    return patients
