"""The learner of a real site: draws states from the bank and practises on them with GRPO in the sandbox.

Torch and what builds on it load in the background, so that the daemon answers at once and the first round finds them
ready.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from client.builder_process import BuilderProcess
from client.learner import Progress
from client.site_bank import latest_snapshot, open_site_bank
from client.site_config import SiteConfig
from common.adapter import Adapter, AdapterSpec
from common.base_model import BaseModel
from common.canonical import Json, digest_bytes
from common.errors import BatError, PolicyRefusal
from common.factors import frozen_factor
from common.ledger import Ledger
from common.messages import Prescription, RefusalCode
from common.sandbox import Sandbox
from common.signing import SigningKey
from rubrics.replay import Replayer
from stage_bank.environment import StageEnvironment
from stage_bank.materialise import RoundRow, materialise
from stage_bank.prompts import user_prompt
from stage_bank.store import StageBank
from stage_bank.toolkit import open_toolkit_sandbox

if TYPE_CHECKING:
    from common.policy import Policy

__all__ = ["GrpoLearner"]

MICRO_BATCH = 16
"""Rollouts of one backward pass at most: a whole step of 64 at once holds 280 MB more and is a tenth faster."""


class GrpoLearner:
    """Practises on the site's own Stage Bank.

    Args:
        config: the site's settings.
        model: the approved base model.
        ledger: the site's ledger.
    """

    def __init__(self, config: SiteConfig, model: BaseModel, ledger: Ledger) -> None:
        self._config = config
        self._model = model
        self._ledger = ledger
        self._bank: StageBank | None = None
        self._builder: BuilderProcess | None = None
        self._sandbox: Sandbox | None = None
        self._loading: threading.Thread | None = None
        self._policy: Policy | None = None
        self._failure: Exception | None = None

    @property
    def base_model(self) -> str:
        """Digest of the approved base model."""
        return self._model.digest

    @property
    def spec(self) -> AdapterSpec:
        """The adapter this base model takes."""
        return self._model.spec

    @property
    def states(self) -> int:
        """Number of states in the bank's latest snapshot."""
        return 0 if self._bank is None else len(latest_snapshot(self._bank).rows)

    def open(self, progress: Progress) -> None:
        """Open the bank once it has a snapshot, with the builder at work on it, and start loading the model.

        Raises:
            BatError: the images, the bank or the sandbox cannot be used.
        """
        if self._config.bank.states == 0:
            return
        self._sandbox = open_toolkit_sandbox(SigningKey.generate())
        self._builder = BuilderProcess(self._config, progress, self._on_snapshot)
        self._builder.start()
        self._builder.wait_for_snapshot()
        self._bank = open_site_bank(self._config)
        self._loading = threading.Thread(target=self._load, name="load-policy", daemon=True)
        self._loading.start()

    def _on_snapshot(self, snapshot: Mapping[str, Json]) -> None:
        self._ledger.append("bank_snapshot", dict(snapshot))

    def close(self) -> None:
        """End the builder and the sandbox, and close the bank."""
        if self._builder is not None:
            self._builder.close()
        if self._sandbox is not None:
            self._sandbox.close()
        if self._bank is not None:
            self._bank.close()

    def train(
        self, prescription: Prescription, start: Adapter, progress: Progress, cancelled: Callable[[], bool]
    ) -> Adapter:
        """One round; see `Learner.train`."""
        optimizer = prescription.optimizer
        if optimizer.steps == 0:
            return start
        bank, sandbox = self._bank, self._sandbox
        if bank is None or sandbox is None:
            raise PolicyRefusal(RefusalCode.NOT_READY, "this site has no bank", remedy="Set bank.states.")
        round_id = f"{self._config.bank.seed}/{prescription.round}/{self._config.site}"
        asked = time.monotonic()
        snapshot = latest_snapshot(bank)
        waited = time.monotonic() - asked
        groups = materialise(
            snapshot.rows,
            round_id=round_id,
            target_stage=prescription.target_stage,
            tracks=prescription.tracks,
            batches=optimizer.steps,
            batch_rows=optimizer.groups_per_step,
            pool_odds=prescription.pool_odds,
        )
        rows = [{"state_id": row.source.state_id, "prompt": _prompt(row)} for row in groups]
        policy = self._ready_policy()
        replayer = Replayer(sandbox)

        from client.trainer import train_round

        def environment() -> StageEnvironment:
            return StageEnvironment(bank.state, sandbox, replayer)

        def report(record: dict[str, Any]) -> None:
            progress({"state": "training", "snapshot": snapshot.number, "bank_wait_s": round(waited, 4), **record})

        micro_batch = math.gcd(optimizer.groups_per_step * optimizer.group_size, MICRO_BATCH)
        return train_round(
            policy,
            start,
            environment,
            rows,
            optimizer,
            _seed(round_id),
            report,
            cancelled,
            micro_batch=micro_batch,
            frozen=frozen_factor(prescription.aggregation, prescription.round),
        )

    def _load(self) -> None:
        try:
            import torch

            import client.trainer.grpo  # noqa: F401  (seconds of imports that a round should not wait for)
            from common.policy import load_policy

            torch.set_num_threads(1)
            self._policy = load_policy(self._config.model)
        except Exception as error:
            self._failure = error

    def _ready_policy(self) -> Policy:
        if self._loading is not None:
            self._loading.join()
        if self._policy is None:
            reason = str(self._failure)
            raise (
                self._failure if isinstance(self._failure, BatError) else BatError(f"the policy did not load: {reason}")
            )
        return self._policy


def _prompt(row: RoundRow) -> str:
    return user_prompt(row.source.track, row.source.focus)


def _seed(round_id: str) -> int:
    """Differs between sites and rounds, and is the same when a run is repeated; below 2**32."""
    return int(digest_bytes(round_id.encode())[:8], 16)
