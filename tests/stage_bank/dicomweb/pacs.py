"""A DICOMweb server of a few lines over real sockets, that can be told to misbehave, and settings for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydicom.dataset import FileDataset

from tests.stage_bank.dicom_files import ct, picture, write

BOUNDARY = "a-boundary"
HEAD = f"--{BOUNDARY}\r\nContent-Type: application/dicom\r\n\r\n".encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


@dataclass
class Pacs:
    """What it holds, what it was asked, and how it misbehaves.

    Args:
        instances: (study, series, instance) to file bytes.
        attributes: study to what a search gives of it.
        modalities: (study, series) to modality.
        asked: paths and queries, in order.
        answer: called with each request; `None` goes on, `True` says that it has answered.
    """

    instances: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    modalities: dict[tuple[str, str], str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answer: Callable[[BaseHTTPRequestHandler], bool | None] = lambda _: None
    url: str = ""
    respects_offset: bool = True

    def add(self, dataset: FileDataset, folder: Path) -> None:
        data = write(dataset, folder / "upload.dcm").read_bytes()
        study, series = str(dataset.StudyInstanceUID), str(dataset.SeriesInstanceUID)
        self.instances[study, series, str(dataset.SOPInstanceUID)] = data
        self.modalities[study, series] = str(dataset.Modality)
        found = {"00100020": str(dataset.PatientID), "00080020": str(dataset.get("StudyDate", ""))}
        self.attributes[study] = {name: value for name, value in found.items() if value}

    def search(self, path: list[str]) -> list[dict[str, Any]]:
        match path:
            case ["studies"]:
                return [_item({"0020000D": study} | self.attributes[study]) for study in sorted(self.attributes)]
            case ["studies", study, "series"]:
                found = sorted(pair for pair in self.modalities if pair[0] == study)
                return [_item({"0020000E": pair[1], "00080060": self.modalities[pair]}) for pair in found]
            case ["studies", study, "series", series, "instances"]:
                return [_item({"00080018": key[2]}) for key in sorted(self.instances) if key[:2] == (study, series)]
        raise KeyError(path)


def _item(values: dict[str, str]) -> dict[str, Any]:
    return {tag: {"vr": "LO", "Value": [value]} for tag, value in values.items()}


def multipart(data: bytes) -> bytes:
    return HEAD + data + TAIL


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> bool:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)
    return True


def send_instance(handler: BaseHTTPRequestHandler, data: bytes) -> bool:
    kind = f'multipart/related; type="application/dicom"; boundary="{BOUNDARY}"'
    return send(handler, 200, multipart(data), Content_Type=kind)


@contextmanager
def serving(pacs: Pacs) -> Iterator[Pacs]:
    """Serve on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            pacs.asked.append(self.path)
            if pacs.answer(self):
                return
            parts = urlsplit(self.path)
            path = parts.path.removeprefix("/dicom-web/").split("/")
            if len(path) == 6:
                data = pacs.instances.get((path[1], path[3], path[5]))
                _ = send(self, 404, b"") if data is None else send_instance(self, data)
                return
            query = parse_qs(parts.query)
            limit = int(query["limit"][0])
            offset = int(query.get("offset", ["0"])[0]) if pacs.respects_offset else 0
            body = json.dumps(pacs.search(path)[offset : offset + limit]).encode()
            send(self, 200, body, Content_Type="application/dicom+json")

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Clients that hang up are no news."""

    server = Quiet(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    pacs.url = f"http://127.0.0.1:{server.server_address[1]}/dicom-web"
    try:
        yield pacs
    finally:
        server.shutdown()
        server.server_close()


def filled(folder: Path, studies: int = 2, per_series: int = 2) -> Pacs:
    """Studies 1.1, 1.2, … of patients P-1, P-2, …, each with a CT series of some instances."""
    pacs = Pacs()
    for study in range(1, studies + 1):
        for number in range(per_series):
            uids = {"StudyInstanceUID": f"1.{study}", "SeriesInstanceUID": f"1.{study}.1"}
            instance = f"1.{study}.1.{number + 1}"
            dataset = ct(f"P-{study}", picture(study * 100 + number), SOPInstanceUID=instance, **uids)
            dataset.StudyDate = f"202501{study:02d}"
            pacs.add(dataset, folder)
    return pacs


def settings_file(folder: Path, url: str, *, select: str = "", server: str = "") -> Path:
    """Quick retries, so that tests end."""
    path = folder / "ingest.toml"
    text = f'staging = "staging"\n[server]\nurl = "{url}"\nattempts = 2\ntimeout = 2.0\n{server}\n[select]\n{select}\n'
    path.write_text(text)
    return path


def staged(folder: Path, part: str = "studies") -> dict[tuple[str, ...], bytes]:
    """(study, series, instance) to bytes of what lies in a part of the staging folder."""
    root = folder / "staging" / part
    files = (file for file in sorted(root.rglob("*")) if file.is_file())
    return {file.relative_to(root).with_suffix("").parts: file.read_bytes() for file in files}


def slowly(seconds: float) -> Callable[[BaseHTTPRequestHandler], None]:
    def wait(_: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)

    return wait
