"""Advice: commands for differences between two runs that could not be tried here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orun.blame.changes import FixedDifference
from orun.blame.versions import pin
from orun.core.component_kinds import ComponentKind
from orun.environment.install_commands import format_requirement

SOFTWARE = ("python", "runtime")  # traits of a device that do not depend on the machine


def advise(
    differences: Sequence[FixedDifference], unknown: Sequence[str], good: str, bad: str, option: str = ""
) -> Iterator[str]:
    """Yield a line for each kind of difference that could not be tried, and for unknown variables: name and command."""
    again = f"orun bisect {good} {bad}{option}"
    if pins := dict.fromkeys(filter(None, (pin(item.kind, item.subject, item.old) for item in differences))):
        packages = " ".join([format_requirement("orun"), *(f"'{pinned}'" for pinned in pins)])
        yield f"packages: python -m venv then && then/bin/pip install {packages} && then/bin/{again}"
    if versions := dict.fromkeys(item.old for item in differences if item.kind == ComponentKind.STAGE_CODE):
        code = f"with the code of {good} ({', '.join(versions)})"
        yield f"orun itself: `{again}` {code}; if the bad run is good there, orun's code is the cause"
    if old := next((item.old for item in differences if _is_python(item)), ""):
        yield f"Python: `{again}` with Python {old}"
    if folders := dict.fromkeys(item.old for item in differences if item.kind == ComponentKind.MODULE_FOLDERS):
        yield f"modules: PYTHONPATH={' or '.join(folders)} {again}"
    if unknown:
        yield f"variables: {' '.join(f'{name}=...' for name in unknown)} {again}"
    if any(item.kind == ComponentKind.DEVICE and item.subject not in SOFTWARE for item in differences):
        yield f"the machine: `{again}` on the machine of {bad}"


def _is_python(change: FixedDifference) -> bool:
    return change.kind == ComponentKind.PYTHON or (change.kind, change.subject) == (ComponentKind.DEVICE, "python")
