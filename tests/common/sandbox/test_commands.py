"""The shortcut for plain commands must mean exactly what bash means, or decline."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.sandbox.inside.commands import parse_simple, run_simple

PIECES = [
    "kit", " ", "  ", "\t", "\n", "&&", " && ", "a", "b c", "'q q'", '"d d"', "--x", "=", "#", " #", "$HOME", "*", ";",
    "|", "&", ">", "\\", "'", '"', "~", "!", "fail", "()", "{a,b}", "é", "-", "if", "X=1 ", "\r", "\x0b", "[", "^", "%",
]  # fmt: skip

BASH = 'kit() { printf "<%s>" "$@"; echo; [ "$1" != fail ]; }\n'


def by_shortcut(lines: list[list[list[str]]]) -> tuple[str, int]:
    printed = []

    def run(command: object, words: list[str]) -> int:
        printed.append("".join(f"<{word}>" for word in words[1:]) or "<>")
        return 1 if words[1:2] == ["fail"] else 0

    status = run_simple(lines, {"kit": lambda arguments: 0}, run)
    return "".join(f"{line}\n" for line in printed), status


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_shortcut_agrees_with_bash(code: str) -> None:
    lines = parse_simple(code, {"kit"})
    if lines is None:
        return
    real = subprocess.run(["bash", "--norc", "-c", BASH + code], capture_output=True, env={}, check=False)
    assert by_shortcut(lines) == (real.stdout.decode(), real.returncode)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["kit", "kit a", "kit fail", "kit 'b c' --x=1"]), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    )
)
def test_chains_stop_where_bash_stops(script: list[list[str]]) -> None:
    code = "\n".join(" && ".join(chain) for chain in script)
    lines = parse_simple(code, {"kit"})
    assert lines is not None
    real = subprocess.run(["bash", "--norc", "-c", BASH + code], capture_output=True, env={}, check=False)
    assert by_shortcut(lines) == (real.stdout.decode(), real.returncode)


@pytest.mark.parametrize(
    "code",
    [
        *("", "ls", "kit | cat", "kit > f", "kit $X", "kit `x`", "kit; kit", "kit &", "kit 'a\nb'", "kit *", "kit # c"),
        *("kit &&", "&& kit", "kit && ls", "kit \\\n a", "kit a{b,c}", "X=1 kit", "! kit", "kit ~", "kit \u00e9"),
    ],
)
def test_everything_else_declines(code: str) -> None:
    assert parse_simple(code, {"kit"}) is None
