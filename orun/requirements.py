"""What the stages of a plan need of this machine, looked at before the first of them starts."""

from __future__ import annotations

from collections.abc import Collection

from orun.environment import providers, tools
from orun.errors import PipelineError, Problem
from orun.pipeline.model import Pipeline, Stage
from orun.planner import Plan


def require(plan: Plan, chosen: Collection[str]) -> None:
    """Refuse a plan when a stage that is to run lacks a package or a provider.

    Args:
        plan: the plan.
        chosen: ids of the stages that may run; stages that are up to date need nothing.

    Raises:
        PipelineError: with everything that is missing, each at its stage's line.
    """
    to_run = [step.stage for step in plan.steps if step.action in ("run", "maybe") and step.stage.id in chosen]
    problems = [problem for stage in to_run for problem in lacks(plan.pipeline, stage)]
    if problems:
        raise PipelineError(problems)


def lacks(pipeline: Pipeline, stage: Stage) -> list[Problem]:
    """What a stage would miss on this machine: packages, and providers of its target."""
    spec = pipeline.kinds[stage.uses].spec
    missing = [tool for tool in spec.tools if tools.find(tool) is None]
    if missing:
        names = ", ".join(tool.replace("|", " or ") for tool in missing)
        verb = "is" if len(missing) == 1 else "are"
        hint = tools.install_command(missing[0], spec.extra)
        message = f"stage {stage.id!r} ({stage.uses}) needs {names}, which {verb} not installed"
        return [Problem(stage.position, message, hint=hint)]
    if stage.target and (why := providers.missing(stage.target)):
        message = f"target {stage.target.name!r} of stage {stage.id!r} cannot run here: {why}"
        hint = f"`missing: skip` under target {stage.target.name!r} skips its stages; see orun doctor"
        return [Problem(stage.position, message, hint=hint)]
    return []
