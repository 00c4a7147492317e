"""What the round needs of learning, and the facts about a base model that can be read without loading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from common.adapter import Adapter, AdapterSpec
from common.canonical import Json
from common.messages import Prescription

__all__ = ["Learner", "Progress"]

Progress = Callable[[Mapping[str, Json]], None]
"""Takes one progress record (step, rewards, …); for local eyes only."""


class Learner(Protocol):
    """Turns a prescription and a starting adapter into a trained adapter, on the site's own states."""

    @property
    def base_model(self) -> str:
        """Digest of the approved base model."""

    @property
    def spec(self) -> AdapterSpec:
        """The adapter this base model takes."""

    def train(
        self, prescription: Prescription, start: Adapter, progress: Progress, cancelled: Callable[[], bool]
    ) -> Adapter:
        """Practise for one round; zero steps give `start` back.

        Args:
            prescription: an accepted prescription.
            start: the adapter it starts from, checked against `spec`.
            progress: called with a record after each step.
            cancelled: asked between steps; when it says yes, the result is not used.

        Raises:
            BatError: there is nothing to practise on, or training failed.
        """
