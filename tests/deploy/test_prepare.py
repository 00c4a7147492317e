import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from common.errors import ConfigurationError
from deploy.prepare import Job, make_once
from tests.client.hospital import until

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "ab" * 32


def program(source: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys; out = sys.argv[sys.argv.index('--out') + 1]; {source}"]


def test_a_thing_is_made_once_and_kept_by_its_digest(tmp_path: Path) -> None:
    said: list[str] = []
    made = make_once(
        [Job("it", tmp_path, DIGEST, program("os.mkdir(out); open(out + '/x', 'w').write('1')"))], said.append
    )[0]
    assert (made / "x").read_text() == "1"
    assert make_once([Job("it", tmp_path, DIGEST, program("sys.exit('not again')"))], said.append)[0] == made
    assert len(said) == 1
    assert list(tmp_path.iterdir()) == [made]
    other = make_once([Job("it", tmp_path, "cd" * 32, program("os.mkdir(out)"))], said.append)[0]
    assert sorted(tmp_path.iterdir()) == sorted([made, other])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("os.mkdir(out); print('first'); sys.exit('no images')", "no images"),
        ("os.mkdir(out); os._exit(3)", "no reason given"),
        ("pass", "cannot write the cache"),
    ],
)
def test_a_failure_leaves_nothing_but_its_log_and_says_why(tmp_path: Path, source: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        make_once([Job("it", tmp_path, DIGEST, program(source))], lambda _: None)[0]
    assert [path.name for path in tmp_path.iterdir()] in ([], ["failed.log"])


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot write the cache"):
        make_once([Job("it", tmp_path / "file" / "policy", DIGEST, program("os.mkdir(out)"))], lambda _: None)[0]


def test_all_are_made_side_by_side_and_one_failure_loses_no_other(tmp_path: Path) -> None:
    def meeting(own: str, other: str) -> list[str]:
        lines = f"import time; open({str(tmp_path / own)!r}, 'w').close()\nwhile not os.path.exists"
        return program(f"{lines}({str(tmp_path / other)!r}): time.sleep(0.01)\nos.mkdir(out)")

    jobs = [
        Job("it", tmp_path / "a", DIGEST, meeting("one", "two")),
        Job("it", tmp_path / "b", DIGEST, meeting("two", "one")),
    ]
    assert [path.is_dir() for path in make_once(jobs, lambda _: None)] == [True, True]
    failing = Job("it", tmp_path / "c", DIGEST, program("sys.exit('no luck')"))
    slower = Job("it", tmp_path / "d", DIGEST, program("import time; time.sleep(0.5); os.mkdir(out)"))
    with pytest.raises(ConfigurationError, match=r"no luck.*failed\.log.*Run it again"):
        make_once([failing, slower], lambda _: None)
    assert (tmp_path / "c" / "failed.log").read_text().strip() == "no luck"
    assert slower.folder.is_dir()


def test_what_is_ended_ends_its_makers_and_leaves_no_scratch(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "deploy.prepare"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    makers = psutil.Process(process.pid)
    until(lambda: len(makers.children()) == 2)
    children = makers.children(recursive=True)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert said == b"prepare: interrupted\n"
    assert process.returncode == 130
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert [path for path in tmp_path.rglob("*") if path.name.startswith("making-")] == []
