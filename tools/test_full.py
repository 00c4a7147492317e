"""Every test, resumable: `python -m tools.test_full`. Two files run side by side, each in a process of its own.

A file that passed is not run again while the code stands as it is, so that an interrupted run is continued by running
it again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["main", "tree_digest"]

ROOT = Path(__file__).resolve().parents[1]
DONE = ROOT / ".cache/test-full"

CODE = ("common", "rubrics", "stage_bank", "client", "server", "deploy", "tools", "tests")

AT_ONCE = 2

NO_TESTS = 5
"""Exit status of pytest when a file holds none."""


def tree_digest(root: Path) -> str:
    """SHA-256 over the names and bytes of all code, tests and pinned versions, 64 hex digits."""
    digest = hashlib.sha256()
    files = [
        path for name in CODE for path in (root / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    for path in sorted([*files, root / "constraints.txt", root / "pyproject.toml"]):
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def main() -> int:
    """Run what has not passed yet; 1 when a file fails."""
    passed = DONE / tree_digest(ROOT)[:16]
    passed.mkdir(parents=True, exist_ok=True)
    names = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    marks = {name: passed / name.replace("/", "-") for name in names}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wanted = [name for name in names if not marks[name].exists()]
        held = dict(zip(wanted, pool.map(lambda name: _holds(name, marks[name]), wanted), strict=True))
    failed = [name for name, holds in held.items() if not holds]
    print(f"test-full: {len(names) - len(failed)} of {len(names)} files hold", flush=True)
    for name in failed:
        print(f"test-full: failed: {name}", file=sys.stderr)
    return 1 if failed else 0


def _holds(name: str, mark: Path) -> bool:
    """Run one file; what it says is printed in one piece."""
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    took = f"{time.monotonic() - started:.1f} s"
    print(f"{name}: {took}\n{done.stdout}", flush=True)
    if done.returncode not in (0, NO_TESTS):
        return False
    mark.write_text(f"{took}\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
