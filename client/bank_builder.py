"""Filling a site's Stage Bank: fabricate over the grid of cells, wall, admit. Everything stays at the site."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from client.bank_schedule import Cell, Job, Schedule
from client.site_config import SiteConfig
from client.site_images import PatientTurns, ingest_images, open_image_store
from common.canonical import Json
from common.errors import BankError, ConfigurationError
from common.files import write_durably
from common.sandbox import Sandbox
from common.signing import VerifyKey
from rubrics.replay import Replayer
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.ingest.store import ImageStore
from stage_bank.state import TrainingState
from stage_bank.store import Snapshot, StageBank
from stage_bank.walls import EvaluationWall, Walls, read_fingerprints
from stage_bank.walls.patient import PatientWall

__all__ = ["Filled", "fill_bank"]

SNAPSHOT_EVERY = 42
"""States between two snapshots while the bank grows."""

REJECTED_IN_A_ROW = 100
"""States kept out one after the other before the images are blamed."""

Progress = Callable[[Mapping[str, Json]], None]
Announce = Callable[[Snapshot], None]


@dataclass(frozen=True)
class Filled:
    """What one filling did.

    Args:
        snapshot: the latest snapshot.
        added: states that were admitted; 0 when the bank was full already.
        rejected: states that a wall kept out.
        report: what became of the site's files, line by line; empty when its pictures were in the store already.
    """

    snapshot: Snapshot
    added: int
    rejected: int
    report: tuple[str, ...]


def fill_bank(config: SiteConfig, sandbox: Sandbox, progress: Progress, announce: Announce = lambda _: None) -> Filled:
    """Bring the bank up to the number of states that the site wants, and go on where an earlier filling stopped.

    Pictures come from the site's image store; an empty one is filled from its data folder first.

    Args:
        config: the site's settings.
        sandbox: where handoffs and admission checks run.
        progress: called with a record now and then; for local eyes only.
        announce: called with every new snapshot.

    Raises:
        DataError: no usable image.
        BankError: no state can be made of the images, the bank cannot be written, or another process writes it.
        ConfigurationError: the settings ask for no states, or name fingerprints that cannot be read.
        SigningError: the fingerprints are not the server's.
    """
    wanted = config.bank.states
    if wanted == 0:
        raise ConfigurationError("bank.states is 0", where=config.site, remedy="Set how many states the bank holds.")
    with _open_for_writing(config) as bank:
        latest = bank.latest_snapshot()
        held = before = 0 if latest is None else len(latest.rows)
        if latest is not None and held >= wanted:
            return Filled(latest, 0, 0, ())
        evaluation = _evaluation_wall(config)
        store, report = _images(config, progress)
        walls = Walls(PatientWall(store.identifiers()), evaluation)
        turns = PatientTurns(store, lambda picture: evaluation is not None and evaluation.holds_out(picture))
        cursor = _Cursor(config.state / "builder.json")
        schedule = Schedule(config.policy.tracks, latest.rows if latest else (), cursor.start)
        rejected = in_a_row = 0
        for made in _fabricated(config, schedule, turns, walls, sandbox):
            rejected += made.rejected
            in_a_row = 0 if made.states else in_a_row + made.rejected
            if in_a_row >= REJECTED_IN_A_ROW:
                raise BankError("the walls keep every state out", where=str(config.data), remedy="Add images.")
            for state in made.states[: wanted - held]:
                bank.add(state)
                held += 1
                if held % 10 == 0:
                    progress({"state": "building bank", "states": held, "of": wanted})
                if held == wanted or (
                    held >= config.bank.first_snapshot and (latest is None or held % SNAPSHOT_EVERY == 0)
                ):
                    latest = bank.snapshot()
                    cursor.save(made.job)
                    announce(latest)
            if held == wanted:
                break
        return Filled(bank.snapshot(), held - before, rejected, report)


@dataclass(frozen=True)
class _Made:
    """What came of a job: whether its pictures carry the condition, the admissible states, and how many were not."""

    job: Job
    holds: bool
    states: tuple[TrainingState, ...] = ()
    rejected: int = 0

    @property
    def cells(self) -> set[Cell]:
        return {(state.outcome, state.focus) for state in self.states}


def _fabricated(
    config: SiteConfig, schedule: Schedule, turns: PatientTurns, walls: Walls, sandbox: Sandbox
) -> Iterator[_Made]:
    """Finished jobs in the order in which they were handed out, as many under way at once as the site allows.

    Raises:
        BankError: the images admit none any more.
    """
    replayer = Replayer(sandbox)

    def make(job: Job) -> _Made:
        rng = np.random.default_rng([config.bank.seed, job.number])
        patient, pictures = turns.turn(job.number)
        maker = Fabricator(job.track, random_condition(job.track, rng), pictures, patient, rng, sandbox, replayer)
        if not maker.admissible:
            return _Made(job, False)
        drafts = [maker.draft(focus, outcome, rng) for outcome, focus in job.cells]
        states = tuple(state for state in drafts if not walls.breaches(state))
        return _Made(job, True, states, len(drafts) - len(states))

    pool = ThreadPoolExecutor(config.bank.workers, "fabricate")
    under_way: deque[Future[_Made]] = deque()
    try:
        while True:
            while len(under_way) <= config.bank.workers and (job := schedule.take()) is not None:
                under_way.append(pool.submit(make, job))
            if not under_way:
                raise BankError("no state can be made of these images", where=str(config.data), remedy="Add images.")
            made = under_way.popleft().result()
            schedule.settle(made.job, made.cells, holds=made.holds)
            yield made
    finally:
        pool.shutdown(cancel_futures=True)


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

    def save(self, job: Job) -> None:
        write_durably(self._file, json.dumps({"next": job.number + 1}).encode())


def _images(config: SiteConfig, progress: Progress) -> tuple[ImageStore, tuple[str, ...]]:
    """The site's pictures, and what an ingest that was needed for them has to say."""
    store = open_image_store(config)
    if store.patients():
        return store, ()
    progress({"state": "reading images"})
    return store, tuple(ingest_images(config, config.data).report.lines())


def _open_for_writing(config: SiteConfig) -> StageBank:
    vault = config.open_vault(create=True)
    if (config.bank_folder / "index.sqlite").exists():
        return StageBank.open(config.bank_folder, vault, write=True)
    return StageBank.create(config.bank_folder, vault)


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
