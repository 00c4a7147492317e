"""Floods, bombs and hangs end at their limits and leave other rollouts alone."""

import threading
import time

from common.sandbox import Language, Sandbox, SandboxSession
from tests.common.sandbox.conftest import LIMITS


def test_time_limit_ends_daemons_too(session: SandboxSession) -> None:
    program = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                with open("beat", "w") as stream: stream.write(str(time.time()))
                time.sleep(0.02)
        os._exit(0)
print("waiting", flush=True)
time.sleep(60)
"""
    receipt = session.execute(Language.PYTHON, program)
    assert receipt.timed_out
    assert receipt.exit_status == -9
    assert LIMITS.wall_s <= receipt.wall_s < LIMITS.wall_s + 1.5
    assert receipt.output == "waiting\n"
    before = session.files()["beat"]
    time.sleep(0.2)
    assert session.files()["beat"] == before


def test_signals_cannot_be_ignored(session: SandboxSession) -> None:
    receipt = session.execute(Language.BASH, "trap '' TERM INT HUP; while true; do sleep 0.1; done")
    assert receipt.timed_out


def test_processor_limit_and_accounting(session: SandboxSession) -> None:
    burn = """
import os, time
for child in range(2):
    if os.fork() == 0:
        os.setsid()
        while time.process_time() < 0.2: pass
        open(f"burnt{child}", "w").close()
        time.sleep(60)
while len([name for name in os.listdir() if name.startswith("burnt")]) < 2: time.sleep(0.05)
"""
    receipt = session.execute(Language.PYTHON, burn)
    assert receipt.succeeded
    assert receipt.cpu_s > 0.35  # Children that nobody waited for count.


def test_fork_bomb_stays_inside(sandbox: Sandbox, session: SandboxSession) -> None:
    other = sandbox.open({})
    done = threading.Event()
    bomb = threading.Thread(target=lambda: (session.execute(Language.BASH, ":(){ :|:& };:; wait; sleep 9"), done.set()))
    bomb.start()
    try:
        if sandbox.name == "bwrap":
            time.sleep(0.3)
            for _ in range(5):
                assert other.execute(Language.BASH, "echo $(echo fine)").output == "fine\n"
    finally:
        bomb.join()
        other.close()
    assert session.execute(Language.BASH, "echo $(echo again)").output == "again\n"


def test_process_limit(session: SandboxSession) -> None:
    program = """
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0: time.sleep(5); os._exit(0)
        made += 1
except OSError: pass
print(made)
"""
    made = int(session.execute(Language.PYTHON, program).output)
    assert 0 < made <= LIMITS.processes


def test_memory_of_one_process(session: SandboxSession) -> None:
    receipt = session.execute(Language.PYTHON, "try: x = bytearray(2 << 30)\nexcept MemoryError: print('refused')")
    assert receipt.output == "refused\n"
    receipt = session.execute(Language.PYTHON, "import numpy as np\nx = np.ones(8 << 20)\nprint(x.nbytes)")
    assert receipt.succeeded
    assert receipt.peak_memory_bytes > 64 << 20


def test_memory_of_all_processes_together(session: SandboxSession) -> None:
    program = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        x = bytearray(200 << 20); time.sleep(9)
time.sleep(9)
"""
    receipt = session.execute(Language.PYTHON, program)
    assert receipt.exit_status == -9
    assert not receipt.timed_out


def test_disk_flood(sandbox: Sandbox, session: SandboxSession) -> None:
    program = "for i in 1 2 3 4 5 6; do head -c 1500000 /dev/zero > f$i || break; done; echo full; sleep 1; echo late"
    receipt = session.execute(Language.BASH, program)
    if sandbox.name == "bwrap":  # A file system of fixed size: the writes fail and the program goes on.
        assert receipt.output.endswith("late\n")
        assert sum(map(len, session.files().values())) <= LIMITS.workspace_bytes
    else:  # The workspace is measured now and then: the program is ended.
        assert receipt.exit_status == -9
        assert "late" not in receipt.output
    big = session.execute(Language.PYTHON, "import os\nos.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 1 << 34)")
    assert not big.succeeded


def test_inode_flood(sandbox: Sandbox, session: SandboxSession) -> None:
    program = """
made = 0
try:
    for n in range(20000): open(f"f{n}", "w").close(); made += 1
except OSError as error: print(error.errno)
print(made)
"""
    receipt = session.execute(Language.PYTHON, program)
    if sandbox.name == "bwrap":
        assert int(receipt.output.split()[-1]) < 4096
    assert len(session.files()) <= 4096


def test_output_flood(session: SandboxSession) -> None:
    receipt = session.execute(Language.PYTHON, "print('x' * 100000)")
    assert receipt.succeeded
    assert receipt.output_truncated
    assert len(receipt.output) == LIMITS.output_bytes
    endless = session.execute(Language.BASH, "yes")
    assert endless.exit_status == -9
    assert len(endless.output) == LIMITS.output_bytes
    exact = session.execute(Language.PYTHON, f"print('y' * {LIMITS.output_bytes - 1})")
    assert not exact.output_truncated


def test_draining_the_own_output_does_not_stop_the_watch(session: SandboxSession) -> None:
    program = """
import os
try: own = os.open("/proc/self/fd/1", os.O_RDONLY)
except OSError: raise SystemExit
while True: os.write(1, b"x"); os.read(own, 10)
"""
    receipt = session.execute(Language.PYTHON, program)
    assert receipt.wall_s < LIMITS.wall_s + 1.5


def test_close_ends_a_running_program(sandbox: Sandbox) -> None:
    session = sandbox.open({})
    results = []
    runner = threading.Thread(target=lambda: results.append(session.execute(Language.BASH, "sleep 60")))
    runner.start()
    time.sleep(0.2)
    begin = time.monotonic()
    session.close()
    runner.join()
    assert time.monotonic() - begin < 1.0
    assert results[0].exit_status == -9
