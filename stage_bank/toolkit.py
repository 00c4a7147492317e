"""The sandbox with the stage toolkit warm in it: the one way all parts of the project open it."""

from __future__ import annotations

from pathlib import Path

from common.sandbox import Limits, Sandbox, open_sandbox
from common.signing import SigningKey

__all__ = ["open_toolkit_sandbox"]

_WARM_COMMANDS = {"bat": "stage_bank.skills.cli:main"}
_PRELOAD = ("numpy", "scipy.ndimage", "skimage", "stage_bank.skills.cli")


def open_toolkit_sandbox(key: SigningKey, *, limits: Limits | None = None, backend: str = "auto") -> Sandbox:
    """Open a sandbox in which `bat` runs without a cold start.

    Args:
        key: signs the receipts.
        limits: of one execution; the sandbox's own when left out.
        backend: as for `open_sandbox`.

    Raises:
        SandboxError: no backend holds on this machine.
    """
    return open_sandbox(
        key,
        warm_commands=_WARM_COMMANDS,
        warm_paths=[Path(__file__).parent / "skills"],
        preload=_PRELOAD,
        limits=limits or Limits(),
        backend=backend,
    )
