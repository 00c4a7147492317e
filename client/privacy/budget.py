"""A bank's privacy budget: a hash-chained file of charges, one for every round, across runs and federations.

A round is charged whole, on disk with fsync, before any of its data is read. A process killed at any moment has
therefore either charged and perhaps not trained, or neither: what was spent is never counted too low. The chain holds
constants of the prescriptions only, so that its head may leave the site. Whoever saw a head can recognise an older
state: the head is then not part of the chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from client.privacy.accountant import Charge, epsilon_spent
from common.canonical import Json, canonical_json, digest_json
from common.errors import BatError, LedgerError, PolicyRefusal
from common.files import read_regular
from common.line_log import LineLog
from common.messages import RefusalCode

__all__ = ["Budget", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One round's charge.

    Args:
        prescription: digest of the prescription it was charged for.
        charge: what the round may spend.
        previous: digest of the entry before it, or the budget's identity.
    """

    prescription: str
    charge: Charge
    previous: str

    def to_json(self) -> dict[str, Json]:
        """All fields."""
        return {"prescription": self.prescription, "previous": self.previous, **asdict(self.charge)}

    @property
    def digest(self) -> str:
        """SHA-256 of the entry; the budget's head when it is the last."""
        return digest_json(self.to_json())

    @classmethod
    def from_json(cls, fields: dict[str, Json]) -> Entry:
        """Read what `to_json` wrote; raises ValueError, TypeError or KeyError for anything else."""
        prescription, previous, steps = fields["prescription"], fields["previous"], fields["steps"]
        rate, noise = fields["sampling_rate"], fields["noise_multiplier"]
        if not isinstance(prescription, str) or not isinstance(previous, str):
            raise TypeError("digests are strings")
        if not isinstance(rate, float | int) or not isinstance(noise, float | int) or not isinstance(steps, int):
            raise TypeError("a charge is made of numbers")
        return cls(prescription, Charge(float(rate), float(noise), steps), previous)


class Budget:
    """The budget of one bank, owned by one process at a time.

    Args:
        file: JSON Lines, made with mode 0600 when missing.
        identity: 64 hex digits that belong to this bank: an authenticator under its key, free of patient data.
        epsilon: limit of the site.
        delta: of every statement.

    Raises:
        LedgerError: the file was changed, is of another bank, cannot be read, or another process holds it.
    """

    def __init__(self, file: Path, identity: str, *, epsilon: float, delta: float) -> None:
        self._file, self.identity, self.epsilon, self.delta = file, identity, epsilon, delta
        self._lines = LineLog(file, "this privacy budget", mode=0o600)
        try:
            self.entries = _read(file, identity)
        except BaseException:
            self.close()
            raise

    @property
    def head(self) -> str:
        """Digest of the last entry, or the identity of an unused budget."""
        return self.entries[-1].digest if self.entries else self.identity

    @property
    def charges(self) -> list[Charge]:
        """What was charged so far."""
        return [entry.charge for entry in self.entries]

    @property
    def spent(self) -> float:
        """Upper bound of the epsilon charged so far."""
        return epsilon_spent(self.charges, self.delta)

    def charged(self, prescription: str) -> bool:
        """Whether this prescription's round was charged."""
        return any(entry.prescription == prescription for entry in self.entries)

    def check(self, prescription: str, charge: Charge) -> None:
        """Refuse a round that the budget does not hold; a round charged before is paid for.

        Raises:
            PolicyRefusal: with code POLICY.
            LedgerError: this prescription was charged with something else.
        """
        for entry in self.entries:
            if entry.prescription == prescription:
                if entry.charge != charge:
                    raise LedgerError("a round was charged with another mechanism", where=str(self._file))
                return
        after = epsilon_spent([*self.charges, charge], self.delta)
        if after > self.epsilon:
            raise PolicyRefusal(
                RefusalCode.POLICY,
                f"the round would bring the bank to epsilon {after:.3f} at delta {self.delta:g}; "
                f"the budget is {self.epsilon:g}",
                where="privacy.epsilon",
                remedy="This bank may train no further under differential privacy.",
            )

    def charge(self, prescription: str, charge: Charge) -> str:
        """Charge a round, durably, once; returns the head that holds it.

        Raises:
            PolicyRefusal: over budget.
            LedgerError: it cannot be written; then it is not charged, and the round must not begin.
        """
        self.check(prescription, charge)
        if not self.charged(prescription):
            entry = Entry(prescription, charge, self.head)
            self._lines.append(canonical_json(entry.to_json()))
            self.entries.append(entry)
        return next(entry.digest for entry in self.entries if entry.prescription == prescription)

    def reconcile(self, recorded: Iterable[str], checkpoint: str | None) -> list[Entry]:
        """Compare with what others know of this budget.

        Args:
            recorded: digests of the entries that the site's ledger holds.
            checkpoint: the head that another party saw last, if any did.

        Returns:
            Entries that the ledger does not hold yet: a crash came between the two.

        Raises:
            LedgerError: the ledger or the other party knows of a charge that is not here: an older state was restored.
        """
        known = {self.identity, *(entry.digest for entry in self.entries)}
        recorded = set(recorded)
        if not recorded <= known or (checkpoint is not None and checkpoint not in known):
            raise LedgerError(
                "the privacy budget is older than what was last seen of it: an older state was restored",
                where=str(self._file),
                remedy="Restore the newest state. This bank may not train under differential privacy.",
            )
        return [entry for entry in self.entries if entry.digest not in recorded]

    def close(self) -> None:
        """Let another process use the budget."""
        self._lines.close()

    def __enter__(self) -> Budget:
        """The budget itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


def _read(file: Path, identity: str) -> list[Entry]:
    entries: list[Entry] = []
    for number, line in enumerate(read_regular(file).splitlines()):
        where = f"{file}, entry {number}"
        try:
            entry = Entry.from_json(json.loads(line))
            sound = canonical_json(entry.to_json()) == line
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BatError) as error:
            raise LedgerError("not a charge of a privacy budget", where=where) from error
        if not sound or entry.previous != (entries[-1].digest if entries else identity):
            raise LedgerError("the privacy budget was changed, or is another bank's", where=where)
        entries.append(entry)
    return entries
