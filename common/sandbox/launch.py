"""Start a worker as another user. Run as a program of its own (`python -I -S launch.py`), as root only.

A separate program because the changes it makes (mount namespace, user id) must not touch the threads of the host. The
interpreter and packages may lie where the other user cannot look (a virtual environment below /root), so they are first
bound to folders it can reach, in a mount namespace that only the worker has.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def _stage(binds: dict[str, str]) -> None:
    """Bind every target to its source; without the right to (a container), the originals must be reachable."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None):
        sys.exit(f"cannot make a mount namespace: {os.strerror(ctypes.get_errno())}")
    for target, source in binds.items():
        flags = ctypes.c_ulong(_MS_BIND | _MS_REC)
        if libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None) != 0:
            sys.exit(f"cannot bind {source}: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    """Read `{uid, binds, argv}` from the argument, then become the worker."""
    order = json.loads(sys.argv[1])
    if order["binds"]:
        _stage(order["binds"])
    uid = order["uid"]
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        sys.exit(f"cannot become user {uid}: {error.strerror}")
    os.chdir("/")
    os.execve(order["argv"][0], order["argv"], {})


if __name__ == "__main__":
    main()
