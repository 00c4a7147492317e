"""The round desk: decides on every prescription, runs at most one round at a time, and keeps its outcome.

A prescription is acted on once. The same one asked again joins the round under way or gets its release again; another
one for an answered round, or a used nonce, is a replay.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from client.airlock import Airlock, Outgoing
from client.history import ACCEPTED, SiteHistory
from client.learner import Learner
from client.site_policy import SitePolicy, check_policy
from common.adapter import Adapter, decode_adapter, difference, encode_adapter
from common.canonical import Json, digest_bytes, digest_json
from common.errors import AdapterError, BatError, LedgerError, PolicyRefusal, SigningError
from common.ledger import Ledger
from common.messages import (
    Prescription,
    Refusal,
    RefusalCode,
    Release,
    message_digest,
    verify_message,
)
from common.signing import VerifyKey

__all__ = ["ProgressLog", "RoundDesk", "RoundJob"]

CLOCK_SKEW_S = 300
"""How far the server's clock may run ahead."""

ProgressLog = Callable[[Mapping[str, Json]], None]
"""Appends a record to the site's local progress file."""


@dataclass
class RoundJob:
    """One accepted round.

    Args:
        prescription: what to do.
        digest: its digest.
        state: where it stands; the only thing the relay sees before the outcome.
        outcome: what may leave, once there is something.
    """

    prescription: Prescription
    digest: str
    state: str = "accepted"
    outcome: Outgoing | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def move(self, state: str, outcome: Outgoing | None = None) -> None:
        """Enter a state and wake whoever waits."""
        with self.changed:
            self.state = state
            self.outcome = outcome
            self.changed.notify_all()

    def wait(self, timeout_s: float) -> Outgoing | None:
        """The outcome, or `None` when there is none after `timeout_s` seconds."""
        with self.changed:
            self.changed.wait_for(lambda: self.outcome is not None, timeout_s)
            return self.outcome


class RoundDesk:
    """Accepts or refuses prescriptions and runs the accepted one in a background thread.

    Args:
        site: this site's name.
        server: the key whose prescriptions are believed.
        policy: the site's limits.
        learner: does the practising.
        airlock: the one door out.
        ledger: the site's ledger.
        history: the site's memory.
        progress: appends to the local progress file.
    """

    def __init__(
        self,
        *,
        site: str,
        server: VerifyKey,
        policy: SitePolicy,
        learner: Learner,
        airlock: Airlock,
        ledger: Ledger,
        history: SiteHistory,
        progress: ProgressLog,
    ) -> None:
        self._site = site
        self._server = server
        self._policy = policy
        self._learner = learner
        self._airlock = airlock
        self._ledger = ledger
        self._history = history
        self._progress = progress
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._refused: set[str] = set()
        self.job: RoundJob | None = None

    def begin(self, signed: bytes, adapter: bytes) -> RoundJob | Outgoing:
        """Take a prescription.

        Args:
            signed: the signed prescription, as received.
            adapter: the starting adapter's safetensors bytes, as received.

        Returns:
            The job that answers it, new or under way; or the answer itself: the release that was made for it before, or
            a signed refusal, whose reason stands in the ledger.
        """
        prescription: Prescription | None = None
        try:
            prescription = self._authentic(signed)
            with self._lock:
                known = self._known(prescription)
                return known if known is not None else self._accept(prescription, adapter)
        except PolicyRefusal as refusal:
            named: dict[str, Json] = {"run": prescription.run, "round": prescription.round} if prescription else {}
            self._record_refusal({**named, "code": refusal.code, "reason": str(refusal)})
            return self.refusal(refusal.code, prescription)

    def _accept(self, prescription: Prescription, adapter: bytes) -> RoundJob:
        start = self._acceptable(prescription, adapter)
        job = RoundJob(prescription, message_digest(prescription))
        body = _accepted_body(job)
        self._ledger.append(ACCEPTED, body)
        self._history.note(ACCEPTED, body)
        self.job = job
        self._thread = threading.Thread(target=self._run, args=(job, start), name="round", daemon=True)
        self._thread.start()
        return job

    def _record_refusal(self, body: dict[str, Json]) -> None:
        """Once a daemon for each reason: the untrusted relay may ask without end, and the disk is not."""
        digest = digest_json(body)
        with self._lock:
            if digest not in self._refused:
                self._ledger.append("prescription_refused", body)
                self._refused.add(digest)

    def refusal(self, code: str, prescription: Prescription | None = None) -> Outgoing:
        """A signed no; only the code leaves."""
        run, number = (prescription.run, prescription.round) if prescription else ("unknown", 0)
        return self._airlock.release(Refusal(run=run, round=number, site=self._site, code=RefusalCode(code)))

    def cancel(self, run: str, round_number: int) -> bool:
        """Stop the named round; whether it was under way."""
        job = self.job
        if job is None or job.outcome is not None:
            return False
        if (job.prescription.run, job.prescription.round) != (run, round_number):
            return False
        job.cancel.set()
        return True

    def stop(self, timeout_s: float) -> bool:
        """Refuse new rounds, end the one under way and wait for it; whether it ended in time."""
        with self._lock:
            self._stopping = True
            job, thread = self.job, self._thread
        if job is not None:
            job.cancel.set()
        if thread is not None:
            thread.join(timeout_s)
            return not thread.is_alive()
        return True

    def _authentic(self, signed: bytes) -> Prescription:
        try:
            prescription = verify_message(signed, Prescription, self._server)
        except SigningError as error:
            raise PolicyRefusal(RefusalCode.BAD_SIGNATURE, "the prescription is not the server's") from error
        if prescription.site != self._site:
            raise PolicyRefusal(RefusalCode.WRONG_SITE, "the prescription is for another site", where=prescription.site)
        return prescription

    def _known(self, prescription: Prescription) -> RoundJob | Outgoing | None:
        """The answer to a prescription that was seen before; refuses what would be a second answer to its round."""
        digest = message_digest(prescription)
        body = self._history.released.get((prescription.run, prescription.round))
        if body is not None:
            if body["prescription"] != digest:
                raise PolicyRefusal(RefusalCode.REPLAYED, "this round was already answered")
            return self._airlock.again(prescription.run, prescription.round)
        running = self.job
        if running is not None and running.digest == digest:
            return running
        if prescription.nonce in self._history.nonces:
            raise PolicyRefusal(RefusalCode.REPLAYED, "the nonce was used before")
        if self._stopping:
            raise PolicyRefusal(RefusalCode.NOT_READY, "the daemon is stopping")
        if running is not None and running.outcome is None:
            raise PolicyRefusal(RefusalCode.BUSY, "another round is under way")
        return None

    def _acceptable(self, prescription: Prescription, adapter: bytes) -> Adapter:
        now = time.time()
        if not prescription.issued_unix - CLOCK_SKEW_S <= now <= prescription.deadline_unix:
            raise PolicyRefusal(RefusalCode.EXPIRED, "the prescription is not valid at this time")
        if prescription.base_model != self._learner.base_model:
            raise PolicyRefusal(RefusalCode.WRONG_BASE_MODEL, "the round is for another base model")
        check_policy(self._policy, prescription)
        if digest_bytes(adapter) != prescription.starting_adapter:
            raise PolicyRefusal(RefusalCode.BAD_ADAPTER, "the adapter is not the one in the prescription")
        try:
            return decode_adapter(adapter, self._learner.spec)
        except AdapterError as error:
            raise PolicyRefusal(RefusalCode.BAD_ADAPTER, error.what, where=error.where) from error

    def _run(self, job: RoundJob, start: Adapter) -> None:
        """Practise, then put the outcome on the job whatever happens; only a code tells the server why not."""
        prescription = job.prescription
        named: dict[str, Json] = {"run": prescription.run, "round": prescription.round}
        try:
            self._move(job, "training")
            trained = self._learner.train(
                prescription, start, lambda record: self._progress({**named, **record}), lambda: _ended(job)
            )
            if _ended(job):
                raise PolicyRefusal(_code(job, None), "the round was cancelled or ran past its deadline")
            self._move(job, "releasing")
            outcome = self._released(job, difference(trained, start))
            state = "released"
        except Exception as error:
            state, outcome = "failed", self._failed(job, error)
        self._progress({**named, "state": state})
        job.move(state, outcome)

    def _failed(self, job: RoundJob, error: Exception) -> Outgoing:
        code = _code(job, error)
        reason = str(error) if isinstance(error, BatError) else f"{type(error).__name__}: {error}"
        named: dict[str, Json] = {"run": job.prescription.run, "round": job.prescription.round}
        try:
            self._ledger.append("round_failed", {**named, "code": code, "reason": reason[:500]})
            return self.refusal(code, job.prescription)
        except LedgerError:
            # What cannot be recorded cannot leave: the caller gets an empty answer.
            return Outgoing(b"")

    def _released(self, job: RoundJob, change: Adapter) -> Outgoing:
        update = encode_adapter(change)
        spec = self._learner.spec
        release = Release(
            run=job.prescription.run,
            round=job.prescription.round,
            site=self._site,
            prescription=job.digest,
            base_model=job.prescription.base_model,
            starting_adapter=job.prescription.starting_adapter,
            adapter_spec=spec.digest,
            update=digest_bytes(update),
            update_bytes=len(update),
            epsilon=None,
        )
        return self._airlock.release(release, update, spec)

    def _move(self, job: RoundJob, state: str) -> None:
        self._progress({"run": job.prescription.run, "round": job.prescription.round, "state": state})
        job.move(state)


def _ended(job: RoundJob) -> bool:
    return job.cancel.is_set() or time.time() > job.prescription.deadline_unix


def _code(job: RoundJob, error: Exception | None) -> RefusalCode:
    """The one word about a failed round that leaves."""
    if job.cancel.is_set():
        return RefusalCode.CANCELLED
    if _ended(job):
        return RefusalCode.EXPIRED
    return RefusalCode(error.code) if isinstance(error, PolicyRefusal) else RefusalCode.INTERNAL


def _accepted_body(job: RoundJob) -> dict[str, Json]:
    prescription = job.prescription
    return {
        "run": prescription.run,
        "round": prescription.round,
        "prescription": job.digest,
        "nonce": prescription.nonce,
        "target_stage": prescription.target_stage,
        "tracks": list(prescription.tracks),
        "aggregation": prescription.aggregation,
        "starting_adapter": prescription.starting_adapter,
        "base_model": prescription.base_model,
        "differential_privacy": prescription.differential_privacy,
    }
