"""What agent code tries and must not get: each attack prints BREACH when it succeeds."""

import os
import time
from pathlib import Path

import pytest

from common.sandbox import Language, Sandbox, SandboxSession

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.syscall.restype = ctypes.c_long\n"


def attack(session: SandboxSession, code: str, language: Language = Language.PYTHON) -> str:
    """Run an attack; fail when it reports success or did not even get to try."""
    receipt = session.execute(language, code)
    assert "BREACH" not in receipt.output, receipt.output
    assert "tried" in receipt.output, receipt
    return receipt.output


def attempts(*expressions: str, before: str = "") -> str:
    """A program that evaluates each expression and reports those that did not raise."""
    lines = [before, "print('tried')"]
    for expression in expressions:
        lines += ["try:", f"    value = {expression}", "except Exception as error: print(type(error).__name__)"]
        lines += [f"else: print('BREACH', {expression!r}, value)"]
    return "\n".join(lines)


def calls(*arguments: str) -> str:
    """A program that makes raw system calls and reports those that succeed."""
    lines = [LIBC, "print('tried')"]
    lines += [f"if libc.syscall({each}) >= 0: print('BREACH', {each!r})" for each in arguments]
    return "\n".join(lines)


def test_host_files_are_out_of_reach(session: SandboxSession, secret: Path) -> None:
    repository = Path(__file__).parents[3]
    paths = [secret, repository / "pyproject.toml", "/etc/shadow", "/root/.bashrc", f"/proc/{os.getpid()}/environ"]
    paths += [f"/proc/self/root{secret}", f"/workspace/../{secret}", f"../../../../../..{secret}"]
    attack(session, attempts(*[f"open({str(path)!r}).read()" for path in paths]))
    folders = ["/root", "/home", "/work", "/var", str(repository), str(secret.parent), "/sys/kernel", "/run"]
    attack(session, attempts(*[f"os.listdir({path!r})" for path in folders], before="import os"))


def test_host_files_cannot_be_changed(session: SandboxSession, secret: Path) -> None:
    attack(
        session,
        attempts(
            f"open({str(secret)!r}, 'w')",
            f"os.open({str(secret.parent / 'new')!r}, os.O_CREAT | os.O_WRONLY)",
            f"os.unlink({str(secret)!r})",
            f"os.rename({str(secret)!r}, 'mine')",
            f"os.link({str(secret)!r}, 'mine')",
            f"os.truncate({str(secret)!r}, 0)",
            f"os.mkdir({str(secret.parent / 'folder')!r})",
            "open('/usr/new', 'w')",
            "open(os.__file__, 'a')",
            "open(numpy.__file__, 'a')",
            "open(kit.__file__, 'a')",
            before="import os, numpy, outer.kit as kit",
        ),
    )
    session.execute(Language.BASH, f"chmod 600 {secret}; touch -d 2001-01-01 {secret}; chmod 700 {secret.parent}")
    assert secret.stat().st_mode & 0o777 == 0o666
    assert secret.stat().st_mtime > 1_500_000_000
    assert secret.read_text() == "host secret"
    assert os.listdir(secret.parent) == ["secret"]


def test_links_do_not_lead_out(session: SandboxSession, secret: Path) -> None:
    program = f"ln -s {secret} link; ln -s {secret.parent} folder; echo tried; cat link folder/secret && echo BREACH"
    attack(session, program, Language.BASH)
    assert set(session.files()) == {"task.json", "cases/one/image.bin"}


def test_own_code_is_hidden(session: SandboxSession) -> None:
    modules = ["common", "rubrics", "stage_bank", "server", "client", "outer.hidden", "torch", "cryptography"]
    attack(session, attempts(*[f"importlib.import_module({name!r})" for name in modules], before="import importlib"))
    receipt = session.execute(Language.PYTHON, "import outer.kit.cli, numpy; print(len(outer.__dict__) > 0)")
    assert receipt.output == "True\n"


def test_other_rollouts_are_out_of_view(sandbox: Sandbox, session: SandboxSession) -> None:
    other = sandbox.open({"hidden.txt": b"of another rollout"})
    try:
        other.execute(Language.BASH, "echo leftover > $TMPDIR/leftover; echo words-of-another-rollout")
        find = "echo tried; find / -name 'hidden.txt' -o -name leftover 2>/dev/null | sed 's/^/BREACH /'"
        attack(session, find, Language.BASH)
        attack(session, "echo tried; ls -d /sessions /newroot /oldroot 2>/dev/null | sed 's/^/BREACH /'", Language.BASH)
        secrets = attack(session, "import os; print('tried', os.environ['HOME'], os.environ['TMPDIR'])").split()
        if secrets[1] == "/workspace":
            assert other.execute(Language.PYTHON, "import os; print(os.listdir('/tmp'))").output == "['leftover']\n"
        else:
            folder = other.execute(Language.BASH, "echo $HOME").output.strip()
            attack(session, attempts(f"open('{folder}/hidden.txt')", f"os.listdir('{folder}')", before="import os"))
    finally:
        other.close()


SCAN = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
wanted = "-".join(["marker", "of", "another", "rollout"]).encode()
planted = [wanted * 2 for _ in range(PLANTED)]
source, sink = os.pipe()
page = bytearray(4096)
own = [(id(wanted), 200), (ctypes.addressof((ctypes.c_char * 4096).from_buffer(page)), 4096)]
found, seen = 0, set()
def scan(address, step):
    global found
    while address not in seen and libc.write(sink, address, 4096) == 4096:
        seen.add(address)
        os.readv(source, [page])
        at = page.find(wanted)
        while at >= 0:
            found += not any(low <= address + at < low + size for low, size in own)
            at = page.find(wanted, at + 1)
        address += step
buffer = ctypes.create_string_buffer(8)
for start in (id(object()), id(wanted), id(os), ctypes.addressof(buffer), id(b"x" * 100000), *map(id, planted)):
    for step in (4096, -4096):
        scan(start // 4096 * 4096 + (step if step < 0 else 0), step)
print("tried", found, len(seen))
"""
"""Search the program's own memory, page by page, without /proc (a write from an unmapped page fails)."""


def test_memory_holds_nothing_of_other_rollouts(sandbox: Sandbox, session: SandboxSession) -> None:
    marker = "-".join(["marker", "of", "another", "rollout"])
    other = sandbox.open({f"{marker}.txt": marker.encode() * 50})
    program = f"# {marker}\nprint(open('{marker}.txt').read())"
    assert marker in other.execute(Language.PYTHON, program).output
    other.execute(Language.BASH, f"kit {marker}")
    other.close()
    _, planted, pages = session.execute(Language.PYTHON, SCAN.replace("PLANTED", "3")).output.split()
    assert int(planted) >= 3
    assert int(pages) > 1000
    _, found, _ = session.execute(Language.PYTHON, SCAN.replace("PLANTED", "0")).output.split()
    assert found == "0"


def test_no_process_can_be_seen_or_touched(session: SandboxSession) -> None:
    listing = session.execute(Language.BASH, "for p in /proc/[0-9]*; do echo $p; done").output.split()
    assert len(listing) <= 2
    victims = [os.getpid(), os.getppid(), 1]
    program = attempts(*[f"os.kill({pid}, 0)" for pid in victims if pid > 1], before="import os")
    attack(session, program)
    if os.geteuid() == 0:  # The worker's user has no other processes then, should this test fail.
        attack(session, "import os\nprint('tried', flush=True)\ntry: os.kill(-1, 9)\nexcept OSError: pass")
    numbers = [
        f"101, 16, {os.getppid()}, 0, 0",
        f"434, {os.getppid()}, 0",
        "310, 1, 0, 0, 0, 0, 0",
        "312, 1, 2, 0, 0, 0",
    ]
    attack(session, calls(*numbers))
    changes = [f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)" for pid in victims]
    changes += [f"resource.prlimit({pid}, resource.RLIMIT_CORE, (0, 0))" for pid in victims if pid > 1]
    changes += [f"os.sched_setaffinity({pid}, [0])" for pid in victims]
    attack(session, attempts(*changes, before="import os, resource"))


def test_no_sockets_of_any_family(session: SandboxSession) -> None:
    families = [f"socket.socket({family}, {kind})" for family in range(1, 46) for kind in (1, 2, 3)]
    attack(session, attempts(*families, before="import socket"))
    attack(session, attempts("socket.getaddrinfo('localhost', 80, family=2)[0] and 1/0", before="import socket"))
    datagrams = "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"
    attack(session, attempts(datagrams, before="import socket"))
    talk = "import asyncio\nasync def f(): return 7\nprint(asyncio.run(f()))"
    assert session.execute(Language.PYTHON, talk).output == "7\n"
    attack(session, "echo tried; exec 3<>/dev/tcp/127.0.0.1/22 && echo BREACH", Language.BASH)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system-call numbers of x86-64")
def test_dangerous_system_calls_are_denied(session: SandboxSession) -> None:
    attack(
        session,
        calls(
            "272, 0x10000000", "272, 0x00020000", "272, 0x40000000", "56, 0x10000011, 0, 0, 0, 0",
            "56, 0x20000011, 0, 0, 0, 0", "435, 0, 0", "165, b'none', b'/tmp', b'tmpfs', 0, 0", "166, b'/tmp', 2",
            "155, b'/tmp', b'/tmp'", "161, b'/tmp'", "428, -100, b'/', 1", "430, b'tmpfs', 0", "308, 0, 0",
            "250, 0, -3, 0", "248, b'user', b'x', b'y', 1, -3", "425, 8, ctypes.create_string_buffer(200)",
            "323, 0", "321, 0, 0, 0", "298, 0, 0, 0, -1, 0", "29, 0, 4096, 0o1600", "240, b'/q', 0o102, 0o600, 0",
            "319, b'x', 0", "447, 0", "133, b'device', 0o20666, 0x103", "259, -100, b'device', 0o60666, 0x800",
            "135, 0x0040000", "303, -100, b'.', 0, 0, 0", "304, -1, 0, 0", "153", "163, b'x'", "175, 0, 0, b''",
            "317, 1, 0, 0", "157, 22, 2, 0, 0, 0", "157, 0x59616d61, -1, 0, 0, 0", "16, 0, 0x5412, b'x'", "72, 0, 8, 1",
            "206, 8, ctypes.create_string_buffer(8)", "0x40000000 + 39", "463, 0", "500, 0",
            "188, b'task.json', b'user.x', b'y', 1, 0",
        ),
    )  # fmt: skip


def test_privileges_are_gone(session: SandboxSession) -> None:
    program = """
import ctypes, os
libc = ctypes.CDLL(None)
print("tried")
if os.geteuid() == 0: print("BREACH root")
if libc.prctl(21, 0, 0, 0, 0) != 2: print("BREACH no filter")
if libc.prctl(39, 0, 0, 0, 0) != 1: print("BREACH new privileges")
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(header, data)
if any(data): print("BREACH capabilities", list(data))
for attempt in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.nice(-5)):
    try: attempt(); print("BREACH")
    except OSError: pass
"""
    attack(session, program)
    attack(session, "echo tried; su -c 'echo BREACH' root; sudo -n echo BREACH", Language.BASH)


def test_environment_and_descriptors_are_clean(session: SandboxSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAT_SECRET_TOKEN", "do not leak")
    names = [
        "HOME",
        "LANG",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "TMPDIR",
        "USER",
    ]
    output = session.execute(Language.PYTHON, "import os; print(*sorted(os.environ))").output.split()
    assert output == names
    shown = session.execute(Language.BASH, "env; cat /proc/*/environ 2>/dev/null").output
    assert "SECRET" not in shown
    descriptors = """
import os
found = []
for number in range(3, 4096):
    try: os.fstat(number); found.append(number)
    except OSError: pass
print(found, os.read(0, 1))
"""
    assert session.execute(Language.PYTHON, descriptors).output == "[] b''\n"


def test_server_cannot_be_reached_from_its_child(session: SandboxSession) -> None:
    """The child inherits the server's objects; none of them leads back to it."""
    program = """
import gc, socket
print("tried")
for found in gc.get_objects():
    if isinstance(found, socket.socket):
        try: found.send(b'{"status": 0, "cpu_s": 0, "peak_kib": 1}'); print("BREACH", found)
        except OSError: pass
raise SystemExit(3)
"""
    attack(session, program)
    assert session.receipts[-1].exit_status == 3


def test_scheduled_work_does_not_outlive_the_program(session: SandboxSession) -> None:
    program = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.2); open("late", "w")
print("tried")
"""
    attack(session, program)
    time.sleep(0.4)
    assert "late" not in session.files()
    attack(session, "echo tried; [ -e late ] && echo BREACH", Language.BASH)
