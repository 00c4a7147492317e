"""Workspaces, receipts and the two languages."""

import hashlib
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.errors import SandboxError
from common.sandbox import Language, Sandbox, SandboxSession
from common.sandbox.tree import DEPTH


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_receipts_are_chained_and_signed(sandbox: Sandbox, session: SandboxSession) -> None:
    for number in range(3):
        session.execute(Language.PYTHON, f"open('f{number}', 'w').write('{number}'); print({number})")
    receipts = session.receipts
    assert [receipt.sequence for receipt in receipts] == [0, 1, 2]
    links = [session.seal().opening.digest, *(receipt.digest for receipt in receipts)]
    assert [receipt.previous for receipt in receipts] == links[:-1]
    for number, receipt in enumerate(receipts):
        receipt.verify(sandbox.public_key)
        assert receipt.created == {f"f{number}": digest(str(number))}
        assert receipt.output == f"{number}\n"
        assert receipt.cpu_s > 0
        assert receipt.peak_memory_bytes > 1 << 20


def test_changes_are_what_happened_to_files(session: SandboxSession) -> None:
    receipt = session.execute(
        Language.BASH, "echo new > cases/one/new; printf '{}' > task.json; rm cases/one/image.bin"
    )
    assert (receipt.created, receipt.modified) == ({"cases/one/new": digest("new\n")}, {})
    assert receipt.deleted == {"cases/one/image.bin": digest("\0" * 1000)}
    assert session.files() == {"task.json": b"{}", "cases/one/new": b"new\n"}
    mapped = """
import mmap
with open("task.json", "r+b") as stream:
    with mmap.mmap(stream.fileno(), 2) as view: view[:] = b"[]"
"""
    assert session.execute(Language.PYTHON, mapped).modified == {"task.json": digest("[]")}


def test_only_plain_files_count(session: SandboxSession) -> None:
    program = """
mkfifo fifo; ln -s /etc/passwd link; ln -s cases folder; ln task.json twin; touch "$(printf 'bad\\377name')"
mkdir -p a/b; echo x > a/b/c
"""
    receipt = session.execute(Language.BASH, program)
    assert receipt.changed == {"task.json": None, "a/b/c": digest("x\n")}
    assert set(session.files()) == {"cases/one/image.bin", "a/b/c"}


def test_sparse_files_cannot_make_the_host_read_for_ever(session: SandboxSession) -> None:
    receipt = session.execute(Language.BASH, "for n in 1 2 3 4 5 6 7; do truncate -s 1900K sparse$n; done")
    assert receipt.succeeded
    assert set(receipt.changed) == {f"sparse{number}" for number in (1, 2, 3, 4)}


def test_a_link_in_place_of_a_folder_is_not_followed(session: SandboxSession) -> None:
    session.execute(Language.BASH, "mv cases moved; ln -s moved cases; ln -s . loop")
    assert set(session.files()) == {"task.json", "moved/one/image.bin"}


def test_deep_trees_are_cut_and_removed(sandbox: Sandbox) -> None:
    session = sandbox.open({})
    program = """
import os
for depth in range(1500):
    os.mkdir("d"); os.chdir("d")
    if depth in (3, 20): open("f", "w").close()
"""
    assert session.execute(Language.PYTHON, program).changed == {"d/" * 4 + "f": digest("")}
    assert DEPTH < 20
    session.close()


def test_bad_paths_and_floods_of_input_are_refused(sandbox: Sandbox) -> None:
    for path in ("/etc/passwd", "../up", "a/../../b", "", "a//b", "a/./b", "nul\0", "a/" * 40 + "b"):
        with pytest.raises(SandboxError):
            sandbox.open({path: b"x"})
    if sandbox.name == "bwrap":
        with pytest.raises(SandboxError, match="cannot write"):
            sandbox.open({"large": bytes(3 << 20)})


def test_python_runs_as_main(session: SandboxSession) -> None:
    program = """
import sys
class Thing: pass
def name(): return __name__
if __name__ == "__main__":
    print(name(), Thing.__module__, sys.modules["__main__"].Thing is Thing, sys.argv, "inside" in globals())
"""
    assert session.execute(Language.PYTHON, program).output == "__main__ __main__ True ['-c'] False\n"
    session.execute(Language.BASH, "echo 'VALUE = 7' > mine.py")
    assert session.execute(Language.PYTHON, "import mine, pickle\nprint(mine.VALUE)").output == "7\n"


@pytest.mark.parametrize(
    ("program", "status", "output"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('words')", 1, "words\n"),
        ("import sys; sys.exit(None)", 0, ""),
        ("import os; os._exit(9)", 9, ""),
        ("import atexit; atexit.register(print, 'bye'); print('hi')", 0, "hi\nbye\n"),
        ("import threading as t\nt.Timer(0.05, print, ['late']).start()", 0, "late\n"),
        ("import sys; print('a', end=''); print('b', file=sys.stderr)", 0, "b\na"),
        ("", 0, ""),
        ("import os; os.close(1); print('lost')", 120, None),
        ("x = \0", 1, None),
    ],
)  # fmt: skip
def test_python_ends_like_the_interpreter(
    session: SandboxSession, program: str, status: int, output: str | None
) -> None:
    receipt = session.execute(Language.PYTHON, program)
    assert receipt.exit_status == status
    assert output is None or receipt.output == output


def test_python_errors_name_the_line(session: SandboxSession) -> None:
    receipt = session.execute(Language.PYTHON, "x = 1\nboom()")
    assert receipt.exit_status == 1
    assert receipt.output.splitlines()[0] == "Traceback (most recent call last):"
    assert receipt.output.splitlines()[1] == '  File "<string>", line 2, in <module>'
    assert "languages.py" not in receipt.output
    assert "SyntaxError" in session.execute(Language.PYTHON, "def").output


def test_bash_is_a_real_shell(session: SandboxSession) -> None:
    program = "for i in 1 2; do echo $((i * 2)); done | sort -r; cat <(echo sub); python3 -c 'import numpy; print(7)'"
    assert session.execute(Language.BASH, program).output == "4\n2\nsub\n7\n"
    assert session.execute(Language.BASH, "exit 5").exit_status == 5
    assert session.execute(Language.BASH, "no-such-program").exit_status == 127
    assert session.execute(Language.BASH, "yes | head -1").output == "y\n"
    for unrunnable in ("echo \0", "#" * 200_000):
        assert session.execute(Language.BASH, unrunnable).exit_status == 126


def test_warm_commands_are_quick_and_real(session: SandboxSession) -> None:
    warm = session.execute(Language.BASH, "kit a 'b c'\n\nkit d && kit fail 4 && kit never\n")
    assert warm.output == "a|b c 1 True 3\nd 2 True 3\nfailed\n"
    assert warm.exit_status == 4
    assert session.execute(Language.BASH, "kit write out.txt some words").changed == {"out.txt": digest("some words")}
    assert session.execute(Language.BASH, "kit exit").output == "left\n"
    crash = session.execute(Language.BASH, "kit crash")
    assert crash.exit_status == 1
    assert "ValueError: crashed" in crash.output
    real = session.execute(Language.BASH, "for w in x y; do kit $w; done; kit fail 4 || echo $?")
    assert real.output == "x 1 True 3\ny 1 True 3\nfailed\n4\n"


def test_unusual_code_is_a_receipt(session: SandboxSession) -> None:
    receipt = session.execute(Language.PYTHON, "print('\ud800', 'é', '\U0001f600')")
    assert receipt.output == "? é \U0001f600\n"
    assert "\ud800" not in receipt.code
    assert session.execute(Language.PYTHON, "import os; os.write(1, b'\\xff\\xfe')").output == "\ufffd\ufffd"
    assert session.execute(Language.PYTHON, f"x = '{'y' * 3_000_000}'; print(len(x))").output == "3000000\n"


def test_random_numbers_differ_between_executions(session: SandboxSession) -> None:
    program = "import numpy, random\nprint(numpy.random.rand(), random.random())"
    assert session.execute(Language.PYTHON, program).output != session.execute(Language.PYTHON, program).output


def test_executions_leave_no_state_but_files(session: SandboxSession) -> None:
    session.execute(Language.PYTHON, "import os, numpy\nnumpy.pi = 3\nos.environ['X'] = 'y'; os.umask(0)")
    after = "import os, numpy\nprint(numpy.pi > 3.1, 'X' in os.environ, oct(os.umask(0)))"
    assert session.execute(Language.PYTHON, after).output == "True False 0o22\n"


def test_many_sessions_at_once(sandbox: Sandbox) -> None:
    sessions = [sandbox.open({"n": str(number).encode()}) for number in range(64)]

    def work(number: int) -> str:
        return sessions[number].execute(Language.PYTHON, "print(open('n').read(), end='')").output

    try:
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(work, range(64))) == [str(number) for number in range(64)]
    finally:
        for session in sessions:
            session.close()


def test_two_executions_run_in_parallel(sandbox: Sandbox) -> None:
    first, second = sandbox.open({}), sandbox.open({})
    begin = time.monotonic()
    threads = [threading.Thread(target=each.execute, args=(Language.BASH, "sleep 0.5")) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin < 0.9
    first.close()
    second.close()


def test_closed_sessions_say_so(sandbox: Sandbox) -> None:
    session = sandbox.open({})
    session.close()
    session.close()
    with pytest.raises(SandboxError, match="closed"):
        session.execute(Language.PYTHON, "1")
    with pytest.raises(SandboxError, match="closed"):
        session.files()


def test_opening_is_quick(sandbox: Sandbox) -> None:
    files = {f"cases/{number}/image.npy": bytes(10_000) for number in range(15)}
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        session = sandbox.open(files)
        times.append(time.perf_counter() - begin)
        session.close()
    # Generous: 1 ms on an idle machine; the reduced backend writes to whatever disk holds the temporary folder.
    assert statistics.median(times) < (0.02 if sandbox.name == "bwrap" else 0.2)
