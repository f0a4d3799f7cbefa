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
    found = dict(stages)
    for name in order:
        if not specs[name].releases:
            continue
        given = set(_given(stages, stages[name]))
        guards = [
            one.id
            for one in stages.values()
            if _judges(one, specs[one.id], given)
            and not _apart(axes[one.id], axes[name])
            and one.id not in reached([name], before)
            and name not in reached([one.id], before)
        ]
        before[name].update(guards)
        found[name] = replace(stages[name], guards=tuple(guards))
    return found


def _given(stages: Mapping[str, Stage], release: Stage) -> Iterator[str]:
    """Ids of the stages whose artifacts a release gives away."""
    for name in release.needs.values():
        yield name
        if stages[name].uses.startswith(RELEASING):
            yield from _given(stages, stages[name])


def _judges(stage: Stage, spec: Spec, given: Collection[str]) -> bool:
    """Whether a stage judges one of these artifacts, which is its primary input then."""
    judging = spec.output == "metrics" and bool(stage.gates or spec.guards)
    return judging and next(iter(stage.needs.values()), None) in given


def _apart(one: Axes, other: Axes) -> bool:
    """Whether two stages are of different values of one axis."""
    return any(one[axis].text != other[axis].text for axis in one.keys() & other.keys())
