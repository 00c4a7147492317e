"""A site's parts, put together in a folder, with a base model that is never loaded."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from client.airlock import Airlock
from client.history import SiteHistory
from client.rounds import RoundDesk, RoundJob
from client.site_policy import SitePolicy
from common.adapter import Adapter, AdapterSpec, RawTensor
from common.base_model import BaseModel, read_base_model
from common.ledger import Event as LedgerEvent
from common.ledger import Ledger, read_ledger
from common.messages import OptimizerSettings, Prescription, SelectionReason, sign_message
from common.signing import SigningKey
from common.stages import SourcePool, Stage, Track
from tests.client.hospital import Hospital
from tests.e2e.federation import tiny_model


@dataclass
class HalfStep:
    """A learner that adds one half to every value; it can be held up, and it can fail."""

    model: BaseModel
    held: Event | None = None
    failure: Exception | None = None
    rounds: int = 0

    @property
    def base_model(self) -> str:
        return self.model.digest

    @property
    def spec(self) -> AdapterSpec:
        return self.model.spec

    def train(
        self, prescription: Prescription, start: Adapter, progress: Callable[..., None], cancelled: Callable[[], bool]
    ) -> Adapter:
        self.rounds += 1
        progress({"step": 1, "reward_mean": 0.123456})
        while self.held is not None and not self.held.wait(0.01) and not cancelled():
            pass
        if self.failure is not None:
            raise self.failure
        return {name: RawTensor.from_array(tensor.to_float32() + 0.5) for name, tensor in start.items()}


@dataclass
class Site:
    """One site's round desk and what belongs to it."""

    root: Path
    model: BaseModel
    server: SigningKey
    learner: HalfStep
    key: SigningKey
    policy: SitePolicy = field(default_factory=SitePolicy)
    progress: list[dict[str, object]] = field(default_factory=list)
    ledger: Ledger | None = None

    def open(self) -> None:
        """(Re)open the site's records, as a daemon does when it starts."""
        if self.ledger is not None:
            self.ledger.close()
        self.ledger = Ledger(self.root / "ledger.jsonl", self.key)
        history = SiteHistory.of(read_ledger(self.ledger.path))
        limit = self.policy.max_update_bytes
        self.airlock = Airlock(self.ledger, history, self.key, self.root / "releases", limit)
        self.desk = RoundDesk(
            site="north",
            server=self.server.public,
            policy=self.policy,
            learner=self.learner,
            airlock=self.airlock,
            ledger=self.ledger,
            history=history,
            progress=lambda record: self.progress.append(dict(record)),
        )

    def prescription(self, **changes: object) -> Prescription:
        """A prescription that this site accepts, but for `changes`."""
        now = int(time.time())
        fields = {
            "run": "demo",
            "round": 1,
            "site": "north",
            "nonce": "1" * 64,
            "target_stage": Stage.PLAN,
            "selection_reason": SelectionReason.INITIAL,
            "pool_odds": {SourcePool.TARGET: 0.5, SourcePool.MIX: 0.25, SourcePool.E2E: 0.25},
            "tracks": (Track.ENHANCEMENT,),
            "aggregation": "fedavg",
            "optimizer": OptimizerSettings(
                steps=1,
                groups_per_step=1,
                group_size=2,
                learning_rate=1e-3,
                kl_coefficient=0.0,
                temperature=1.0,
                max_turns=4,
                max_tokens=256,
            ),
            "starting_adapter": _digest(self.model.initial_adapter),
            "base_model": self.model.digest,
            "differential_privacy": False,
            "issued_unix": now,
            "deadline_unix": now + 60,
            **changes,
        }
        return Prescription.model_validate(fields)

    def begin(self, prescription: Prescription, *, key: SigningKey | None = None, adapter: bytes | None = None):
        """Hand a prescription to the desk."""
        signed = sign_message(prescription, key or self.server)
        return self.desk.begin(signed, self.model.initial_adapter if adapter is None else adapter)

    def outcome(self, prescription: Prescription):
        """Run a round to its end."""
        answer = self.begin(prescription)
        return answer.wait(10.0) if isinstance(answer, RoundJob) else answer

    def events(self, kind: str) -> list[LedgerEvent]:
        """The ledger's events of one kind."""
        return [event for event in read_ledger(self.root / "ledger.jsonl") if event.kind == kind]


def _digest(data: bytes) -> str:
    from common.canonical import digest_bytes

    return digest_bytes(data)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    model = read_base_model(tiny_model(tmp_path / "model"))
    made = Site(tmp_path, model, SigningKey.generate(), HalfStep(model), SigningKey.generate())
    made.open()
    yield made
    made.desk.stop(5.0)


@pytest.fixture
def hospital() -> Iterator[Hospital]:
    root = Path(tempfile.mkdtemp(prefix="bat-", dir="/tmp"))
    root.chmod(0o711)
    made = Hospital(root)
    yield made
    made.close()
    shutil.rmtree(root, ignore_errors=True)
