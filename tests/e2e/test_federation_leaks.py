"""Only adapter tensors leave: every byte a site sends in a real round of training is recorded and searched."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pydicom
import pytest

from common.adapter import decode_adapter, l2_norm
from common.base_model import read_base_model
from deploy.demo_settings import TRACKS
from deploy.prepare import make_once, policy_job
from deploy.sample_sites import make
from stage_bank.ingest import ingest_folder
from tests.e2e.federation import federation
from tests.e2e.forms import found, spellings
from tests.e2e.tap import Tap

PLANTED = {
    "PatientName": "Quillfeather^Ottoline",
    "PatientID": "ZQ-7741-9035",
    "PatientAddress": "14 Marrowgate Lane Thistleford",
    "AccessionNumber": "ACC55190277",
    "StudyDescription": "Follow up of Brindlewick syndrome",
    "InstitutionName": "Saint Orsolya Infirmary",
    "ReferringPhysicianName": "Vantongeren^Isolde",
    "PatientBirthDate": "19310417",
}
BLOCK = 32
"""Bytes of a pixel row that must not occur; long enough not to occur by chance."""


def prepared(folder: Path) -> None:
    """The cold-started policy that `make test` prepares: it earns rewards, so its updates hold something."""
    shutil.copytree(make_once([policy_job(TRACKS)])[0], folder)


def planted_site(root: Path) -> tuple[Path, list[bytes]]:
    """A site's images with a made-up patient's particulars in every header, and rows of their pixels."""
    folder = make(root)["mr"]
    rows: list[bytes] = []
    for path in sorted(folder.rglob("*")):
        try:
            dataset = pydicom.dcmread(path)
            pixels = dataset.pixel_array
        except Exception:
            continue
        for keyword, value in PLANTED.items():
            if keyword != "PatientID":  # the patients must stay apart
                setattr(dataset, keyword, value)
        dataset.PatientComments = f"{PLANTED['PatientID']} seen again"
        dataset.save_as(path)
        rows += _rows(pixels)
    for image in ingest_folder(folder, bytes(16)).images:
        rows += _rows(image.pixels)
        rows += _rows((image.pixels * 255).astype(np.uint8))
    return folder, rows


def _rows(pixels: np.ndarray) -> list[bytes]:
    """Pieces of image rows in which something is seen."""
    flat = np.ascontiguousarray(pixels).reshape(-1, pixels.shape[-1])
    pieces = (flat[index].tobytes()[:BLOCK] for index in range(0, len(flat), max(1, len(flat) // 64)))
    return [piece for piece in pieces if len(piece) == BLOCK and len(set(piece)) > 8]


@pytest.mark.timeout(600)
def test_only_the_adapters_tensors_leave_a_site_that_trains(tmp_path: Path) -> None:
    folder, rows = planted_site(tmp_path / "dicom")
    needles = [form for text in PLANTED.values() for part in (text, *text.split("^")) for form in spellings(part)]
    assert len(rows) > 100
    taps = {"north": Tap(), "south": Tap()}
    with federation(data=folder, states=6, model=prepared, taps=taps) as running:
        settings = running.settings(
            optimizer={
                "steps": 2,
                "groups_per_step": 2,
                "group_size": 4,
                "learning_rate": 1e-3,
                "kl_coefficient": 0.006,
                "temperature": 1.0,
                "max_turns": 4,
                "max_tokens": 384,
            },
            round_timeout_s=300,
        )
        done = running.run(settings, timeout_s=400)
        assert done.returncode == 0, done.stderr + running.last_words()
        metrics = [json.loads(line) for line in (running.directory / "metrics.jsonl").read_text().splitlines()]
        assert [release["site"] for release in metrics[1]["releases"]] == ["north", "south"]
        spec = read_base_model(running.root / "model").spec
        for site, tap in taps.items():
            outbox = running.sites[site].outbox / "e2e" / "1"
            release, update = (outbox / "release.json").read_bytes(), (outbox / "update.safetensors").read_bytes()
            assert l2_norm(decode_adapter(update, spec.of_update)) > 0.0
            whole = b"\n".join(tap.sent)
            assert whole.count(update) == 1, "the update leaves once, byte for byte as it was signed"
            rest = whole.replace(update, b"")
            assert release in rest
            assert len(rest) < 100_000, "beside the update a site sends only small messages"
            assert found([*needles, *rows], rest) == []
            assert found(needles, update) == []
            assert not any(row in update for row in rows)
            assert f'"{site}"'.encode() in rest, "the search does look at what the site said"


@pytest.mark.parametrize(
    "disguise",
    [
        bytes,
        gzip.compress,
        zlib.compress,
        bz2.compress,
        base64.b64encode,
        lambda data: base64.b64encode(b"x" + data),
        lambda data: base64.b64encode(gzip.compress(data)),
        lambda data: data.hex().encode(),
    ],
)
def test_the_search_sees_through_disguises(disguise) -> None:
    noise = np.random.default_rng(3).bytes(5_000)
    for form in spellings(PLANTED["PatientName"]):
        hidden = noise + disguise(b"header " * 20 + form + b" trailer" * 20) + noise
        assert form in found(spellings(PLANTED["PatientName"]), hidden)
