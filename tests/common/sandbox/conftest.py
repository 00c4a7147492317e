"""Both backends behind one fixture: every test of this folder that takes `sandbox` runs on each."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.sandbox import Limits, Sandbox, SandboxSession, open_sandbox
from common.signing import SigningKey

LIMITS = Limits(wall_s=2.0, cpu_s=2, memory_bytes=768 << 20, processes=24, workspace_bytes=2 << 20, output_bytes=4096)

KIT = """
import os
import sys

import numpy

COUNTER = [0]


def main(argv: list[str]) -> int:
    COUNTER[0] += 1
    if argv[:1] == ["write"]:
        with open(argv[1], "w") as stream:
            stream.write(" ".join(argv[2:]))
    elif argv[:1] == ["fail"]:
        print("failed")
        return int(argv[1])
    elif argv[:1] == ["crash"]:
        raise ValueError("crashed")
    elif argv[:1] == ["exit"]:
        sys.exit("left")
    else:
        print("|".join(argv), COUNTER[0], os.getcwd() == os.environ["HOME"], int(numpy.ones(3).sum()))
    return 0
"""


@pytest.fixture(scope="session")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package `outer.kit` whose siblings and parent must not be visible inside."""
    outer = tmp_path_factory.mktemp("toolkit") / "outer"
    (outer / "kit").mkdir(parents=True)
    (outer / "__init__.py").write_text("raise SystemExit('the parent package was run')\n")
    (outer / "hidden.py").write_text("")
    (outer / "kit" / "__init__.py").write_text("")
    (outer / "kit" / "cli.py").write_text(KIT)
    return outer / "kit"


@pytest.fixture(scope="session", params=["bwrap", "landlock"])
def sandbox(request: pytest.FixtureRequest, toolkit: Path) -> Iterator[Sandbox]:
    opened = open_sandbox(
        SigningKey.generate(),
        warm_commands={"kit": "outer.kit.cli:main"},
        warm_paths=[toolkit],
        preload=["numpy", "outer.kit.cli"],
        limits=LIMITS,
        backend=request.param,
    )
    yield opened
    opened.close()


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[SandboxSession]:
    opened = sandbox.open({"task.json": b"{}", "cases/one/image.bin": bytes(1000)})
    yield opened
    opened.close()


@pytest.fixture
def secret() -> Iterator[Path]:
    """A file on the host that every user of the host may read and change, below folders that all may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        path = Path(folder, "secret")
        path.write_text("host secret")
        path.chmod(0o666)
        yield path
