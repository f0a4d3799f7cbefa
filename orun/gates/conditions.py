"""Changes since the baseline was accepted that apply to both models alike.

A comparison with the baseline therefore shows the model alone: a newer ONNX Runtime that is slower, or a session with
fewer threads, is slower for both.
"""

from __future__ import annotations

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.environment.hosts import select_software
from orun.gates.baseline_file import Accepted
from orun.gates.measured import Compare, Ports, drop_references, list_changes
from orun.pipeline.model import Stage
from orun.store.records import Action

# Parameters that set how long or how much is measured, and not under which conditions.
EFFORT = frozenset(
    {
        "better", "launches", "max_launches", "metrics", "min_launches", "reference_runtime", "reference_target",
        "resamples", "resolution", "rounds", "runs", "slices", "time", "warmup",
    }
)  # fmt: skip


def list_changes_since(
    compare: Compare, stage: Stage, accepted: Accepted, action: Action, ports: Ports
) -> tuple[Reason, ...]:
    """Return the caveat about what changed since a baseline was accepted; none when nothing did."""
    then = tuple(item for item in drop_references(accepted.components) if not _is_effort(item))
    setup_changes = list_changes(compare, stage, then, ports.list_setup(action))
    differing = [*_compare_software(compare, stage, accepted, action), *setup_changes]
    return (build_reason(ReasonCode.CHANGED_SINCE_BASELINE, *differing, day=accepted.day),) if differing else ()


def _is_effort(component: KeyComponent) -> bool:
    return component.kind == ComponentKind.PARAMETER and component.subject in EFFORT


def _compare_software(compare: Compare, stage: Stage, accepted: Accepted, action: Action) -> list[Reason]:
    then, now = (
        tuple(KeyComponent(ComponentKind.SOFTWARE, name, value=value) for name, value in select_software(host).items())
        for host in (accepted.host, action.host)
    )
    return compare(stage, then, now) if then and now else []
