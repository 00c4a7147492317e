"""The evaluation wall: how surely held-out content is known again, and how rarely something else is taken for it.

    python tests/benchmarks/isolation.py

Pictures are the sources and the cases of both held-out suites, changed in five ways, with noise up to a tenth of the
grey range; texts are paragraphs of the documentation that ships with NumPy, SciPy and scikit-image, half of them held
out. Other pictures are crops of the pictures at the sample sites and of the demonstrations, and the cases of states
made of them. The last line is one JSON object: the lowest recall, with the false-positive rate in the unit.
"""

from __future__ import annotations

import json
import math
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import scipy
import skimage
from scipy import ndimage

from common.signing import SigningKey
from deploy.demo_settings import CELLS_PER_TRACK, TRACKS
from deploy.prepare import make_once, suites_job
from deploy.sample_sites import make
from server.fingerprints import suite_fingerprints
from server.heldout import load_suite
from stage_bank.fabrication import CASES, random_condition
from stage_bank.images import public_images
from stage_bank.ingest import ingest_folder
from stage_bank.picture import Picture
from stage_bank.tracks import TRACKS as ALL_TRACKS
from stage_bank.walls import FingerprintSet, fingerprint_suites, read_fingerprints
from stage_bank.walls.contents import read_array

GOAL_RECALL, GOAL_FALSE = 0.95, 0.01
CROPS = 40
Array = npt.NDArray[np.float64]

PICTURE_CHANGES: Mapping[str, Callable[[Array, np.random.Generator], Array]] = {
    "resizing": lambda p, rng: ndimage.zoom(p, rng.uniform(0.4, 2.0, 2), order=1),
    "flips": lambda p, rng: np.rot90(p[:: rng.choice([-1, 1])], rng.integers(4)),
    "re-windowing": lambda p, rng: (
        np.clip((p - rng.uniform(0, 0.15)) / rng.uniform(0.6, 0.95), 0, 1) ** rng.uniform(0.6, 1.7)
    ),
    "inversion": lambda p, rng: 1 - p * rng.uniform(0.7, 1.3),
    "noise": lambda p, rng: p + rng.normal(0, rng.uniform(0.01, 0.1) * np.ptp(p), p.shape),
}
TEXT_CHANGES: Mapping[str, Callable[[str, np.random.Generator], str]] = {
    "letter case": lambda t, rng: rng.choice([str.upper, str.lower, str.title, str.swapcase])(t),
    "unicode": lambda t, rng: unicodedata.normalize(
        rng.choice(["NFD", "NFKD", "NFC"]), "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t)
    ),
    "white space": lambda t, rng: re.sub(r"\s+", lambda _: rng.choice([" ", "\n", "\t", "\u00a0", "  "]), t),
    "numbers": lambda t, rng: re.sub(r"\d+", lambda _: str(rng.integers(10**4)), t),
}


def interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share, z = hits / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return middle - half, middle + half


def line(name: str, found: Sequence[bool]) -> float:
    """Print a share with its interval and give it."""
    low, high = interval(sum(found), len(found))
    share = sum(found) / len(found)
    print(f"{name:32} {share:7.4f}  [{low:.4f}, {high:.4f}]  of {len(found)}")
    return share


def held_out(suites: Path) -> Iterator[Array]:
    """Sources and cases of both suites."""
    for split in ("gate", "sealed"):
        yield from (image.pixels.astype(np.float64) for image in public_images(split))
        for state in load_suite(suites / f"{split}.jsonl").states:
            for path, data in state.files.items():
                array = read_array(path, data)
                if path.startswith("cases/") and array is not None and np.isfinite(array).all():
                    yield array / max(float(np.abs(array).max()), 1.0)


def others(rng: np.random.Generator) -> Iterator[Array]:
    """Crops of pictures of other patients, and cases made of them."""
    pictures = [image.pixels for image in public_images("demonstrations")]
    with TemporaryDirectory() as folder:
        for site in make(Path(folder)).values():
            pictures += [image.pixels for image in ingest_folder(site, bytes(16)).images]
    for pixels in pictures:
        for _ in range(CROPS):
            rows, columns = (max(int(side * rng.uniform(0.4, 1.0)), 32) for side in pixels.shape)
            top, left = (int(rng.integers(a - b + 1)) for a, b in zip(pixels.shape, (rows, columns), strict=True))
            yield pixels[top : top + rows, left : left + columns].astype(np.float64)
        for track in TRACKS:
            made = ALL_TRACKS[track].fabricate([Picture(pixels)], random_condition(track, rng), rng, CASES)
            yield from (a for path, data in made.files.items() if (a := read_array(path, data)) is not None)


def paragraphs() -> list[str]:
    """Prose of other people, at least 20 words each."""
    texts: set[str] = set()
    for package in (np, scipy, skimage):
        for file in sorted(Path(str(package.__file__)).parent.rglob("*.py"))[:400]:
            for text in re.findall(r'"""(.*?)"""', file.read_text(errors="ignore"), re.DOTALL):
                texts |= {part.strip() for part in text.split("\n\n") if len(re.findall(r"[a-z]{2,}", part)) >= 20}
    return sorted(texts)


def measure_pictures(prints: FingerprintSet, suites: Path) -> tuple[float, float]:
    """Lowest recall over the changes, and the share of other pictures that match."""
    rng = np.random.default_rng(0)
    pictures = list(held_out(suites))
    recalls = []
    for name, change in PICTURE_CHANGES.items():
        recalls.append(line(f"pictures, {name}", [prints.matches_picture(change(p, rng)) for p in pictures]))
    started = time.perf_counter()
    found = [prints.matches_picture(picture) for picture in others(rng)]
    false = line("other pictures taken for them", found)
    print(f"{(time.perf_counter() - started) / len(found) * 1e3:.2f} ms a picture, fabrication included")
    return min(recalls), false


def measure_texts() -> tuple[float, float]:
    """The same for texts."""
    rng = np.random.default_rng(1)
    texts = paragraphs()
    rng.shuffle(texts)
    half = len(texts) // 2
    prints = fingerprint_suites(bytes(32), [], texts[:half][:300], texts[half:])
    recalls = []
    for name, change in TEXT_CHANGES.items():
        kept = [text for text in texts[:300] if prints.matches_text(text)]
        recalls.append(line(f"texts, {name}", [prints.matches_text(change(text, rng)) for text in kept]))
    return min(recalls), line("other texts taken for them", [prints.matches_text(text) for text in texts[half:]][:3000])


def main() -> None:
    """Measure and print the result."""
    (suites,) = make_once([suites_job(TRACKS, CELLS_PER_TRACK)])
    key = SigningKey.generate()
    prints = read_fingerprints(suite_fingerprints(suites, key), key.public)
    picture_recall, picture_false = measure_pictures(prints, suites)
    text_recall, text_false = measure_texts()
    recall, false = min(picture_recall, text_recall), max(picture_false, text_false)
    result = {
        "name": "isolation",
        "ours": round(recall, 4),
        "peer": GOAL_RECALL,
        "ratio": round(recall / GOAL_RECALL, 3),
        "unit": f"lowest recall; false positives {false:.4f}",
        "goal": f"recall >= {GOAL_RECALL}, false positives <= {GOAL_FALSE}",
        "holds": recall >= GOAL_RECALL and false <= GOAL_FALSE,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
