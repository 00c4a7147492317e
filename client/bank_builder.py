"""Filling a site's Stage Bank: ingest, fabricate over the grid of cells, wall, admit. Everything stays at the site."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path

import numpy as np

from client.site_config import SiteConfig
from common.canonical import Json
from common.errors import BankError, ConfigurationError, DataError
from common.sandbox import Sandbox
from common.signing import VerifyKey
from common.stages import Focus, Outcome, Track
from rubrics.replay import Replayer
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.ingest import PatientImage
from stage_bank.ingest.references import ingest_site
from stage_bank.isolation import PatientWall
from stage_bank.picture import Picture
from stage_bank.state import TrainingState
from stage_bank.store import Snapshot, StageBank, write_durably
from stage_bank.walls import EvaluationWall, Walls, read_fingerprints

__all__ = ["Filled", "fill_bank", "site_secret"]

STATES_PER_CONDITION = 3
"""States that share one patient's pixels and one condition; more is faster, fewer is more varied."""

SNAPSHOT_EVERY = 42
"""States between two snapshots while the bank grows."""

ATTEMPTS = 20
"""Conditions tried in a row without one admitted state before a track is left out."""

REJECTED_IN_A_ROW = 100
"""States kept out one after the other before the images are blamed."""

CELLS = tuple(product(Outcome, Focus))
"""The cells of a track, in the order in which they are filled."""

Progress = Callable[[Mapping[str, Json]], None]
Announce = Callable[[Snapshot], None]
Cell = tuple[Track, Outcome, Focus]


@dataclass(frozen=True)
class Filled:
    """What one filling did.

    Args:
        snapshot: the latest snapshot.
        rejected: states that a wall kept out.
        report: what became of the files, line by line; empty when the bank was full already.
    """

    snapshot: Snapshot
    rejected: int
    report: tuple[str, ...]


def fill_bank(config: SiteConfig, sandbox: Sandbox, progress: Progress, announce: Announce = lambda _: None) -> Filled:
    """Bring the bank up to the number of states that the site wants, and go on where an earlier filling stopped.

    Args:
        config: the site's settings.
        sandbox: where handoffs and admission checks run.
        progress: called with a record now and then; for local eyes only.
        announce: called with every new snapshot.

    Raises:
        DataError: no usable image, or no state can be made of them.
        BankError: the bank cannot be written, or another process writes it.
        ConfigurationError: the settings ask for no states, or name fingerprints that cannot be read.
        SigningError: the fingerprints are not the server's.
    """
    if config.bank.states == 0:
        raise ConfigurationError("bank.states is 0", where=config.site, remedy="Set how many states the bank holds.")
    with _open_for_writing(config) as bank:
        latest = bank.latest_snapshot()
        if latest is not None and len(latest.rows) >= config.bank.states:
            return Filled(latest, 0, ())
        evaluation = _evaluation_wall(config)
        progress({"state": "reading images"})
        ingested = ingest_site(config.data, site_secret(config.state / "site.secret"))
        report = config.state / "ingest_report.json"
        report.write_text(json.dumps(ingested.report.to_json(), indent=1) + "\n", encoding="utf-8")
        walls = Walls(PatientWall(ingested.identifiers), evaluation)
        images = [image for image in ingested.images if evaluation is None or not evaluation.holds_out(image.picture)]
        if not images:
            raise DataError("every usable image is in the server's held-out suites", where=str(config.data))
        cursor = _Cursor(config.state / "builder.json")
        held, rejected, in_a_row = 0 if latest is None else len(latest.rows), 0, 0
        for index, state in _states(config, latest, images, sandbox, cursor.start):
            if walls.breaches(state):
                rejected += 1
                in_a_row += 1
                if in_a_row >= REJECTED_IN_A_ROW:
                    raise BankError("the walls keep every state out", where=str(config.data), remedy="Add images.")
                continue
            in_a_row = 0
            bank.add(state)
            held += 1
            if held % 10 == 0:
                progress({"state": "building bank", "states": held, "of": config.bank.states})
            done = held >= config.bank.states
            if done or (held >= config.bank.first_snapshot and (latest is None or held % SNAPSHOT_EVERY == 0)):
                latest = bank.snapshot()
                cursor.save(index)
                announce(latest)
            if done:
                break
        return Filled(bank.snapshot(), rejected, tuple(ingested.report.lines()))


class _Cursor:
    """Where in the endless series of conditions the bank stands, so that a later filling makes other states."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def start(self) -> int:
        try:
            return int(json.loads(self._file.read_bytes())["next"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def save(self, index: int) -> None:
        write_durably(self._file, json.dumps({"next": index + 1}).encode())


def _open_for_writing(config: SiteConfig) -> StageBank:
    vault = config.open_vault(create=True)
    if (config.bank_folder / "index.sqlite").exists():
        return StageBank.open(config.bank_folder, vault, write=True)
    return StageBank.create(config.bank_folder, vault)


def _states(
    config: SiteConfig, latest: Snapshot | None, images: Sequence[PatientImage], sandbox: Sandbox, start: int
) -> Iterator[tuple[int, TrainingState]]:
    """Endless admissible states, each with the number of its condition: patients take turns, the track with the fewest
    states is next, and within it the emptiest cells. A track that the images do not admit is left out.

    Raises:
        BankError: the images admit none any more.
    """
    patients = _by_patient(images)
    replayer = Replayer(sandbox)
    tracks = list(config.policy.tracks)
    filled: Counter[Cell] = Counter((row.track, row.outcome, row.focus) for row in (latest.rows if latest else ()))
    misses: Counter[Track] = Counter()
    for index in count(start):
        track = min(tracks, key=lambda track: sum(filled[track, *cell] for cell in CELLS))
        rng = np.random.default_rng([config.bank.seed, index])
        patient, pictures = patients[index % len(patients)]
        maker = Fabricator(track, random_condition(track, rng), pictures, patient, rng, sandbox, replayer)
        misses[track] += 1
        if maker.admissible:
            emptiest = sorted(CELLS, key=lambda cell: filled[track, *cell])[:STATES_PER_CONDITION]
            for outcome, focus in emptiest:
                state = maker.state(focus, outcome, rng)
                if state is not None:
                    filled[track, outcome, focus] += 1
                    misses[track] = 0
                    yield index, state
        elif misses[track] >= ATTEMPTS:
            tracks.remove(track)
            if not tracks:
                raise BankError("no state can be made of these images", where=str(config.data), remedy="Add images.")


def _by_patient(images: Sequence[PatientImage]) -> list[tuple[str, list[Picture]]]:
    grouped: dict[str, list[Picture]] = {}
    for image in images:
        grouped.setdefault(image.patient, []).append(image.picture)
    return list(grouped.items())


def _evaluation_wall(config: SiteConfig) -> EvaluationWall | None:
    """The wall against the server's suites; none while the site has no fingerprints of them.

    Raises:
        ConfigurationError: the file cannot be read.
        SigningError: it is not signed by the server.
    """
    file = config.server.fingerprints
    if file is None:
        return None
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            "cannot read the server's fingerprints", where=str(file), remedy=f"{error.strerror}."
        ) from error
    return EvaluationWall(read_fingerprints(data, VerifyKey.from_hex(config.server.public_key)))


def site_secret(path: Path) -> bytes:
    """The key behind the site's pseudonyms, made once."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(os.urandom(32))
    return path.read_bytes()
