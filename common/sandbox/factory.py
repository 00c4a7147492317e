"""Open the strongest sandbox that proves itself on this machine, or refuse."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.errors import SandboxError
from common.sandbox.backends import ForkServerSandbox, bwrap_command, landlock_command
from common.sandbox.interface import Limits, Sandbox
from common.sandbox.receipt import Language
from common.signing import SigningKey

__all__ = ["BACKENDS", "PROBES", "open_sandbox"]

BACKENDS = {"bwrap": bwrap_command, "landlock": landlock_command}
"""Strongest first."""

PROBES = ("files", "host folders", "sockets", "signals", "writes", "user", "environment")
"""What the live probe tries of a backend before it is used."""

_PROBE = """
import os, socket, sys
def denied(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
    return False
secret, host = {secret!r}, {host}
tried = {{
    "files": denied(open, secret), "host folders": denied(os.listdir, "/root") and denied(os.listdir, "/etc/ssl"),
    "sockets": all(denied(socket.socket, family) for family in (1, 2, 10, 16, 17)),
    "signals": denied(os.kill, host, 0) and denied(os.kill, os.getppid() or host, 0),
    "writes": denied(open, os.path.dirname(secret) + "/new", "w") and denied(open, "/usr/new", "w"),
    "user": os.geteuid() != 0 or not {root},
    "environment": "PROBE" not in os.environ,
}}
failed = [name for name in {probes!r} if not tried[name]]
open("probe", "w").write("written")
print("failed:", *failed)
"""


def open_sandbox(
    key: SigningKey,
    *,
    warm_commands: Mapping[str, str],
    warm_paths: Sequence[Path],
    preload: Sequence[str],
    limits: Limits | None = None,
    backend: str = "auto",
) -> Sandbox:
    """Start a warm fork server and prove with a live probe that it confines what it runs.

    Args:
        key: signs the receipts; stays on the host.
        warm_commands: program name to `"module:function"`; the function takes the arguments and returns the status.
        warm_paths: toolkit folders, importable inside under the names they have outside (parents are empty).
        preload: modules imported before the first fork; their distributions and requirements are visible inside.
        limits: what one execution may use; the defaults of `Limits` when `None`.
        backend: `bwrap`, `landlock`, or `auto` for the strongest that holds.

    Raises:
        SandboxError: no asked-for backend holds on this machine; nothing ever runs unsandboxed.
    """
    names = list(BACKENDS) if backend == "auto" else [backend]
    if unknown := [name for name in names if name not in BACKENDS]:
        raise SandboxError("unknown sandbox backend", where=unknown[0], remedy=f"Use one of {', '.join(BACKENDS)}.")
    reasons = []
    for name in names:
        try:
            sandbox = ForkServerSandbox(
                name,
                BACKENDS[name],
                key,
                warm_commands=warm_commands,
                warm_paths=warm_paths,
                preload=preload,
                limits=limits or Limits(),
            )
        except SandboxError as error:
            reasons.append(f"{name}: {error}")
            continue
        try:
            _prove(sandbox)
        except SandboxError as error:
            sandbox.close()
            reasons.append(f"{name}: {error}")
            continue
        return sandbox
    raise SandboxError(
        "no sandbox holds on this machine",
        where="; ".join(reasons),
        remedy="Allow unprivileged user namespaces, or run a kernel with Landlock.",
    )


def _prove(sandbox: ForkServerSandbox) -> None:
    """Run the probe: attempts that must fail, and one write that must succeed."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        secret = Path(folder, "secret")
        secret.write_text("secret")
        secret.chmod(0o666)
        program = _PROBE.format(secret=str(secret), host=os.getpid(), root=os.geteuid() == 0, probes=PROBES)
        session = sandbox.open({})
        try:
            receipt = session.execute(Language.PYTHON, program)
            written = session.files()
        finally:
            session.close()
        outside = os.listdir(folder) != ["secret"]
    if not receipt.succeeded or receipt.output.strip() != "failed:" or written != {"probe": b"written"} or outside:
        raise SandboxError(
            "the probe was not confined", where=receipt.output[-300:].strip() or str(receipt.exit_status)
        )
