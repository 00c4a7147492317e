"""Run agent code as hostile code: see `open_sandbox`."""

from common.sandbox.factory import open_sandbox
from common.sandbox.interface import Limits, Sandbox, SandboxSession
from common.sandbox.receipt import FIRST, Language, Receipt

__all__ = ["FIRST", "Language", "Limits", "Receipt", "Sandbox", "SandboxSession", "open_sandbox"]
