"""Every check of the doctor, in the order in which they are shown: a new one adds its line here."""

from __future__ import annotations

from client.doctor import disk, keys, memory, model, network, sandbox
from client.doctor.check import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    Check("sandbox", sandbox.look),
    Check("network", network.look),
    Check("keys and folders", keys.look),
    Check("model", model.look),
    Check("memory", memory.look),
    Check("disk", disk.look),
)
