"""What every run needs and no run changes: the cold-started policy and the held-out suites, made once.

    python -m deploy.prepare

Both are kept under `.cache/` by the digest of everything they are made from, so that a change of the code makes new
ones and nothing else does.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import common
from common.canonical import Json, digest_file, digest_json
from common.errors import BatError, ConfigurationError

__all__ = ["DEFAULT_CACHE", "main", "make_once", "prepared_policy", "prepared_suites"]

DEFAULT_CACHE = Path(".cache")

SUITE_SEED = 1
"""The suites are the same in every run, so that runs can be compared."""

POLICY_SOURCES = ("common/policy", "rubrics", "stage_bank", "server/cold_start.py")
"""What demonstrations, tokenizer, model and training are written in."""

SUITE_SOURCES = ("rubrics", "stage_bank", "server/heldout.py", "server/heldout_evaluation.py", "server/yardsticks.py")

POLICY_LIBRARIES = ("numpy", "scipy", "scikit-image", "tokenizers", "torch", "transformers")
SUITE_LIBRARIES = ("numpy", "scipy", "scikit-image")

BAT_SERVER = (sys.executable, "-m", "server.cli")

Say = Callable[[str], None]
"""Takes a line for the person who waits."""


def prepared_policy(cache: Path = DEFAULT_CACHE, say: Say = print) -> Path:
    """The folder of the cold-started policy, trained now when it is not in the cache.

    Args:
        cache: folder of prepared things.
        say: told when there is something to wait for.

    Raises:
        ConfigurationError: the cold start failed, or the cache cannot be written.
    """
    digest = _digest(POLICY_SOURCES, POLICY_LIBRARIES)
    return make_once(cache / "policy", digest, [*BAT_SERVER, "cold-start"], say)


def prepared_suites(cells_per_track: int, cache: Path = DEFAULT_CACHE, say: Say = print) -> Path:
    """The folder of both held-out suites and their yardsticks, built now when they are not in the cache.

    Args:
        cells_per_track: tasks of each track in each suite.
        cache: folder of prepared things.
        say: told when there is something to wait for.

    Raises:
        ConfigurationError: the suites could not be built, or the cache cannot be written.
    """
    options = ("--seed", str(SUITE_SEED), "--cells", str(cells_per_track))
    digest = _digest(SUITE_SOURCES, SUITE_LIBRARIES, list(options))
    return make_once(cache / "suites", digest, [*BAT_SERVER, "suites", *options], say)


def make_once(cache: Path, digest: str, command: Sequence[str], say: Say) -> Path:
    """The folder for a digest, made by a command when it is not in the cache.

    Args:
        cache: folder that holds one folder a digest.
        digest: of everything the command's outcome depends on, 64 hex digits.
        command: program and arguments; `--out FOLDER` is added. What it prints is shown only when it fails.
        say: told when there is something to wait for.

    Raises:
        ConfigurationError: the command failed, or the cache cannot be written.
    """
    folder = cache.resolve() / digest[:16]
    if folder.is_dir():
        return folder
    say(f"making {folder}: once, a few minutes")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
    except OSError as error:
        raise ConfigurationError(f"cannot write the cache: {error.strerror}", where=str(cache)) from error
    try:
        made = scratch / "made"
        done = subprocess.run(
            [*command, "--out", str(made)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace").strip().splitlines()
            raise ConfigurationError(f"could not make {folder.parent.name}: {said[-1] if said else 'no reason given'}")
        # The rename is atomic: a thing is in the cache whole or not at all, also with two makers at once.
        with contextlib.suppress(OSError):
            os.replace(made, folder)
        if not folder.is_dir():
            raise ConfigurationError("cannot write the cache", where=str(folder))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _digest(sources: Sequence[str], libraries: Sequence[str], options: Json = None) -> str:
    root = Path(common.__file__).resolve().parents[1]
    files = [path for source in sources for path in _files(root / source)]
    return digest_json(
        {
            "sources": {str(path.relative_to(root)): digest_file(path) for path in files},
            "libraries": {name: importlib.metadata.version(name) for name in libraries},
            "options": options,
        }
    )


def _files(path: Path) -> Iterator[Path]:
    yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def main() -> int:
    """Prepare both and say where they are."""
    from deploy.demo_settings import CELLS_PER_TRACK

    try:
        print(f"policy: {prepared_policy()}")
        print(f"suites: {prepared_suites(CELLS_PER_TRACK)}")
    except BatError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
