"""The command to type where a difference between two runs could not be tried here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orun.blame.changes import Fixed
from orun.blame.versions import pin
from orun.core.component_kinds import ComponentKind

SOFTWARE = ("python", "runtime")  # traits of a device that no other machine brings


def advice(others: Sequence[Fixed], unknown: Sequence[str], good: str, bad: str) -> Iterator[str]:
    """A line for each sort of difference: what it is for, and the command.

    Args:
        others: the differences.
        unknown: variables that would tell what others were in a run.
        good: id of the good run.
        bad: id of the bad run.
    """
    again = f"orun bisect {good} {bad}"
    if pins := dict.fromkeys(filter(None, (pin(one.kind, one.subject, one.old) for one in others))):
        wanted = " ".join(f"'{one}'" for one in pins)
        yield f"packages: python -m venv then && then/bin/pip install orun {wanted} && then/bin/{again}"
    if made := dict.fromkeys(one.old for one in others if one.kind == ComponentKind.STAGE_CODE):
        code = f"with the code that made {good} ({', '.join(made)})"
        yield f"orun itself: `{again}` {code}; if the bad run is good there, orun's code did it"
    if old := next((one.old for one in others if _is_python(one)), ""):
        yield f"Python: `{again}` with Python {old}"
    if folders := dict.fromkeys(one.old for one in others if one.kind == ComponentKind.MODULE_FOLDERS):
        yield f"modules: PYTHONPATH={' or '.join(folders)} {again}"
    if unknown:
        yield f"variables: {' '.join(f'{name}=...' for name in unknown)} {again}"
    if any(one.kind == ComponentKind.DEVICE and one.subject not in SOFTWARE for one in others):
        yield f"the machine: `{again}` on that of {bad}"


def _is_python(change: Fixed) -> bool:
    return change.kind == ComponentKind.PYTHON or (change.kind, change.subject) == (ComponentKind.DEVICE, "python")
