"""A real Orthanc with its DICOMweb plugin, of its own, on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

__all__ = ["PLUGIN", "Orthanc", "behind_tls", "orthanc"]

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
def orthanc(folder: Path) -> Iterator[Orthanc]:
    """Start one with its files in this folder, and end it."""
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
    }
    (folder / "orthanc.json").write_text(json.dumps(settings))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, str(folder / "orthanc.json")], stdout=log, stderr=log)
    session = requests.Session()
    session.trust_env, session.auth = False, (USER, PASSWORD)
    running = Orthanc(process, f"http://127.0.0.1:{port}", session)
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


@contextmanager
def behind_tls(server: Orthanc, certificate: Path, key: Path, trusted: Path) -> Iterator[str]:
    """Put a TLS proxy before it that asks for client certificates, as a hospital does; gives the address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    plain = int(server.root.rpartition(":")[2])
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        try:
            outer = context.wrap_socket(connection, server_side=True)
            with outer, socket.create_connection(("127.0.0.1", plain)) as inner:
                back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
                back.start()
                _copy(outer, inner)
                back.join()
        except OSError:  # a client without a certificate
            connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/dicom-web"
    finally:
        listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
