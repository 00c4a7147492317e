"""`bat-ingest` as a process against a real Orthanc, with pydicom's files."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path

import pydicom
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydicom import dcmread
from pydicom.data import data_manager

from client.cli import main
from stage_bank.ingest.store import ImageStore
from tests.client.hospital import Hospital
from tests.e2e.orthanc import PASSWORD, PLUGIN, USER, Orthanc, behind_tls, orthanc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("Orthanc", path="/usr/sbin:/usr/bin:/usr/local/bin") is None or not PLUGIN.exists(),
        reason="Orthanc with its DICOMweb plugin is not installed (Debian: orthanc, orthanc-dicomweb)",
    ),
]

Key = tuple[str, str, str]


def pydicom_files() -> dict[Key, bytes]:
    """Study, series and instance to bytes; of several files of one SOP instance the first."""
    folder = Path(data_manager.__file__).parent / "test_files"
    found: dict[Key, bytes] = {}
    seen: set[str] = set()
    for path in sorted(folder.rglob("*")):
        try:
            dataset = dcmread(path, stop_before_pixels=True)
            key = (dataset.StudyInstanceUID, dataset.SeriesInstanceUID, dataset.SOPInstanceUID)
        except (OSError, AttributeError, pydicom.errors.InvalidDicomError):
            continue
        if dataset.SOPInstanceUID not in seen:
            seen.add(dataset.SOPInstanceUID)
            found[str(key[0]), str(key[1]), str(key[2])] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Orthanc, dict[Key, bytes]]]:
    """A server and what it took."""
    with orthanc(tmp_path_factory.mktemp("orthanc") / "server") as server:
        yield server, {key: data for key, data in pydicom_files().items() if server.upload(data)}


def settings(folder: Path, url: str, extra: str = "", select: str = "", password: str = PASSWORD) -> Path:
    secret = folder / "secret"
    secret.write_text(f"{USER}:{password}\n")
    secret.chmod(0o600)
    path = folder / "ingest.toml"
    path.write_text(
        f'staging = "staging"\n[server]\nurl = "{url}"\ncredentials_file = "secret"\nattempts = 2\n{extra}\n'
        f"[select]\n{select}\n"
    )
    return path


def command(path: Path) -> list[str]:
    return [sys.executable, "-m", "stage_bank.ingest.dicomweb.cli", str(path)]


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(path), capture_output=True, text=True, timeout=300)


def staged(folder: Path) -> dict[Key, bytes]:
    root = folder / "staging/studies"
    files = [file for file in root.rglob("*") if file.is_file()]
    return {(f.parent.parent.name, f.parent.name, f.stem): f.read_bytes() for f in files}


def test_every_instance_arrives_byte_by_byte(tmp_path: Path, held) -> None:
    server, files = held
    assert len(files) > 80
    path = settings(tmp_path, server.url)
    done = run(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert staged(tmp_path) == files
    again = run(path)
    assert again.returncode == 0
    assert f"0 instances fetched, {len(files)} already there" in again.stdout


def test_what_was_staged_is_what_the_site_ingests(tmp_path: Path, held, capsys) -> None:
    server, _ = held
    assert run(settings(tmp_path, server.url, select='modalities = ["CT"]')).returncode == 0
    modalities = {dcmread(path).Modality for path in (tmp_path / "staging/studies").rglob("*.dcm")}
    assert modalities == {"CT"}
    hospital = Hospital(tmp_path)
    assert main(["bank", "ingest", str(hospital.file), str(tmp_path / "staging/studies")]) == 0
    assert len(ImageStore.open(tmp_path / "state/images", tmp_path / "state/bank.key").patients()) >= 2


def test_filters(tmp_path: Path, held) -> None:
    server, files = held
    (tmp_path / "patients.txt").write_text("98890234\n")
    assert run(settings(tmp_path, server.url, select='patients = "patients.txt"')).returncode == 0
    found = staged(tmp_path)
    assert found
    ids = {dcmread(path).PatientID for path in (tmp_path / "staging/studies").rglob("*.dcm")}
    assert ids == {"98890234"}
    assert found.items() <= files.items()
    shutil.rmtree(tmp_path / "staging")
    assert run(settings(tmp_path, server.url, select="since = 2003-01-01\nuntil = 2003-12-31")).returncode == 0
    dates = {str(dcmread(path).StudyDate)[:4] for path in (tmp_path / "staging/studies").rglob("*.dcm")}
    assert dates == {"2003"}


def test_killed_in_the_middle_it_goes_on(tmp_path: Path, held) -> None:
    server, files = held
    path = settings(tmp_path, server.url)
    killed = 0
    for goal in (10, 30, 60):
        process = subprocess.Popen(command(path), stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list((tmp_path / "staging").rglob("*.dcm"))) < goal:
            time.sleep(0.002)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        assert staged(tmp_path).items() <= files.items()
    assert killed >= 2
    before = len(list((tmp_path / "staging").rglob("*.dcm")))
    assert 0 < before < len(files)
    done = run(path)
    assert done.returncode == 0
    assert f"{len(files) - before} instances fetched, {before} already there" in done.stdout
    assert staged(tmp_path) == files


def test_wrong_credentials_are_one_line(tmp_path: Path, held) -> None:
    done = run(settings(tmp_path, held[0].url, password="wrong"))
    assert done.returncode == 1
    assert done.stderr.startswith("bat-ingest: the server refuses the credentials")
    assert done.stderr.count("\n") == 1
    assert "wrong" not in done.stderr
    assert not staged(tmp_path)


def test_a_redirect_to_another_host_is_refused(tmp_path: Path, held) -> None:
    server, _ = held
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"{server.root.replace('127.0.0.1', 'localhost')}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    front = HTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=front.serve_forever, args=(0.05,), daemon=True).start()
    done = run(settings(tmp_path, f"http://127.0.0.1:{front.server_address[1]}/dicom-web"))
    front.shutdown()
    front.server_close()
    assert done.returncode == 1
    assert "the server redirects, which is refused" in done.stderr
    assert len(asked) == 1
    assert not staged(tmp_path)


def test_a_server_that_goes_away_leaves_whole_studies(tmp_path: Path, held) -> None:
    _, files = held
    with orthanc(tmp_path / "server") as server:
        for data in files.values():
            server.upload(data)
        path = settings(tmp_path, server.url)
        process = subprocess.Popen(command(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and len(list((tmp_path / "staging").rglob("*.dcm"))) < 20:
            time.sleep(0.002)
        server.stop()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.startswith("bat-ingest: the server does not answer")
    assert said.count("\n") == 1
    found = staged(tmp_path)
    assert found.items() <= files.items()
    complete = {file.stem: json.loads(file.read_bytes()) for file in (tmp_path / "staging/complete").glob("*.json")}
    assert {key[0] for key in found} == set(complete)
    for study, instances in complete.items():
        assert {(study, *pair) for pair in map(tuple, instances)} == {key for key in files if key[0] == study}


class Authority:
    """Makes certificates for 127.0.0.1 and for clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.certificate = self._sign(self._name, self._key, authority=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Files of a certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, authority=False).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        files[0].write_bytes(certificate)
        files[1].write_bytes(private)
        return files

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(days=1),
            not_valid_after=now + datetime.timedelta(days=1),
        )
        here = [x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName(here), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def test_tls_with_own_authority_and_client_certificate(tmp_path: Path, held) -> None:
    server, files = held
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    ours, our_key = authority.issue("client")
    trusted = f'ca_file = "{authority.file}"\n'
    shown = f'client_certificate = "{ours}"\nclient_key = "{our_key}"\n'
    with behind_tls(server, certificate, key, authority.file) as url:
        for lacking in ("", trusted, shown):
            done = run(settings(tmp_path, url, lacking))
            assert done.returncode == 1
            assert done.stderr.count("\n") == 1
            assert "the secure connection fails" in done.stderr
            assert not staged(tmp_path)
        done = run(settings(tmp_path, url, trusted + shown, select='patients = "patients.txt"'))
        assert done.returncode == 1
        assert "cannot read the list of patients" in done.stderr
        done = run(settings(tmp_path, url, trusted + shown))
        assert done.returncode == 0, done.stderr
    assert staged(tmp_path) == files
