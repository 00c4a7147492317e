"""`make demo`: three hospitals on this machine train one agent on images that stay in their own folders.

    python -m deploy.demo [--seed N]

The processes are those of a deployment: one `flower-superlink`, and for each site a `flower-supernode` with the relay
and a `bat-client` daemon. Whatever ends the demonstration, every one of them ends with it, and the run directory says
how far it came.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from common.errors import BatError, ConfigurationError, FederationError
from common.signing import SigningKey
from deploy.demo_settings import BANK_STATES, CELLS_PER_TRACK, ROUNDS, STEPS, TRACKS, optimizer
from deploy.demo_sites import DemoSite, find_site_folders, set_up_sites
from deploy.demo_status import StatusFile
from deploy.demo_view import LiveView, PlainView, View, final_panel, privacy_panel
from deploy.demo_watch import Watch
from deploy.local_federation import (
    check_port,
    environment,
    free_port,
    start_daemon,
    start_superlink,
    start_supernode,
    wait_for_daemon,
)
from deploy.prepare import DEFAULT_CACHE, make_once, policy_job, suites_job
from deploy.supervision import Component, MemoryMeter, Supervisor
from server.config import EvaluationSettings, FederationConfig, SiteEnrolment
from server.fingerprints import suite_fingerprints
from server.report import read_run, write_practice, write_report, write_summary

__all__ = ["main"]

NEEDED_BYTES = 200 << 20
"""Free space a run wants before it begins."""

FULL_BYTES = 1 << 20
"""A disk with less free space than this is full."""

BANK_TIMEOUT_S = 900.0
"""How long a site may take to read its images and build its bank."""

REFRESH_S = 0.5


class _Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled like Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; 0 when it reached its end, 1 on a reported error, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    console = Console()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    run = arguments.runs.resolve() / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-seed{arguments.seed}"
    demo = _Demo(arguments, run, console)
    try:
        demo.run()
    except KeyboardInterrupt:
        # A second Ctrl-C must not cut the ending short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        demo.ended("interrupted", "interrupted by the user")
        return _fail(f"interrupted ({demo.phase}){demo.whereabouts}", 130)
    except (BatError, OSError) as error:
        reason = _reason(error, arguments.runs)
        demo.ended("failed", reason)
        return _fail(f"{reason}{demo.whereabouts}", 1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of the run (default: 1)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of run directories (default: runs)")
    parser.add_argument("--sites-root", type=Path, metavar="DIR", help="your own images: one folder a site in DIR")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds (default: {ROUNDS})")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"training steps a round (default: {STEPS})")
    parser.add_argument(
        "--states", type=int, default=BANK_STATES, help=f"practice states in each site's bank (default: {BANK_STATES})"
    )
    parser.add_argument(
        "--cells", type=int, default=CELLS_PER_TRACK, help=f"held-out tasks a track (default: {CELLS_PER_TRACK})"
    )
    parser.add_argument("--port", type=int, metavar="PORT", help="port of the SuperLink (default: a free one)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="prepared things (default: .cache)")
    parser.add_argument("--policy", type=Path, metavar="DIR", help="base policy (default: the cold-started one)")
    parser.add_argument("--suites", type=Path, metavar="DIR", help="held-out suites (default: the prepared ones)")
    parser.add_argument("--plain", action="store_true", help="lines instead of a live screen")
    return parser


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


def _reason(error: BatError | OSError, runs: Path) -> str:
    """The error in one line. A component that dies of a full disk often cannot even write why, so we look ourselves."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(runs).free < FULL_BYTES:
            return f"no space left on the disk of {runs.resolve()}"
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
    return str(error)


def _fail(line: str, status: int) -> int:
    print(f"demo: {line}", file=sys.stderr)
    return status


class _Demo:
    """One demonstration, from checks to report."""

    def __init__(self, arguments: argparse.Namespace, run: Path, console: Console) -> None:
        self._arguments = arguments
        self._run = run
        self._console = console
        self._status: StatusFile | None = None
        self.phase = "starting"

    @property
    def whereabouts(self) -> str:
        """Where the run directory is, when there is one."""
        return f"; how far it came: {self._run}/status.json" if self._status is not None else ""

    def ended(self, state: str, reason: str) -> None:
        """Leave word of an early end, and a report of what there is."""
        if self._status is not None:
            self._status.ended(state, reason)
            with contextlib.suppress(BatError, OSError):
                write_report(self._run)

    def run(self) -> None:
        """All of it.

        Raises:
            BatError: something a person can mend.
            OSError: the disk is full or not writable.
            KeyboardInterrupt: the user ends it.
        """
        started = time.monotonic()
        arguments = self._arguments
        folders = find_site_folders(arguments.sites_root) if arguments.sites_root else None
        port = arguments.port or free_port()
        check_port(port)
        _check_space(arguments.runs)
        self._console.print(privacy_panel())
        self.phase = "preparing policy and suites"
        policy, tasks = policy_job(TRACKS, arguments.cache), suites_job(TRACKS, arguments.cells, arguments.cache)
        wanted = [job for job, own in ((policy, arguments.policy), (tasks, arguments.suites)) if own is None]
        make_once(wanted, self._say)
        model, suites = arguments.policy or policy.folder, arguments.suites or tasks.folder
        self._run.mkdir(parents=True)
        self._status = StatusFile(self._run)
        with MemoryMeter() as memory, _scratch_folder() as scratch:
            self._enter("setting up the sites")
            shutil.copytree(suites, self._run / "suites")
            server = SigningKey.load_or_create(self._run / "server.key")
            fingerprints = self._run / "fingerprints.json"
            fingerprints.write_bytes(suite_fingerprints(self._run / "suites", server))
            sites = set_up_sites(
                self._run,
                folders,
                model=model,
                server=server.public,
                fingerprints=fingerprints,
                sockets=scratch,
                states=arguments.states,
                seed=arguments.seed,
                tracks=TRACKS,
            )
            settings = self._write_settings(sites, model)
            with self._view(sites) as view, Supervisor(self._run / "logs", _environment(scratch)) as supervisor:
                watch = Watch(self._run, {site.name: site.config.progress_file for site in sites}, started)
                self._federate(sites, settings, port, scratch, supervisor, view, watch)
                supervisor.stop()
                self._enter("scoring the sealed suite")
                self._follow(_server(supervisor, "sealed", self._run), supervisor, view, watch)
            self._enter("writing the report")
            write_practice(self._run, (site.practice() for site in watch.snapshot(self.phase).sites))
            report = write_report(self._run)
        wall_s, peak_mb = time.monotonic() - started, memory.peak_bytes / 1e6
        summary = write_summary(self._run, wall_s=wall_s, peak_rss_mb=peak_mb)
        self._status.complete()
        self._console.print(final_panel(read_run(self._run), summary, report, wall_s, peak_mb))
        self._console.print(privacy_panel())

    def _federate(
        self,
        sites: Sequence[DemoSite],
        settings: Path,
        port: int,
        scratch: Path,
        supervisor: Supervisor,
        view: View,
        watch: Watch,
    ) -> None:
        self._enter("starting the processes, building the banks")
        start_superlink(supervisor, port)
        for site in sites:
            start_daemon(supervisor, site.config_file, site.config)
        for site in sites:
            wait_for_daemon(supervisor, site.config, BANK_TIMEOUT_S, lambda: view.show(watch.snapshot(self.phase)))
            start_supernode(
                supervisor,
                site.name,
                superlink=port,
                port=free_port(),
                relay_socket=site.config.relay_socket,
                programs=scratch / "programs",
            )
        self._enter("training")
        options = ("--runs", self._run.parent, "--superlink", f"127.0.0.1:{port}")
        self._follow(_server(supervisor, "run", settings, *options), supervisor, view, watch)

    def _follow(self, component: Component, supervisor: Supervisor, view: View, watch: Watch) -> None:
        """Show what goes on until a component has ended.

        Raises:
            FederationError: it failed, or another component ended before it.
        """
        while (status := component.process.poll()) is None:
            supervisor.check(besides=component)
            view.show(watch.snapshot(self.phase))
            time.sleep(REFRESH_S)
        view.show(watch.snapshot(self.phase))
        supervisor.end(component)
        if status != 0:
            raise FederationError(component.last_line or f"{component.name} ended with status {status}")

    def _write_settings(self, sites: Sequence[DemoSite], model: Path) -> Path:
        arguments = self._arguments
        enrolments = tuple(
            SiteEnrolment(name=site.name, public_key=SigningKey.load_or_create(site.config.key_file).public.hex)
            for site in sites
        )
        config = FederationConfig(
            run=self._run.name,
            seed=arguments.seed,
            rounds=arguments.rounds,
            model=model,
            signing_key=self._run / "server.key",
            sites=enrolments,
            optimizer=optimizer(arguments.steps),
            tracks=TRACKS,
            quorum=2,
            evaluation=EvaluationSettings(cells_per_track=arguments.cells),
        )
        path = self._run / "federation.toml"
        path.write_text(config.to_toml(), encoding="utf-8")
        return path

    @contextlib.contextmanager
    def _view(self, sites: Sequence[DemoSite]) -> Iterator[View]:
        live = self._console.is_terminal and not self._arguments.plain
        title = f"{len(sites)} hospitals train one agent · seed {self._arguments.seed} · {self._run.name}"
        view: View = LiveView(self._console, title) if live else PlainView(self._console)
        for site in sites:
            view.say(f"site {site.name}: {site.files} files in {site.config.data}")
        try:
            yield view
        finally:
            view.close()

    def _enter(self, phase: str) -> None:
        self.phase = phase
        if self._status is not None:
            self._status.running(phase)

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    """A folder with a short path for sockets and all temporary files of the components, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bat-", dir="/tmp", ignore_cleanup_errors=True) as name:
        # The sandbox runs under another user id and must be able to pass through.
        Path(name).chmod(0o711)
        yield Path(name)


def _environment(scratch: Path) -> dict[str, str]:
    return {**environment(scratch / "flwr"), "TMPDIR": str(scratch)}


def _server(supervisor: Supervisor, command: str, *arguments: object) -> Component:
    line = [sys.executable, "-m", "server.cli", command, *map(str, arguments)]
    return supervisor.start(f"server-{command}", line)


def _check_space(runs: Path) -> None:
    try:
        runs.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(runs).free
    except OSError as error:
        raise ConfigurationError("cannot make the folder of runs", where=f"{runs}: {error.strerror}") from error
    if free < NEEDED_BYTES:
        raise ConfigurationError(
            f"only {free / 1e6:.0f} MB free, a run needs {NEEDED_BYTES / 1e6:.0f} MB",
            where=str(runs.resolve()),
            remedy="Free some space, or choose another disk with --runs.",
        )


if __name__ == "__main__":
    sys.exit(main())
