"""Run one program in an already confined child: Python in this interpreter, warm commands, or a real bash."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Mapping

from .commands import Command, parse_simple, run_simple

__all__ = ["load_commands", "run_program"]

_BASH_CODE_BYTES = 100_000
"""Longest bash program; the kernel takes at most 128 KiB in one argument."""
_CANNOT_RUN = 126


def load_commands(entries: Mapping[str, str]) -> dict[str, Command]:
    """Import every `name: "module:function"`."""
    loaded = {}
    for name, entry in entries.items():
        module, _, function = entry.partition(":")
        loaded[name] = getattr(importlib.import_module(module), function)
    return loaded


def run_program(language: str, code: bytes, commands: Mapping[str, Command], environment: Mapping[str, str]) -> int:
    """Run `code` in the current directory; the exit status. Does not return where a real bash takes over."""
    os.environ.clear()
    os.environ.update(environment)
    _reseed()
    if language == "python":
        status = _run_python(code)
    else:
        lines = parse_simple(code.decode(), commands)
        if lines is None:
            return _become_bash(code, environment)
        status = run_simple(lines, commands, _run_command)
    return _finish(status)


def _reseed() -> None:
    """Forked children would otherwise all draw the same numbers from NumPy's global generator."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _run_python(code: bytes) -> int:
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    try:
        exec(compile(code, "<string>", "exec", dont_inherit=True), module.__dict__)
    except SystemExit as stop:
        return _status_of(stop)
    except BaseException as error:
        _print_error(error)
        return 1
    return 0


def _run_command(command: Command, words: list[str]) -> int:
    sys.argv = list(words)
    try:
        status = command(words[1:])
        return status & 0xFF if isinstance(status, int) else 0
    except SystemExit as stop:
        return _status_of(stop)
    except BaseException as error:
        _print_error(error)
        return 1


def _print_error(error: BaseException) -> None:
    """Print a traceback without the frames of this module."""
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_globals.get("__name__") == __name__:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
    except BaseException:
        os.write(2, b"error while reporting an error\n")


def _status_of(stop: SystemExit) -> int:
    """What the interpreter makes of `sys.exit`: nothing is 0, a number itself, anything else is printed and 1."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _finish(status: int) -> int:
    """What the interpreter does before it ends: join threads, run exit handlers, flush."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException as error:
        _print_error(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            status = status or 120
    return status


def _become_bash(code: bytes, environment: Mapping[str, str]) -> int:
    """Replace this process; returns only a status for code that no shell could be given."""
    if len(code) <= _BASH_CODE_BYTES and b"\0" not in code:
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # The interpreter ignores these; programs do not expect that.
            signal.signal(ignored, signal.SIG_DFL)
        os.execve("/bin/bash", [b"bash", b"--noprofile", b"--norc", b"-c", code], dict(environment))
    os.write(2, b"bash: program too long or holds a zero byte\n")
    return _CANNOT_RUN
