"""What a run's logs say was executed: `process/tool_log.jsonl`, else `trace.jsonl`, and the conversation beside them.

Agents name the fields of their logs differently, so texts are gathered under the usual names, whatever holds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.automedbench.files import read_plain

__all__ = ["Event", "Log", "read_log"]

LOGS = ("process/tool_log.jsonl", "trace.jsonl")
MESSAGES = "process/messages.json"
LOG_BYTES = 64 << 20
EVENTS = 20_000

_CODE = ("code", "command", "cmd", "script", "input", "arguments", "args", "tool_input", "parameters")
_OUTPUT = ("output", "result", "stdout", "stderr", "observation", "response", "error", "tool_output", "content")
_STATUS = ("exit_code", "exit_status", "returncode", "return_code", "status_code")
_FAILED = re.compile(r"Traceback \(most recent call last\)|\b\w*(?:Error|Exception): |command not found|No such file")
_IDLE = re.compile(
    r"(?:^|(?<=\s))#[^\n]*"
    r"|^[ \t]*(?:\w{1,40}[ \t]*=[ \t]*)?(?:\"{3}[^\"]*\"{3}|'{3}[^']*'{3})[ \t]*$"
    r"|^[ \t]*(?:\w{1,40}[ \t]*=[ \t]*)?[\"'][^\"'\n]*[\"'][ \t]*;?[ \t]*$"
    r"|\bprint\([ \t]*[\"'][^\"'\n]*[\"'][ \t]*\)"
    r"|\b(?:echo|printf)\b[^\n;&|>]*",
    re.MULTILINE,
)
"""Comments, texts that stand alone or only get a name, and texts that are only printed."""


@dataclass(frozen=True)
class Event:
    """One execution.

    Args:
        code: what was run, without comments, texts that are only printed, and texts that nothing reads.
        asked: what was run, word for word.
        output: what it printed.
        failed: whether it ended in an error.
    """

    code: str
    asked: str
    output: str
    failed: bool


@dataclass(frozen=True)
class Log:
    """What was executed, and what was said.

    Args:
        events: in order; empty where there is no log.
        present: whether there is a log of executions at all.
        last_words: the last message of the agent; empty where there is no conversation.
    """

    events: tuple[Event, ...]
    present: bool
    last_words: str


def read_log(run: Path) -> Log:
    """Read the logs of a run; lines that are no JSON objects are passed over."""
    for name in LOGS:
        data = read_plain(run, name, LOG_BYTES)
        if data is not None:
            events = tuple(event for event in map(_event, _objects(data)) if event is not None)
            return Log(events, True, _last_words(run))
    return Log((), False, _last_words(run))


def _objects(data: bytes) -> Iterator[Mapping[str, Any]]:
    for line in data.splitlines()[:EVENTS]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _event(fields: Mapping[str, Any]) -> Event | None:
    code, output = "\n".join(_texts(fields, _CODE)), "\n".join(_texts(fields, _OUTPUT))
    if not code and not output:
        return None
    status = next((fields[name] for name in _STATUS if type(fields.get(name)) is int), None)
    said = fields.get("success", fields.get("ok"))
    failed = status != 0 if status is not None else not said if isinstance(said, bool) else bool(_FAILED.search(output))
    return Event(_working(code), code, output, failed)


def _working(code: str) -> str:
    """The part of some code that can do something: saying "checked the maximum" is not checking it."""
    return _IDLE.sub(" ", code)


def _texts(fields: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from (text for text in value.values() if isinstance(text, str))


def _last_words(run: Path) -> str:
    data = read_plain(run, MESSAGES, LOG_BYTES)
    try:
        messages = json.loads(data or b"[]")
    except (ValueError, RecursionError):
        return ""
    if isinstance(messages, dict):
        messages = messages.get("messages")
    said = [
        message["content"]
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict) and message.get("role") == "assistant" and isinstance(message.get("content"), str)
    ]
    return said[-1] if said else ""
