"""Decision on one stage with the components of its key and its implicit dependencies, then and now."""

from __future__ import annotations

from orun.core.serialization import replace
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.pipeline.graph import select
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.store.layout import format_command_options


def explain_stage(planner: Planner, stage: str) -> Step:
    """Return the decision on a stage, with the components that it used last and those of now.

    Raises:
        UsageError: when there is no stage of that name, or its matrix makes several.
    """
    chosen = {item.id for item in select(planner.pipeline, only=[stage])}
    plan = planner.plan()
    steps = [step for step in plan.steps if step.stage.id in chosen]
    if len(steps) > 1:
        ids = [step.stage.id for step in steps]
        options = format_command_options(planner.pipeline.overrides, planner.store.root, planner.pipeline.root)
        raise UsageError(
            f"{stage} is {len(ids)} stages, one for each value of its matrix",
            why="\n".join(ids),
            hint=f"orun explain {quote(steps[0].stage.position.file)} {quote(ids[0])}{options}",
        )
    (step,) = steps
    facts = planner.find_facts(step.machine)
    if step.machine:
        step = replace(step, facts=facts.list_components(step.stage))
    step = replace(step, left_out=plan.left_out)
    latest = planner.store.find_latest(planner.pipeline.name, step.stage.id)
    if latest is None:
        return step
    now = facts.observe_state(step.stage, latest.implicit_deps, planner.store.files)
    return replace(step, used=(latest.implicit_deps.components, now.components))
