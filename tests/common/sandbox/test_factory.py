"""Opening: proof or refusal, other users, dying workers and dying hosts."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import pytest

from common.errors import SandboxError
from common.sandbox import Language, Limits, backends, factory, launch, open_sandbox
from common.sandbox.session import Session
from common.signing import SigningKey

REPOSITORY = Path(__file__).parents[3]
OTHER_USER = 64_123


def open_small(backend: str, **options: object) -> factory.ForkServerSandbox:
    arguments = {"warm_commands": {}, "warm_paths": [], "preload": [], "limits": Limits(wall_s=2.0), **options}
    opened = open_sandbox(SigningKey.generate(), backend=backend, **arguments)  # type: ignore[arg-type]
    assert isinstance(opened, factory.ForkServerSandbox)
    return opened


def test_unknown_backend() -> None:
    with pytest.raises(SandboxError, match="unknown sandbox backend"):
        open_small("docker")


def test_missing_package_and_toolkit(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="not installed"):
        open_small("bwrap", preload=["no_such_package"])
    with pytest.raises(SandboxError, match="not a folder"):
        open_small("bwrap", warm_paths=[tmp_path / "missing"])
    with pytest.raises(SandboxError, match="ModuleNotFoundError"):
        open_small("landlock", warm_commands={"x": "no_such_module:main"})


def test_a_module_with_a_thread_is_refused(tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "def main(arguments): return 0\n"
    )
    with pytest.raises(SandboxError, match="started a thread"):
        open_small("bwrap", warm_paths=[tmp_path], warm_commands={"x": "threaded:main"})


def test_auto_takes_the_next_backend_and_refuses_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(runtime: object, settings: object) -> backends.Command:
        raise SandboxError("this machine cannot")

    monkeypatch.setitem(factory.BACKENDS, "bwrap", broken)
    opened = open_small("auto")
    assert opened.name == "landlock"
    opened.close()
    monkeypatch.setitem(factory.BACKENDS, "landlock", broken)
    with pytest.raises(SandboxError, match="no sandbox holds on this machine"):
        open_small("auto")


def test_a_sandbox_that_does_not_confine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live probe notices each protection that is missing, whatever the reason."""
    honest = backends.landlock_command

    def leaky(runtime: backends.Runtime, settings: dict[str, object]) -> backends.Command:
        command = honest(runtime, settings)
        return backends.Command(
            command.argv, command.uid, command.binds, {**command.settings, "readable": ["/"]}, command.log
        )

    monkeypatch.setitem(factory.BACKENDS, "landlock", leaky)  # type: ignore[arg-type]
    with pytest.raises(SandboxError, match=r"not confined.*files"):
        open_small("landlock")


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_a_dead_worker_is_replaced(backend: str) -> None:
    sandbox = open_small(backend)
    try:
        session = sandbox.open({"a": b"1"})
        assert session.execute(Language.PYTHON, "print(1)").succeeded
        handle = sandbox._worker._handle
        assert handle is not None
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        sandbox._worker._process.wait(5)
        with pytest.raises(SandboxError, match="died"):
            session.execute(Language.PYTHON, "print(1)")
        again = sandbox.open({"a": b"2"})
        assert again.execute(Language.BASH, "cat a").output == "2"
    finally:
        sandbox.close()
    with pytest.raises(SandboxError):
        again.execute(Language.PYTHON, "1")


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_closing_leaves_nothing_behind(backend: str) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    sandbox = open_small(backend)
    folder = sandbox._folder
    sessions = [sandbox.open({"a": b"1"}) for _ in range(5)]
    sessions[0].execute(Language.BASH, "echo $(echo x) > y")
    assert isinstance(sessions[0], Session)
    sandbox.close()
    assert not folder.exists()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def program(backend: str, body: str) -> str:
    """A program of its own that opens a sandbox, as a user would."""
    return f"""
import sys
sys.path[:0] = {[str(REPOSITORY), sysconfig.get_path("purelib")]!r}
from common.sandbox import Language, Limits, open_sandbox
from common.signing import SigningKey
sandbox = open_sandbox(SigningKey.generate(), warm_commands={{}}, warm_paths=[], preload=["numpy"], backend={backend!r})
session = sandbox.open({{"a": b"1"}})
{body}
"""


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_nothing_survives_a_killed_host(backend: str) -> None:
    body = (
        f"print('ready', flush=True)\nsession.execute(Language.BASH, 'sleep 60.{os.getpid()} & sleep 60.{os.getpid()}')"
    )
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # A killed program cannot tidy up.
    folder.chmod(0o755)
    code, environment = program(backend, body), {**os.environ, "TMPDIR": str(folder)}
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 10
    while len(sleepers()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(sleepers()) == 2
    host.kill()
    host.communicate()
    while sleepers() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not sleepers()
    backends.remove_tree(folder)


def sleepers() -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", b"60.%d" % os.getpid()]:
                found.append(name)
        except OSError:
            continue
    return found


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root to become an ordinary user; the rest of the suite is one then"
)
@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_works_as_an_ordinary_user(backend: str, tmp_path: Path) -> None:
    """The interpreter may lie where no other user can look, so it is bound elsewhere for the attempt."""
    stage = Path("/tmp") / f"ordinary-{os.getpid()}"
    binds = {}
    for name, source in (("python", sys.base_prefix), ("site", sysconfig.get_path("purelib")), ("repo", REPOSITORY)):
        (stage / name).mkdir(parents=True, exist_ok=True)
        for folder in (stage, stage / name):
            folder.chmod(0o755)
        binds[str(stage / name)] = str(source)
    body = """
import os
assert os.geteuid() != 0
program = "import numpy, os; open('b', 'w').write('2'); print(numpy.ones(2).sum(), os.getuid() != 0)"
receipt = session.execute(Language.PYTHON, program)
assert receipt.succeeded and receipt.output == "2.0 True\\n" and set(receipt.changed) == {"b"}, receipt
receipt = session.execute(Language.BASH, "cat a; sleep 60 & python3 -c 'import numpy; print(7)'")
assert receipt.succeeded and receipt.output == "17\\n", receipt
sandbox.close()
print("held", sandbox.name)
"""
    code = program(backend, body).replace(sysconfig.get_path("purelib"), f"{stage}/site")
    code = code.replace(str(REPOSITORY), f"{stage}/repo")
    python = f"{stage}/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    order = {"uid": OTHER_USER, "binds": binds, "argv": [python, "-c", code]}
    result = subprocess.run(
        [sys.executable, str(launch.__file__), json.dumps(order)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    backends.remove_tree(stage)
    assert result.stdout == f"held {backend}\n", result.stderr


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
def test_the_real_toolkit_sees_only_itself(backend: str) -> None:
    sandbox = open_small(
        backend,
        warm_commands={"bat": "stage_bank.skills.cli:main"},
        limits=Limits(wall_s=20.0),  # Walks the whole file system.
        warm_paths=[REPOSITORY / "stage_bank" / "skills"],
        preload=["numpy", "skimage", "stage_bank.skills.cli"],
    )
    try:
        session = sandbox.open({})
        hidden = ["common", "rubrics", "client", "server", "stage_bank.tracks", "stage_bank.state", "torch", "flwr"]
        attempt = f"""
import importlib, os, stage_bank.skills
for name in {hidden!r}:
    try: importlib.import_module(name)
    except ImportError: continue
    print("visible:", name)
found = [path for path, _, names in os.walk("/") if {{"rubrics", "tracks"}} & set(names)]
print(found, open(stage_bank.__file__).read())
"""
        receipt = session.execute(Language.PYTHON, attempt)
        assert receipt.output == "[] \n", receipt
        assert session.execute(Language.BASH, "bat help").succeeded
    finally:
        sandbox.close()


@pytest.mark.parametrize("abi", [1, 2, 5])
def test_older_kernels_lose_signals_and_nothing_else(abi: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_HIGHEST_LANDLOCK_ABI", abi)
    sandbox = open_small("landlock", limits=Limits(wall_s=0.5))
    try:
        session = sandbox.open({"a": b"1"})
        attempt = (
            "import os, signal\ntry: os.kill(os.getpid(), signal.SIGKILL)\nexcept PermissionError: print('denied')"
        )
        assert session.execute(Language.PYTHON, attempt).output == "denied\n"
        outside = (
            f"import os\ntry: os.truncate({str(sandbox._folder / 'worker.log')!r}, 0)\nexcept OSError: print('denied')"
        )
        assert session.execute(Language.PYTHON, outside).output == "denied\n"
        daemon = "(setsid bash -c 'while :; do echo x > beat; sleep 0.02; done' &) ; sleep 0.2; echo $(cat a)"
        assert session.execute(Language.BASH, daemon).output == "1\n"
        assert session.execute(Language.BASH, ":(){ :|:& };:; sleep 9").timed_out
        before = session.execute(Language.BASH, "rm -f beat; sleep 0.2").changed
        assert before == {"beat": None}
    finally:
        sandbox.close()


def test_an_abandoned_execution_ends() -> None:
    """As when a signal handler raises in the thread that waits for it."""
    sandbox = open_small("bwrap", limits=Limits(wall_s=60.0))
    try:
        session = sandbox.open({})
        assert isinstance(session, Session)

        def interrupted(*arguments: object) -> None:
            raise KeyboardInterrupt

        previous = signal.signal(signal.SIGALRM, interrupted)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            session.execute(Language.BASH, f"sleep 60.{os.getpid()}")
        signal.signal(signal.SIGALRM, previous)
        deadline = time.monotonic() + 5
        while sleepers() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not sleepers()
        assert session.execute(Language.BASH, "echo on").output == "on\n"
    finally:
        sandbox.close()
