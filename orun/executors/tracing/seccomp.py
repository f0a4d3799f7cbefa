"""Seccomp filter of a stage's process: reports its opens, renames, links, probes, new folders and programs."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import re
import struct
import sys
from collections.abc import Mapping
from typing import Any

from orun.environment.processes import load_libc
from orun.executors.tracing.syscalls import OPENS, list_numbers

# By machine: its audit architecture, and the number of the system call `seccomp`.
ARCHITECTURES: Mapping[str, tuple[int, int]] = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, SPEC_ALLOW, NEW_LISTENER = 1, 1 << 2, 1 << 3
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
LOAD, EQUAL, ANY, RETURN = 0x20, 0x15, 0x45, 0x06  # BPF instructions
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in the data of a filter
FIRST_KERNEL = (5, 5)  # can let a reported call continue
REFUSED = "the system refuses it, as a container's seccomp profile may"
REFUSALS: Mapping[int, str] = {
    errno.EBUSY: "this orun runs in a process that is traced in the same way, as a stage of another orun is",
    errno.ENOSYS: "the kernel has no seccomp notifications",
    errno.EINVAL: "the kernel has no seccomp notifications, or is gVisor",
}


class Untraced(Exception):
    """The system does not report opens below Python; the text says why."""


class FilterProgram(ctypes.Structure):
    """C structure `sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def listen() -> int:
    """Make this process and its children report their system calls.

    Returns:
        The descriptor for the reports. From now on, each reported call waits until it is answered.

    Raises:
        Untraced: if the system has no such reports, or refuses them.
    """
    arguments = make_ready()
    if not arguments:
        raise Untraced(explain_unavailability())
    listener: int = -1 if load_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) else load_libc().syscall(*arguments)
    if listener < 0:
        number = ctypes.get_errno()
        raise Untraced(f"{REFUSALS.get(number, REFUSED)} (seccomp: {os.strerror(number)})")
    return listener


@functools.cache
def make_ready() -> tuple[Any, ...]:
    """Return the arguments of the system call; empty if there is none. Call it before a fork, as it takes a while."""
    if explain_unavailability():
        return ()
    code = _build_filter(platform.machine())
    program = FilterProgram(len(code) // 8, code)
    _, number = ARCHITECTURES[platform.machine()]
    return number, SET_MODE_FILTER, NEW_LISTENER | SPEC_ALLOW, ctypes.byref(program)


def explain_unavailability() -> str:
    """Return why this system has no such reports; "" if it should have them."""
    if sys.platform != "linux":
        return f"only Linux reports it, and this is {platform.system()}"
    if platform.machine() not in ARCHITECTURES:
        return f"orun knows the system calls of {' and '.join(ARCHITECTURES)}, and this is {platform.machine()}"
    if tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2]) < FIRST_KERNEL:
        return f"it takes Linux 5.5, and this is {platform.release()} (gVisor calls itself 4.4.0)"
    return ""


def _build_filter(machine: str) -> bytes:
    """Return the BPF program: notify of the traced calls, except opens of folders; allow all others."""
    audit, _ = ARCHITECTURES[machine]
    rows = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, audit), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    for number, flags in (*OPENS[machine].items(), *dict.fromkeys(list_numbers(machine)).items()):
        action = [(RETURN, 0, 0, NOTIFY)]
        if flags is not None:
            offset = ARGUMENTS + 8 * flags
            action = [(LOAD, 0, 0, offset), (ANY, 0, 1, os.O_DIRECTORY), (RETURN, 0, 0, ALLOW), *action]
        rows += [(EQUAL, 0, len(action), number), *action]
    rows.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *row) for row in rows)
