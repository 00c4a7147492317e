"""Shared by all tests that run the stage toolkit: one warm sandbox a session, and states made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from common.sandbox import Sandbox
from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from rubrics import Replayer
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.images import public_images
from stage_bank.picture import Picture
from stage_bank.state import TrainingState
from stage_bank.toolkit import open_toolkit_sandbox

MakeState = Callable[..., TrainingState]


@pytest.fixture(scope="session")
def sandbox_key() -> SigningKey:
    return SigningKey.generate()


@pytest.fixture(scope="session")
def toolkit_sandbox(sandbox_key: SigningKey) -> Iterator[Sandbox]:
    sandbox = open_toolkit_sandbox(sandbox_key)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="session")
def replayer(toolkit_sandbox: Sandbox) -> Replayer:
    return Replayer(toolkit_sandbox)


@pytest.fixture(scope="session")
def pictures() -> list[Picture]:
    return [image.picture for image in public_images("demonstrations")]


@pytest.fixture(scope="session")
def fabricator(toolkit_sandbox: Sandbox, replayer: Replayer, pictures: list[Picture]) -> Callable[..., Fabricator]:
    """`fabricator(track, **facets)`: admissible pixels under a condition with these facets, made once."""
    made: dict[object, Fabricator] = {}

    def make(track: Track, **facets: str) -> Fabricator:
        key = (track, *sorted(facets.items()))
        rng = np.random.default_rng(1)
        while key not in made:
            condition = {**random_condition(track, rng), **facets}
            image = pictures[int(rng.integers(len(pictures)))]
            candidate = Fabricator(track, condition, [image], "patient", rng, toolkit_sandbox, replayer)
            if candidate.admissible:
                made[key] = candidate
        return made[key]

    return make


@pytest.fixture(scope="session")
def make_state(fabricator: Callable[..., Fabricator]) -> MakeState:
    """`make_state(track, focus, outcome, seed=0, **facets)`: one admitted state."""

    def make(track: Track, focus: Focus, outcome: Outcome, seed: int = 0, **facets: str) -> TrainingState:
        rng = np.random.default_rng(seed)
        states = (fabricator(track, **facets).state(focus, outcome, rng) for _ in range(20))
        return next(state for state in states if state is not None)

    return make
