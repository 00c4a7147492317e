"""Every test, one file at a time, resumable: `python -m tools.test_full`.

A file that passed is not run again while the code stands as it is, so that an interrupted run is continued by running
it again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main", "tree_digest"]

ROOT = Path(__file__).resolve().parents[1]
DONE = ROOT / ".cache/test-full"

CODE = ("common", "rubrics", "stage_bank", "client", "server", "deploy", "tools", "tests")

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
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    failed = []
    for number, path in enumerate(files, 1):
        name = str(path.relative_to(ROOT))
        mark = passed / name.replace("/", "-")
        if mark.exists():
            continue
        started = time.monotonic()
        print(f"[{number}/{len(files)}] {name}", flush=True)
        status = subprocess.run([sys.executable, "-m", "pytest", "-q", name], cwd=ROOT).returncode
        if status in (0, NO_TESTS):
            mark.write_text(f"{time.monotonic() - started:.1f} s\n")
        else:
            failed.append(name)
    print(f"test-full: {len(files) - len(failed)} of {len(files)} files hold", flush=True)
    for name in failed:
        print(f"test-full: failed: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
