"""Building a site's Stage Bank: ingest, fabricate over the grid of cells, wall, seal. Everything stays at the site."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, cycle, islice, product
from pathlib import Path

import numpy as np

from client.site_config import SiteConfig
from common.canonical import Json
from common.errors import BankError, ConfigurationError
from common.sandbox import Sandbox
from common.stages import Focus, Outcome, Track
from rubrics.replay import Replayer
from stage_bank.bank import StageBank
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.ingest import PatientImage, ingest_folder
from stage_bank.isolation import PatientWall
from stage_bank.picture import Picture
from stage_bank.state import TrainingState

__all__ = ["BuiltBank", "build_bank", "open_bank"]

STATES_PER_CONDITION = 3
"""States that share one patient's pixels and one condition; more is faster, fewer is more varied."""

ATTEMPTS = 20
"""Conditions tried in a row without one admitted state before a track is left out."""

Progress = Callable[[Mapping[str, Json]], None]
Cell = tuple[Focus, Outcome]


@dataclass(frozen=True)
class BuiltBank:
    """A sealed bank and what ingest said.

    Args:
        digest: snapshot digest of the bank; site-local.
        states: number of states.
        patients: number of patients.
        rejected: states that the patient wall kept out.
        report: what became of the files, line by line.
    """

    digest: str
    states: int
    patients: int
    rejected: int
    report: tuple[str, ...]


@dataclass(frozen=True)
class Patient:
    """One patient's pictures under the site's pseudonym."""

    name: str
    pictures: list[Picture]


def open_bank(config: SiteConfig) -> StageBank | None:
    """The site's sealed bank, or `None` when there is none yet or its making was interrupted.

    Raises:
        BankError: the bank is damaged or sealed with another key.
    """
    if not (config.bank_folder / "index.sqlite").exists():
        return None
    bank = StageBank.open(config.bank_folder, config.bank_key_file)
    if bank.sealed:
        return bank
    bank.close()
    return None


def build_bank(config: SiteConfig, sandbox: Sandbox, progress: Progress) -> BuiltBank:
    """Make the bank from the site's images; one whose making was interrupted is made anew.

    Args:
        config: the site's settings.
        sandbox: where handoffs and admission checks run.
        progress: called with a record now and then; for local eyes only.

    Raises:
        DataError: no usable image, or no state can be made of them.
        BankError: a sealed bank is there already, or it cannot be written.
        ConfigurationError: the settings ask for no states.
    """
    if config.bank.states == 0:
        raise ConfigurationError("bank.states is 0", where=config.site, remedy="Set how many states the bank holds.")
    if open_bank(config) is not None:
        raise BankError("a sealed bank is there already", where=str(config.bank_folder), remedy="Move it away first.")
    shutil.rmtree(config.bank_folder, ignore_errors=True)
    progress({"state": "reading images"})
    ingested = ingest_folder(config.data, _site_secret(config.state / "site.secret"))
    report = config.state / "ingest_report.json"
    report.write_text(json.dumps(ingested.report.to_json(), indent=1) + "\n", encoding="utf-8")
    wall = PatientWall(ingested.identifiers)
    rejected = 0
    with StageBank.create(config.bank_folder, config.bank_key_file) as bank:
        for state in _states(config, ingested.images, sandbox):
            if wall.breaches(state):
                rejected += 1
                continue
            bank.add(state)
            held = len(bank.rows())
            if held % 10 == 0:
                progress({"state": "building bank", "states": held, "of": config.bank.states})
            if held >= config.bank.states:
                break
        digest = bank.seal()
        stats = bank.stats()
    return BuiltBank(digest, stats.states, stats.patients, rejected, tuple(ingested.report.lines()))


def _states(config: SiteConfig, images: tuple[PatientImage, ...], sandbox: Sandbox) -> Iterator[TrainingState]:
    """Endless admissible states: patients take turns, the track with the fewest states is next, and each track runs
    through all its cells. A track that the images do not admit is left out.

    Raises:
        BankError: the images admit none any more.
    """
    patients = _by_patient(images)
    replayer = Replayer(sandbox)
    cells: dict[Track, Iterator[Cell]] = {
        track: cycle([(focus, outcome) for outcome, focus in product(Outcome, Focus)]) for track in config.policy.tracks
    }
    made, misses = Counter(config.policy.tracks), Counter[Track]()
    for index in count():
        track = min(cells, key=lambda track: made[track])
        rng = np.random.default_rng([config.bank.seed, index])
        patient = patients[index % len(patients)]
        maker = Fabricator(track, random_condition(track, rng), patient.pictures, patient.name, rng, sandbox, replayer)
        misses[track] += 1
        if maker.admissible:
            for focus, outcome in islice(cells[track], STATES_PER_CONDITION):
                state = maker.state(focus, outcome, rng)
                if state is not None:
                    made[track] += 1
                    misses[track] = 0
                    yield state
        elif misses[track] >= ATTEMPTS:
            del cells[track]
            if not cells:
                raise BankError("no state can be made of these images", where=str(config.data), remedy="Add images.")


def _by_patient(images: tuple[PatientImage, ...]) -> list[Patient]:
    grouped: dict[str, list[Picture]] = {}
    for image in images:
        grouped.setdefault(image.patient, []).append(Picture(image.pixels, facts={"modality": image.modality}))
    return [Patient(name, pictures) for name, pictures in grouped.items()]


def _site_secret(path: Path) -> bytes:
    """The key behind the site's pseudonyms, made once."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(os.urandom(32))
    return path.read_bytes()
