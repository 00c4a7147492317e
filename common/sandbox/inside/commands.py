"""Tell scripts that are nothing but plain commands of the warm toolkit from scripts that need a real shell."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping

__all__ = ["Command", "parse_simple", "run_simple"]

Command = Callable[[list[str]], int]
_SPECIAL = frozenset("|&;<>()$`\\*?[]{}~!^\0")


def parse_simple(code: str, names: Collection[str]) -> list[list[list[str]]] | None:
    """Split a script into lines of `&&` chains of argument lists.

    Returns:
        One list a line, each holding the chain's commands; `None` when anything in it (a variable, redirection, glob,
        pipe, comment, quoted line break, another program) needs a real shell to mean what it says.
    """
    lines = []
    for line in code.split("\n"):
        if not line.strip(" \t"):
            continue
        chain = [_parse_command(part, names) for part in line.split("&&")]
        if any(words is None for words in chain):
            return None
        lines.append([words for words in chain if words is not None])
    return lines or None


def _parse_command(text: str, names: Collection[str]) -> list[str] | None:
    if not text.isascii() or not text.replace("\t", " ").isprintable() or _SPECIAL & set(text):
        return None
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        return None
    if not words or words[0] not in names or any(word.startswith("#") for word in words):
        return None
    return words


def run_simple(
    lines: list[list[list[str]]], commands: Mapping[str, Command], run: Callable[[Command, list[str]], int]
) -> int:
    """Run a parsed script as `bash` would; the exit status of the last command that ran."""
    status = 0
    for chain in lines:
        for words in chain:
            status = run(commands[words[0]], words)
            if status != 0:
                break
    return status
