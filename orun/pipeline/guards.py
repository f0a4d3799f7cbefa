"""Guards of a release: the stages that judge the released artifacts.

A release waits for its guards even if its `needs` does not name them: a model whose gate fails is never released.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orun.core.serialization import replace
from orun.pipeline.graph import find_reachable
from orun.pipeline.instances import Axes, agree
from orun.pipeline.model import Stage
from orun.stages.contract import Spec

RELEASING = "release/"  # prefix of kinds that pass on their input, perhaps with metadata or in a bundle


def add_guards(
    stages: Mapping[str, Stage], specs: Mapping[str, Spec], axes: Mapping[str, Axes], order: Collection[str]
) -> dict[str, Stage]:
    """Return the stages, each release with its guards.

    A guard measures or checks a released artifact. It has gates, or its kind fails by itself. It has the same values as
    the release on every matrix axis that both have. A stage after the release cannot guard it.
    """
    before = {name: set(stage.upstream) for name, stage in stages.items()}
    guarded_stages = dict(stages)
    for name in order:
        if not specs[name].releases:
            continue
        released = set(_iter_released(stages, stages[name]))
        guards = [
            stage.id
            for stage in stages.values()
            if _judges(stage, specs[stage.id], released)
            and agree(axes[stage.id], axes[name])
            and stage.id not in find_reachable([name], before)
            and name not in find_reachable([stage.id], before)
        ]
        before[name].update(guards)
        guarded_stages[name] = replace(stages[name], guards=tuple(guards))
    return guarded_stages


def _iter_released(stages: Mapping[str, Stage], release: Stage) -> Iterator[str]:
    """Yield the ids of the stages whose artifacts a release contains."""
    for name in release.needs.values():
        yield name
        if stages[name].uses.startswith(RELEASING):
            yield from _iter_released(stages, stages[name])


def _judges(stage: Stage, spec: Spec, released: Collection[str]) -> bool:
    """Return whether a stage judges one of these artifacts, as its primary input."""
    judging = spec.output == "metrics" and bool(stage.gates or spec.guards)
    return judging and next(iter(stage.needs.values()), None) in released
