"""DICOM files a second into the encrypted store, on pydicom's own files; the peer is a plain loop.

The peer does what a short script does: `dcmread`, `pixel_array`, then drop private tags and empty every attribute of
the identifying value representations. It leaves text in pixels, tells no patients apart and encrypts nothing, so it
does less. A site map gives every study a patient, so that files with a blank patient ID are ingested too.

Text search (tesseract) takes most of the time where captures and ultrasound are among the files. `--plain` leaves out
the files that need it, and those that are no image, so that the figure is of files read, cleaned and stored.

`--series MB` measures instead the peak memory while a generated CT series of that size is ingested.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pydicom
from pydicom.data import get_testdata_file

from stage_bank.dicom.quiet import quiet
from stage_bank.ingest import SiteMap, ingest_folder
from stage_bank.ingest.store import ImageStore
from tests.stage_bank.dicom_files import KEY, ct, write

GOAL = 40.0
PEAK_GOAL_MB = 1024
_EMPTIED = frozenset({"PN", "LO", "SH", "LT", "ST", "UT", "DA", "TM", "DT", "UI"})
_PLAIN = frozenset({"CR", "CT", "DX", "MG", "MR", "PT"})
_KEPT = frozenset({"SOPClassUID", "TransferSyntaxUID"})


@quiet()
def peer(folder: Path) -> float:
    """Seconds of the plain loop."""
    started = time.perf_counter()
    for file in sorted(folder.rglob("*")):
        try:
            dataset = pydicom.dcmread(file)
            _ = dataset.pixel_array
            dataset.remove_private_tags()
            for element in dataset.iterall():
                if element.VR in _EMPTIED and element.keyword not in _KEPT:
                    element.value = ""
        except Exception:  # the loop of a script: whatever fails is skipped
            continue
    return time.perf_counter() - started


def ours(folder: Path, state: Path, site_map: SiteMap | None = None) -> tuple[float, list[str]]:
    """Seconds of ingest with the store, and the report."""
    started = time.perf_counter()
    result = ingest_folder(folder, KEY, site_map=site_map, per_patient=64)
    store = ImageStore.open(state / "images", state / "bank.key")
    store.add(result.images, result.identifiers)
    return time.perf_counter() - started, result.report.lines()


@quiet()
def copies(target: Path, plain: bool) -> tuple[int, SiteMap]:
    """pydicom's files, and a map that gives each study, or file without one, a patient."""
    source = Path(get_testdata_file("CT_small.dcm") or "").parent
    target.mkdir()
    units: dict[tuple[str, str], str] = {}
    number = 0
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        try:
            dataset = pydicom.dcmread(file, force=True)
            study = str(dataset.get("StudyInstanceUID") or "")
            usable = "PixelData" in dataset and dataset.get("Modality") in _PLAIN and dataset.SamplesPerPixel == 1
        except Exception:  # files that are damaged on purpose
            study, usable = "", False
        if plain and not usable:
            continue
        name = f"{number:03d}"
        (target / name).write_bytes(file.read_bytes())
        units[("study", study) if study else ("file", name)] = name
        number += 1
    return number, SiteMap(units)


def series(target: Path, megabytes: int) -> int:
    """A CT series of 512 x 512 slices along the body's axis."""
    count = megabytes * 2
    rng = np.random.default_rng(1)
    for number in range(count):
        pixels = rng.integers(0, 4000, (512, 512)).astype(np.uint16)
        values = {
            "SeriesInstanceUID": "1.2.3",
            "StudyInstanceUID": "1.2.3.4",
            "BodyPartExamined": "CHEST",
            "ImagePositionPatient": [0, 0, number],
            "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
            "PixelSpacing": [1, 1],
        }
        write(ct("P-1", pixels, **values), target / f"{number:05d}")
    return count


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, metavar="MB")
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    megabytes = arguments.series
    with tempfile.TemporaryDirectory() as root:
        folder, state = Path(root, "dicom"), Path(root, "state")
        if megabytes:
            count = series(folder, megabytes)
            taken, _ = ours(folder, state)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            goal, unit = f"ours < {PEAK_GOAL_MB}", f"MB peak, {count} slices in {taken:.0f} s; peer: size of the series"
            values = {"ours": round(peak), "peer": megabytes, "ratio": round(peak / megabytes, 2)}
            holds = peak < PEAK_GOAL_MB
        else:
            count, site_map = copies(folder, arguments.plain)
            peer(folder)  # loads decoders
            taken, lines = ours(folder, state, site_map)
            print(lines[0])
            speed, other = count / taken, count / peer(folder)
            values = {"ours": round(speed, 1), "peer": round(other, 1), "ratio": round(speed / other, 2)}
            goal, unit, holds = (
                f"ours >= {GOAL:.0f}",
                f"files/s, {count} files{' that need no text search' if arguments.plain else ''}",
                speed >= GOAL,
            )
    print(json.dumps({"name": "ingest", **values, "unit": unit, "goal": goal, "holds": holds}))


if __name__ == "__main__":
    main()
