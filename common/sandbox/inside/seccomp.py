"""The system-call filter of agent code: a deny list in classic BPF (seccomp(2), filter mode).

Denied calls fail with EPERM (or ENOSYS where libc has a fallback), so that honest programs see an error instead of a
crash. Calls newer than the table are refused as unknown, so that a new kernel does not widen what agent code can do.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from .linux import machine, prctl

__all__ = ["build_filter", "install_filter"]

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_NEW_NAMESPACES = 0x7E020080
_AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEWEST_KNOWN = 462

# name: (x86-64 number, arm64 number); numbers above 423 are the same on both.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183), "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "io_destroy": (207, 1), "io_submit": (209, 2), "io_cancel": (210, 3),
    "io_getevents": (208, 4),
    "userfaultfd": (323, 282), "bpf": (321, 280), "perf_event_open": (298, 241),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "unshare": (272, 97), "setns": (308, 268),
    "mknod": (133, None), "mknodat": (259, 33), "acct": (163, 89), "syslog": (103, 116), "reboot": (169, 142),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58), "lookup_dcookie": (212, 18),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263), "nfsservctl": (180, 42), "uselib": (134, None), "ustat": (136, None),
    "sysfs": (139, None), "personality": (135, 92), "mbind": (237, 235), "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "set_mempolicy_home_node": (450, 450),
    "ioprio_set": (251, 30), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "landlock_create_ruleset": (444, 444),
    "seccomp": (317, 277), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "vmsplice": (278, 75), "inotify_add_watch": (254, 27), "map_shadow_stack": (453, 453),
    "lsm_set_self_attr": (460, 460),
}  # fmt: skip

_SIGNALS: dict[str, tuple[int | None, int | None]] = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
}  # fmt: skip
"""Denied too where nothing else keeps signals inside."""

_TRUNCATE: dict[str, tuple[int | None, int | None]] = {"truncate": (76, 45)}
"""Denied too where Landlock governs only files that are opened for writing."""

_HANDLES: dict[str, tuple[int | None, int | None]] = {"pidfd_open": (434, 434)}
"""Denied too where other processes share the process-id namespace."""

_METADATA: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
"""Say that they succeeded and do nothing, where the host's files are in reach: Landlock does not govern these calls.
A refusal would break every program that copies a file with its mode."""

_SYNC: dict[str, tuple[int | None, int | None]] = {"sync": (162, 81), "syncfs": (306, 267)}
"""Likewise everywhere: they would make the whole host wait for its disks."""

_OWN_PROCESS_ONLY = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274),
}  # fmt: skip
"""The first argument is a process id and must be 0, the caller."""

_CLONE, _CLONE3, _IOCTL, _PRCTL, _SETPRIORITY = (56, 220), (435, 435), (16, 29), (157, 167), (141, 140)
_FCNTL, _SOCKETPAIR = (72, 25), (53, 199)
_DENIED_IOCTL = (0x5412, 0x541C, 0x8901, 0x8902)
"""TIOCSTI and TIOCLINUX put words into a terminal; FIOSETOWN and SIOCSPGRP aim a signal at another process."""
_DENIED_FCNTL = (8, 15)
"""F_SETOWN and F_SETOWN_EX, for the same reason."""
_DENIED_PRCTL = (22, 35, 0x59616D61)
"""PR_SET_SECCOMP, PR_SET_MM and PR_SET_PTRACER."""


def _step(code: int, k: int, on_true: int = 0, on_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, on_true, on_false, k)


def _refuse(number: int = errno.EPERM) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _low_word(argument: int) -> bytes:
    return _step(_LOAD, _FIRST_ARGUMENT + 8 * argument)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` (which must end in a return) for one system call, else go on."""
    return [_step(_JUMP_EQUAL, number, 0, len(body)), *body]


def _any_of(argument: int, values: tuple[int, ...]) -> list[bytes]:
    tests = [step for value in values for step in (_step(_JUMP_EQUAL, value, 0, 1), _refuse())]
    return [_low_word(argument), *tests, _step(_RETURN, _ALLOW)]


def build_filter(*, landlock_abi: int | None) -> bytes:
    """The filter program for this machine, 8 bytes an instruction.

    Args:
        landlock_abi: `None` where namespaces keep host files and processes out of reach; otherwise the version of
            Landlock, and what it cannot govern is denied here.
    """
    column = 0 if machine() == "x86_64" else 1
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, _AUDIT_ARCHITECTURE[machine()], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        # Also catches the x32 numbers, which start at 2 ** 30.
        _step(_JUMP_GREATER_EQUAL, _NEWEST_KNOWN + 1, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    denied, pretended = dict(_DENIED), dict(_SYNC)
    if landlock_abi is not None:
        denied |= _HANDLES | (_SIGNALS if landlock_abi < 6 else {}) | (_TRUNCATE if landlock_abi < 3 else {})
        pretended |= _METADATA
    for pair in denied.values():
        number = pair[column]
        if number is not None:
            steps += _when(number, [_refuse()])
    for pair in pretended.values():
        number = pair[column]
        if number is not None:
            steps += _when(number, [_refuse(0)])
    only_zero = [_low_word(0), _step(_JUMP_EQUAL, 0, 0, 1), _step(_RETURN, _ALLOW), _refuse()]
    for numbers in _OWN_PROCESS_ONLY.values():
        steps += _when(numbers[column], only_zero)
    steps += _when(_CLONE3[column], [_refuse(errno.ENOSYS)])
    new_namespaces = [_low_word(0), _step(_JUMP_ANY_BIT, _NEW_NAMESPACES, 0, 1), _refuse(), _step(_RETURN, _ALLOW)]
    steps += _when(_CLONE[column], new_namespaces)
    steps += _when(_IOCTL[column], _any_of(1, _DENIED_IOCTL))
    steps += _when(_FCNTL[column], _any_of(1, _DENIED_FCNTL))
    steps += _when(_PRCTL[column], _any_of(0, _DENIED_PRCTL))
    # A connected pair within one program is harmless; a datagram one could still be sent to a named socket.
    unix_stream = [
        *(_low_word(0), _step(_JUMP_EQUAL, 1, 1, 0), _refuse()),
        *(_low_word(1), _step(_AND, 0xF), _step(_JUMP_EQUAL, 1, 0, 1), _step(_RETURN, _ALLOW), _refuse()),
    ]
    steps += _when(_SOCKETPAIR[column], unix_stream)
    own_priority = [_low_word(1), _step(_JUMP_EQUAL, 0, 0, 1), _step(_RETURN, _ALLOW), _refuse()]
    steps += _when(_SETPRIORITY[column], own_priority)
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Put the calling process and all its future children under `program`; needs no_new_privs."""
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program)))
