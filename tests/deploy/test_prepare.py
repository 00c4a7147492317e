import sys
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from deploy.prepare import make_once

DIGEST = "ab" * 32


def program(source: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys; out = sys.argv[sys.argv.index('--out') + 1]; {source}"]


def test_a_thing_is_made_once_and_kept_by_its_digest(tmp_path: Path) -> None:
    said: list[str] = []
    made = make_once(tmp_path, DIGEST, program("os.mkdir(out); open(out + '/x', 'w').write('1')"), said.append)
    assert (made / "x").read_text() == "1"
    assert make_once(tmp_path, DIGEST, program("sys.exit('not again')"), said.append) == made
    assert len(said) == 1
    assert list(tmp_path.iterdir()) == [made]
    other = make_once(tmp_path, "cd" * 32, program("os.mkdir(out)"), said.append)
    assert sorted(tmp_path.iterdir()) == sorted([made, other])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("os.mkdir(out); print('first'); sys.exit('no images')", "no images"),
        ("os.mkdir(out); os._exit(3)", "no reason given"),
        ("pass", "cannot write the cache"),
    ],
)
def test_a_failure_leaves_nothing_and_says_why(tmp_path: Path, source: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        make_once(tmp_path, DIGEST, program(source), lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot write the cache"):
        make_once(tmp_path / "file" / "policy", DIGEST, program("os.mkdir(out)"), lambda _: None)
