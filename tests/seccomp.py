"""Code of a process in which seccomp(2) is forbidden, as in some containers."""

FORBID = """
import ctypes, platform, struct
from orun.executors.tracing.seccomp import ARCHITECTURES, FilterProgram
audit, seccomp = ARCHITECTURES[platform.machine()]
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, seccomp), (6, 0, 0, 0x00050001), (6, 0, 0, 0x7FFF0000)]  # EPERM, or allow
code = b"".join(struct.pack("HBBI", *row) for row in rows)
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(FilterProgram(len(code) // 8, code)), 0, 0) == 0
"""
WHY = "the system refuses it, as a container's seccomp profile may (seccomp: Operation not permitted)"
