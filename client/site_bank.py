"""A site's Stage Bank, opened as its settings say."""

from __future__ import annotations

from client.site_config import SiteConfig
from common.errors import BankError
from stage_bank.store import Snapshot, StageBank

__all__ = ["latest_snapshot", "open_site_bank"]


def open_site_bank(config: SiteConfig, *, write: bool = False) -> StageBank:
    """Open the bank; a site without one hears so before its key is asked for.

    Raises:
        BankError: no bank, no usable key, a damaged index, or another process that writes.
    """
    if not (config.bank_folder / "index.sqlite").is_file():
        raise BankError(
            "no Stage Bank here", where=str(config.bank_folder), remedy="Fill it with `bat-client bank build`."
        )
    return StageBank.open(config.bank_folder, config.open_vault(), write=write)


def latest_snapshot(bank: StageBank) -> Snapshot:
    """The newest snapshot.

    Raises:
        BankError: there is none yet.
    """
    latest = bank.latest_snapshot()
    if latest is None:
        raise BankError(
            "the bank has no snapshot yet", where=str(bank.path), remedy="Fill it with `bat-client bank build`."
        )
    return latest
