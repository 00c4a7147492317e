"""A real Orthanc with its DICOMweb plugin, of its own, on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

__all__ = ["PLUGIN", "Orthanc", "orthanc"]

PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")
USER, PASSWORD = "bat", "a secret"


@dataclass
class Orthanc:
    """A running server.

    Args:
        process: it.
        root: address of its own interface.
        session: with credentials.
    """

    process: subprocess.Popen[bytes]
    root: str
    session: requests.Session

    @property
    def url(self) -> str:
        return f"{self.root}/dicom-web"

    def upload(self, data: bytes) -> bool:
        """Whether it took the file."""
        return self.session.post(f"{self.root}/instances", data=data, timeout=60).status_code == 200

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def orthanc(folder: Path, *, tls: Path | None = None, trusted: Path | None = None) -> Iterator[Orthanc]:
    """Start one and end it.

    Args:
        folder: for its files.
        tls: certificate and key as one PEM; then it speaks https.
        trusted: certificates that clients' must be signed by.
    """
    program = shutil.which("Orthanc", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    assert program is not None
    folder.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "StorageDirectory": str(folder / "db"),
        "IndexDirectory": str(folder / "db"),
        "HttpPort": port,
        "DicomServerEnabled": False,
        "RemoteAccessAllowed": False,
        "AuthenticationEnabled": True,
        "RegisteredUsers": {USER: PASSWORD},
        "Plugins": [str(PLUGIN)],
        "DicomWeb": {"Enable": True, "Root": "/dicom-web/"},
        "SslEnabled": tls is not None,
        "SslCertificate": str(tls or ""),
        "SslVerifyPeers": trusted is not None,
        "SslTrustedClientCertificates": str(trusted or ""),
    }
    (folder / "orthanc.json").write_text(json.dumps(settings))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, str(folder / "orthanc.json")], stdout=log, stderr=log)
    session = requests.Session()
    session.trust_env, session.auth = False, (USER, PASSWORD)
    running = Orthanc(process, f"{'https' if tls else 'http'}://127.0.0.1:{port}", session)
    try:
        _wait(running, port)
        yield running
    finally:
        running.stop()


def _wait(running: Orthanc, port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert running.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
