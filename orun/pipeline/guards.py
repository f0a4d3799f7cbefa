"""Guards of a release: the stages that judge the released artifacts.

A release waits for its guards even if its `needs` does not name them: a model whose gate fails is never released.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orun.core.metrics import parse_extra_reference
from orun.core.serialization import replace
from orun.pipeline.graph import find_reachable
from orun.pipeline.instances import Axes, agree
from orun.pipeline.model import Stage
from orun.stages.contract import Spec
from orun.stages.registry import FILE_KIND

RELEASING = "release/"  # prefix of kinds that pass on their input, perhaps with metadata or in a bundle
COMPARED = ("reference", "baseline")  # inputs that others are compared with


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
        released = set(iter_released(stages, stages[name]))
        guards = [
            stage.id
            for stage in stages.values()
            if judges(stage, specs[stage.id], released)
            and agree(axes[stage.id], axes[name])
            and stage.id not in find_reachable([name], before)
            and name not in find_reachable([stage.id], before)
        ]
        before[name].update(guards)
        guarded_stages[name] = replace(stages[name], guards=tuple(guards))
    return guarded_stages


def iter_released(stages: Mapping[str, Stage], release: Stage) -> Iterator[str]:
    """Yield the ids of the stages whose artifacts a release contains."""
    for name in release.needs.values():
        yield name
        if stages[name].uses.startswith(RELEASING):
            yield from iter_released(stages, stages[name])


def judges(stage: Stage, spec: Spec, released: set[str]) -> bool:
    """Return whether a stage judges one of these artifacts, and not only compares another with it."""
    judged = (name for port, name in stage.needs.items() if not is_compared(port))
    return (spec.guards or bool(stage.gates and _is_judging(stage, spec))) and not released.isdisjoint(judged)


def is_compared(port: str) -> bool:
    """Return whether others are compared with the model at an input."""
    return port in COMPARED or bool(parse_extra_reference(port))


def _is_judging(stage: Stage, spec: Spec) -> bool:
    """Return whether the gates of a stage are on its inputs, and not on a model that it makes.

    A function of the user may have a report of what it measures as its output.
    """
    return spec.output == "metrics" or bool(FILE_KIND.fullmatch(stage.uses) and spec.output in ("files", "dataset"))
