"""A site's privacy budget, opened as its settings say."""

from __future__ import annotations

from client.privacy.budget import Budget
from client.privacy.plan import check_delta_for
from client.site_config import SiteConfig
from common.errors import PolicyRefusal
from common.messages import RefusalCode
from stage_bank.store.vault import Vault

__all__ = ["open_budget"]


def open_budget(config: SiteConfig, vault: Vault) -> Budget:
    """Open the budget of the site's bank; its identity comes from the bank's key, not from what the bank holds.

    Raises:
        PolicyRefusal: the site has no budget.
        ConfigurationError: delta is too large for the patients that the site says it has.
        LedgerError: the file cannot be used.
    """
    limits = config.privacy
    if limits is None:
        raise PolicyRefusal(
            RefusalCode.POLICY, "this site has no privacy budget", where="privacy", remedy="Add it to site.toml."
        )
    check_delta_for(limits.patients, limits.delta)
    identity = vault.authenticate(b"privacy budget")
    return Budget(config.budget_file, identity, epsilon=limits.epsilon, delta=limits.delta)
