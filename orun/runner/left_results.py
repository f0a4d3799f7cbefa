"""Results that a run on several machines leaves in the remote: only their records come to this machine."""

from __future__ import annotations

from collections.abc import Iterable

from orun.pipeline.model import Stage
from orun.planning.planner import Planner


def left_results(planner: Planner, stages: Iterable[Stage]) -> frozenset[str]:
    """Return the stages of a run whose files are needed by stages on other machines alone.

    What no stage builds on is what the user is after, and comes to this machine. Measurements build on nothing.
    """
    stages = tuple(stages)
    builders = [stage for stage in stages if planner.pipeline.kinds[stage.uses].spec.output != "metrics"]
    built_on = {name for stage in builders for name in stage.needs.values()}
    needed_here = {name for stage in stages if planner.why_here(stage) for name in stage.needs.values()}
    return frozenset(built_on - needed_here)
