"""HTTP that reaches one server and no other: pinned origin, no redirects, no proxies, bounded answers."""

from __future__ import annotations

import ssl
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from common.errors import ConfigurationError, DataError
from stage_bank.ingest.dicomweb.credentials import credentials
from stage_bank.ingest.dicomweb.settings import ServerSettings

__all__ = ["MAX_ANSWER", "open_session", "origin"]

MAX_ANSWER = 32 << 20
"""Bytes of an answer that is not streamed, decompressed."""

_PORTS = {"http": 80, "https": 443}


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, str(parts.hostname).lower(), parts.port or _PORTS.get(parts.scheme, 0)


class _Pinned(HTTPAdapter):
    """Refuses every other origin and every redirect before anything is sent there."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._origin = origin(url)
        super().__init__(max_retries=0)

    def send(self, request: requests.PreparedRequest, stream: bool = False, **options: Any) -> requests.Response:  # type: ignore[override]
        if origin(str(request.url)) != self._origin:
            raise DataError("another server than the configured one is never asked", where=self._url)
        response = super().send(request, stream=stream, **options)
        if 300 <= response.status_code < 400:
            response.close()
            raise DataError(
                "the server redirects, which is refused",
                where=self._url,
                remedy="Set its final address in the settings.",
            )
        if not stream:
            try:
                body = response.raw.read(MAX_ANSWER + 1, decode_content=True)
            except HTTPError as error:
                raise requests.ConnectionError(error) from error
            response.raw.release_conn()
            if len(body) > MAX_ANSWER:
                raise DataError("the server's answer is too long", where=self._url)
            response.raw = BytesIO(body)
        return response


def open_session(settings: ServerSettings) -> requests.Session:
    """A session for the configured server.

    Raises:
        ConfigurationError: credentials or certificates cannot be used.
    """
    _check_certificates(settings)
    session = requests.Session()
    session.trust_env = False
    session.auth = credentials(settings)
    session.verify = True if settings.ca_file is None else str(settings.ca_file)
    if settings.client_certificate is not None:
        pair = (str(settings.client_certificate), str(settings.client_key))
        session.cert = pair if settings.client_key is not None else pair[0]
    session.adapters.clear()
    session.mount(f"{origin(settings.url)[0]}://", _Pinned(settings.url))
    return session


def _check_certificates(settings: ServerSettings) -> None:
    """Whether the files can be used, so that each is complained of by its name and before anything is sent."""
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        try:
            context.load_verify_locations(settings.ca_file)
        except OSError as error:
            raise ConfigurationError("cannot use ca_file", where=str(settings.ca_file), remedy="Give PEM.") from error
    if settings.client_certificate is not None:
        try:
            context.load_cert_chain(settings.client_certificate, settings.client_key, password="")
        except OSError as error:
            where = " and ".join(str(file) for file in (settings.client_certificate, settings.client_key) if file)
            raise ConfigurationError("cannot use the client's certificate", where=where, remedy="Give PEM.") from error
