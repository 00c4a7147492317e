"""Run agent code as hostile code: see `open_sandbox`."""

from common.sandbox.factory import open_sandbox
from common.sandbox.interface import Limits, Sandbox, SandboxSession
from common.sandbox.receipt import Execution, Language, Receipt
from common.sandbox.record import Record, Recorder

__all__ = [
    "Execution",
    "Language",
    "Limits",
    "Receipt",
    "Record",
    "Recorder",
    "Sandbox",
    "SandboxSession",
    "open_sandbox",
]
