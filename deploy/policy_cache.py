"""The cold-started policy, kept under `.cache/` by the digest of everything it is made from.

    python -m deploy.policy_cache

prints the folder of the policy, making it first when there is none for the present inputs.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import common
from common.canonical import digest_file, digest_json
from common.errors import BatError, ConfigurationError

__all__ = ["DEFAULT_CACHE", "cached_policy", "inputs_digest", "is_cached", "main"]

DEFAULT_CACHE = Path(".cache/policy")

SOURCES = ("common/policy", "rubrics", "stage_bank", "server/cold_start.py")
"""What demonstrations, tokenizer, model and training are written in."""

LIBRARIES = ("numpy", "scipy", "scikit-image", "tokenizers", "torch", "transformers")


def _source_files(root: Path) -> Iterator[Path]:
    for source in SOURCES:
        path = root / source
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def inputs_digest() -> str:
    """Digest of the source files and library versions behind the cold start, 64 hex digits."""
    root = Path(common.__file__).resolve().parents[1]
    return digest_json(
        {
            "sources": {str(path.relative_to(root)): digest_file(path) for path in _source_files(root)},
            "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        }
    )


def _folder(cache: Path) -> Path:
    return cache.resolve() / inputs_digest()[:16]


def is_cached(cache: Path = DEFAULT_CACHE) -> bool:
    """Whether a policy for the present inputs is there."""
    return _folder(cache).is_dir()


def cached_policy(cache: Path = DEFAULT_CACHE) -> Path:
    """The folder of the cold-started policy, trained now when it is not in the cache.

    Args:
        cache: folder that holds one policy a digest.

    Raises:
        ConfigurationError: the cold start failed; the reason is what it printed last.
    """
    folder = _folder(cache)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    except OSError as error:
        raise ConfigurationError(f"cannot write the cache: {error.strerror}", where=str(cache)) from error
    try:
        command = [sys.executable, "-m", "server.cli", "cold-start", "--out", str(scratch / "policy")]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace").strip().splitlines()
            raise ConfigurationError(f"the cold start failed: {said[-1] if said else 'no output'}")
        # The rename is atomic: a policy is in the cache whole or not at all, also with two makers at once.
        if not folder.exists():
            os.replace(scratch / "policy", folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def main() -> int:
    """Print the policy's folder."""
    if not is_cached():
        print("policy: cold start from public demonstrations (once, a few minutes)", flush=True)
    try:
        print(f"policy: {cached_policy()}")
    except BatError as error:
        print(f"policy: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
