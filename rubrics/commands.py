"""Which commands of the toolkit an execution really ran.

Some artifacts of the toolkit are so short that an agent could write them by hand. They count only when the execution
that made them consists of plain commands and nothing that could write a file in another way.
"""

from __future__ import annotations

import re
import shlex

from common.sandbox.receipt import Execution, Language

__all__ = ["ran", "verbs"]

TOOLKIT = "bat"
_HARMLESS = frozenset({TOOLKIT, "cat", "echo", "false", "head", "ls", "pwd", "tail", "true", "wc"})
"""Programs that write no file when nothing redirects their output."""

_UNPLAIN = re.compile(r"[<>`${}()\\*?\[\]=~#!]|(?<!&)&(?!&)")
_SEPARATORS = re.compile(r"\n|;|&&|\|\||\|")
_OPTION = re.compile(r"(--[a-z]+)=([\w.-]+)")


def verbs(receipt: Execution) -> tuple[str, ...]:
    """Verbs of the toolkit commands of a plain execution, in order; empty for any other execution."""
    if receipt.language is not Language.BASH:
        return ()
    code = _OPTION.sub(r"\1 \2", receipt.code)
    if _UNPLAIN.search(code):
        return ()
    found = []
    for segment in _SEPARATORS.split(code):
        try:
            words = shlex.split(segment)
        except ValueError:
            return ()
        if words and words[0] not in _HARMLESS:
            return ()
        if len(words) > 1 and words[0] == TOOLKIT:
            found.append(words[1])
    return tuple(found)


def ran(receipt: Execution, verb: str) -> bool:
    """Whether a plain execution ran this verb of the toolkit."""
    return verb in verbs(receipt)
