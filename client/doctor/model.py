"""The approved base model: there, whole, and with the digest that the server pins."""

from __future__ import annotations

from collections.abc import Iterator

from client.doctor.check import Finding, fine, wrong
from client.site_config import SiteConfig
from common.base_model import read_base_model
from common.errors import BatError

__all__ = ["look"]


def look(config: SiteConfig) -> Iterator[Finding]:
    """Read the model's files and digest them."""
    try:
        model = read_base_model(config.model)
    except BatError as error:
        yield wrong(str(error), "Put the approved model there; `bat-server` prints its digest.")
        return
    yield fine(f"{config.model.name} has digest {model.digest}; compare it with the one the server states")
