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
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import common
from common.canonical import Json, digest_file, digest_json
from common.ending import end_in_order
from common.errors import BatError, ConfigurationError
from common.stages import Track

__all__ = ["DEFAULT_CACHE", "Job", "main", "make_once", "policy_job", "suites_job"]

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


@dataclass(frozen=True)
class Job:
    """One thing to be made by a command.

    Args:
        what: in words.
        cache: folder that holds one folder a digest.
        digest: of everything the outcome depends on, 64 hex digits.
        command: program and arguments; `--out FOLDER` is added. What it prints is shown only when it fails.
    """

    what: str
    cache: Path
    digest: str
    command: Sequence[str]

    @property
    def folder(self) -> Path:
        """Where the thing is kept."""
        return self.cache.resolve() / self.digest[:16]


def policy_job(tracks: Sequence[Track], cache: Path = DEFAULT_CACHE) -> Job:
    """The cold start on demonstrations of these task families."""
    options = ["--tracks", *tracks]
    digest = _digest(POLICY_SOURCES, POLICY_LIBRARIES, list(options))
    return Job("the cold-started policy", cache / "policy", digest, [*BAT_SERVER, "cold-start", *options])


def suites_job(tracks: Sequence[Track], cells_per_track: int, cache: Path = DEFAULT_CACHE) -> Job:
    """Both held-out suites and their yardsticks, with so many tasks of each track in each suite."""
    options = ["--seed", str(SUITE_SEED), "--cells", str(cells_per_track), "--tracks", *tracks]
    digest = _digest(SUITE_SOURCES, SUITE_LIBRARIES, list(options))
    return Job("the held-out suites", cache / "suites", digest, [*BAT_SERVER, "suites", *options])


def make_once(jobs: Sequence[Job], say: Say = print) -> list[Path]:
    """The jobs' folders; what is not in the cache is made now, all of it side by side.

    Args:
        jobs: what is wanted.
        say: told when there is something to wait for.

    Raises:
        ConfigurationError: a command failed (after the others have ended), or the cache cannot be written.
    """
    with contextlib.ExitStack() as stack:
        makers = [stack.enter_context(_Maker(job, say)) for job in jobs if not job.folder.is_dir()]
        failures = [failure for maker in makers if (failure := _failure_of(maker)) is not None]
        if failures:
            raise failures[0]
    return [job.folder for job in jobs]


def _failure_of(maker: _Maker) -> ConfigurationError | None:
    """Wait for one command; a failure is handed back, so that the others' work is not lost."""
    try:
        maker.finish()
    except ConfigurationError as error:
        return error
    return None


class _Maker:
    """A command at work in a scratch folder; leaving the `with` block ends it and removes the folder."""

    def __init__(self, job: Job, say: Say) -> None:
        self._job = job
        say(f"making {job.what} in {job.cache.name}: once, minutes (longer on a busy machine)")
        try:
            job.cache.mkdir(parents=True, exist_ok=True)
            self._scratch = Path(tempfile.mkdtemp(prefix="making-", dir=job.cache))
        except OSError as error:
            raise ConfigurationError(f"cannot write the cache: {error.strerror}", where=str(job.cache)) from error
        with (self._scratch / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*job.command, "--out", str(self._scratch / "made")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> _Maker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def finish(self) -> None:
        """Wait for the command and put its folder into the cache."""
        folder = self._job.folder
        if self._process.wait() != 0:
            said = (self._scratch / "log").read_text(errors="replace").strip().splitlines()
            kept = self._job.cache / "failed.log"
            with contextlib.suppress(OSError):
                shutil.copyfile(self._scratch / "log", kept)
            raise ConfigurationError(
                f"could not make {self._job.what}: {said[-1] if said else 'no reason given'}",
                where=str(kept),
                remedy="Run it again; what is made already is kept.",
            )
        # The rename is atomic: a thing is in the cache whole or not at all, also with two makers at once.
        with contextlib.suppress(OSError):
            os.replace(self._scratch / "made", folder)
        if not folder.is_dir():
            raise ConfigurationError("cannot write the cache", where=str(folder))


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
    from deploy.demo_settings import CELLS_PER_TRACK, TRACKS

    end_in_order()
    try:
        for folder in make_once([policy_job(TRACKS), suites_job(TRACKS, CELLS_PER_TRACK)]):
            print(f"prepared: {folder}")
    except BatError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("prepare: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
