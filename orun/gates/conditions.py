"""Changes since the baseline was accepted that apply to both models alike.

So a comparison with the baseline tells of the model alone: a newer ONNX Runtime that is slower, or a session with fewer
threads, is slower for both.
"""

from __future__ import annotations

from orun.core.key_component import ComponentKind, KeyComponent
from orun.core.reason import Reason
from orun.environment.hosts import software
from orun.gates.baseline_file import Accepted
from orun.gates.measured import Compare, Ports, changes, without_references
from orun.pipeline.model import Stage
from orun.store.records import Action
from orun.text.wording.reasons import sentences

SHOWN = 3  # changes that a sentence tells
# Parameters that say for how long is measured, or what besides, and not under which conditions.
EFFORT = frozenset(
    {
        "better", "launches", "max_launches", "metrics", "min_launches", "reference_target", "resamples", "resolution",
        "rounds", "runs", "slices", "time", "warmup",
    }
)  # fmt: skip


def changed_since(compare: Compare, stage: Stage, accepted: Accepted, action: Action, ports: Ports) -> str:
    """The sentence about what changed since a baseline was accepted; empty when nothing did.

    Args:
        compare: what says how two sets of key components differ.
        stage: whose figures are compared.
        accepted: what the baseline has for it.
        action: what it measured now.
        ports: what comes in where.
    """
    then = tuple(item for item in without_references(accepted.setup) if not _is_effort(item))
    found = sentences(
        [*_software(compare, stage, accepted, action), *changes(compare, stage, then, ports.setup(action))]
    )
    if not found:
        return ""
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (
        f"since the baseline was accepted on {accepted.day}: {'; '.join(found[:SHOWN])}{more}; both models were "
        "measured as it is now, so what that does to them is not in the comparison"
    )


def _is_effort(component: KeyComponent) -> bool:
    return component.kind == ComponentKind.PARAMETER and component.subject in EFFORT


def _software(compare: Compare, stage: Stage, accepted: Accepted, action: Action) -> list[Reason]:
    then, now = (
        tuple(KeyComponent(ComponentKind.SOFTWARE, name, value=value) for name, value in software(host).items())
        for host in (accepted.host, action.host)
    )
    return compare(stage, then, now) if then and now else []
