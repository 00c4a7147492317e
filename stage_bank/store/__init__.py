"""The bank's store: key and envelopes, index, states and snapshots."""

from stage_bank.store.bank import BankStats, StageBank
from stage_bank.store.rows import BankRow
from stage_bank.store.snapshot import Snapshot
from stage_bank.store.vault import Vault, read_key

__all__ = ["BankRow", "BankStats", "Snapshot", "StageBank", "Vault", "read_key"]
