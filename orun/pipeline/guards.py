"""Stages that judge what a release is made of; the release waits for them even if its `needs` does not name them.

A model that fails its gate must not be given away because the file names the stage with the gate in no `needs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orun.core.serialization import replace
from orun.pipeline.graph import reached
from orun.pipeline.instances import Axes
from orun.pipeline.model import Stage
from orun.stages.contract import Spec

RELEASING = "release/"  # how kinds begin that pass on what they are given: with other metadata, in a bundle


def guarded(
    stages: Mapping[str, Stage], specs: Mapping[str, Spec], axes: Mapping[str, Axes], order: Collection[str]
) -> dict[str, Stage]:
    """The stages, each release with those that judge what it gives away.

    Such a stage measures or checks the very artifact, and has gates or is of a kind that fails by itself. Of a matrix
    it is one of the same values, on the axes that both have. One that comes after the release cannot guard it.

    Args:
        stages: every stage by its id.
        specs: of their kinds, by the id of the stage.
        axes: the values of the axes that each is made along.
        order: the ids, those first that others need.
    """
    before = {name: set(stage.upstream) for name, stage in stages.items()}
    guarded_stages = dict(stages)
    for name in order:
        if not specs[name].releases:
            continue
        released = set(_released(stages, stages[name]))
        guards = [
            stage.id
            for stage in stages.values()
            if _judges(stage, specs[stage.id], released)
            and not _differ(axes[stage.id], axes[name])
            and stage.id not in reached([name], before)
            and name not in reached([stage.id], before)
        ]
        before[name].update(guards)
        guarded_stages[name] = replace(stages[name], guards=tuple(guards))
    return guarded_stages


def _released(stages: Mapping[str, Stage], release: Stage) -> Iterator[str]:
    """Ids of the stages whose artifacts a release gives away."""
    for name in release.needs.values():
        yield name
        if stages[name].uses.startswith(RELEASING):
            yield from _released(stages, stages[name])


def _judges(stage: Stage, spec: Spec, released: Collection[str]) -> bool:
    """Whether a stage judges one of these artifacts, which is its primary input then."""
    judging = spec.output == "metrics" and bool(stage.gates or spec.guards)
    return judging and next(iter(stage.needs.values()), None) in released


def _differ(first: Axes, second: Axes) -> bool:
    """Whether two stages are of different values of one axis."""
    return any(first[axis].text != second[axis].text for axis in first.keys() & second.keys())
