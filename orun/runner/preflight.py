"""Preflight: the packages, providers and devices that the stages of a plan need, checked before the first starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module

from orun.core.source_location import Problem
from orun.core.targets import EXTENSIONS, Environment, StageClass, Target, gpus_of
from orun.environment import device, distributions, providers, venvs
from orun.environment.resources import Room
from orun.errors import DeviceUnknown, EnvironmentFailed, PipelineError
from orun.pipeline.model import Pipeline, Stage
from orun.planning.plan import Plan
from orun.text import units

RUNS_MODELS = ("onnxruntime", "numpy")  # what a process needs that runs models of another environment than its stage's
Tell = Callable[[str], None]


def require(plan: Plan, chosen: Collection[str], here: Room) -> None:
    """Refuse a plan when a stage that is to run lacks something, as far as that is known before environments are made.

    Args:
        plan: the plan.
        chosen: ids of the stages that may run; stages that are up to date need nothing.
        here: what this machine has.

    Raises:
        PipelineError: with everything that is missing, each at its stage's line.
    """
    if problems := missing(plan, chosen, here):
        raise PipelineError(problems)


def missing(plan: Plan, chosen: Collection[str], here: Room) -> list[Problem]:
    """What stages that are to run lack, each at its stage's line; see `require`."""
    to_run = _to_run(plan, chosen)
    return [one for stage in to_run for one in (*lacks(plan.pipeline, stage), *_too_large(stage, here))]


def provide(plan: Plan, chosen: Collection[str], tell: Tell) -> None:
    """Make the isolated environments of the stages that are to run; refuse the plan when one lacks something then.

    Args:
        plan: the plan.
        chosen: ids of the stages that may run.
        tell: takes a sentence before something that lasts.

    Raises:
        PipelineError: with each environment that cannot be made, and all that is missing in others.
    """
    isolated_ones = [stage for stage in _to_run(plan, chosen) if stage.environments]
    failed = _make({one for stage in isolated_ones for one in stage.environments}, tell)
    problems: list[Problem] = []
    for stage in isolated_ones:
        if unmade := [_unmade(stage, failed[one]) for one in stage.environments if one in failed]:
            problems += unmade
        elif not _skipped(stage):
            problems += lacks(plan.pipeline, stage)
    if problems:
        raise PipelineError(problems)


def _skipped(stage: Stage) -> bool:
    """Whether it will be skipped, now that it is known that a provider is missing which may be."""
    may_be = [target for target in stage.targets if target.missing == "skip"]
    return any(providers.missing(target, stage.environment_of(target)) for target in may_be)


def _to_run(plan: Plan, chosen: Collection[str]) -> list[Stage]:
    return [step.stage for step in plan.steps if step.action in ("run", "maybe") and step.stage.id in chosen]


def _too_large(stage: Stage, here: Room) -> list[Problem]:
    """Whether a stage asks for more memory or GPUs than there are; more cores than there are it does without."""
    problems = []
    if here.memory is not None and (stage.memory or 0) > here.memory:
        asked, there = units.show(stage.memory or 0, "B"), units.show(here.memory, "B")
        problems.append(
            Problem(
                stage.position,
                f"stage {stage.id!r} asks for {asked} of memory, and this machine has {there}",
                hint="ask for less in its `resources`; to see what there is: free -h",
            )
        )
    if stage.gpus > max(here.gpus, gpus_of(stage.targets)):
        problems.append(
            Problem(
                stage.position,
                f"stage {stage.id!r} asks for {stage.gpus} GPUs, and this run has {here.gpus}",
                hint="ask for fewer in its `resources`; to see them: nvidia-smi -L (and CUDA_VISIBLE_DEVICES, --gpus)",
            )
        )
    return problems


def _make(environments: Iterable[Environment], tell: Tell) -> dict[Environment | None, EnvironmentFailed]:
    """Make environments; those that cannot be made, with the reason."""
    from orun.environment import venv_builder

    failed: dict[Environment | None, EnvironmentFailed] = {}
    for environment in sorted(environments, key=lambda one: one.name):
        try:
            venv_builder.make(environment, tell)
        except EnvironmentFailed as error:
            failed[environment] = error
    return failed


def _unmade(stage: Stage, error: EnvironmentFailed) -> Problem:
    why = "; ".join(error.why.splitlines())
    return Problem(stage.position, f"stage {stage.id!r} cannot run: {error.what}: {why}", hint=error.hint)


def lacks(pipeline: Pipeline, stage: Stage) -> list[Problem]:
    """What a stage would miss on this machine: packages, and providers of its target.

    Of an isolated environment that has not been made yet nothing is known.
    """
    if not venvs.is_known(stage.environment):
        return []
    spec, packages = pipeline.kinds[stage.uses].spec, venvs.packages(stage.environment)
    try:
        needs = needed(pipeline, stage)
    except Exception as error:  # a plug-in may raise anything
        if pipeline.kinds[stage.uses].origin != "plug-in":
            raise
        return [_unsaid(stage, pipeline.kinds[stage.uses].distribution, error)]
    missing = {tool: what for tool, what in needs.items() if distributions.find(tool, packages) is None}
    if missing:
        told = {tool.replace("|", " or "): what and f" for {what}" for tool, what in missing.items()}
        names = ", ".join(f"{tool}{what}" for tool, what in told.items())
        verb = "is" if len(missing) == 1 else "are"
        own, asked = ([tool for tool in missing if (tool in spec.tools) == ours] for ours in (True, False))
        where, hint = "installed", distributions.install_command(own, spec.extra, asked=asked)
        if stage.environment:
            where = f"in environment {stage.environment.name!r}"
            hint = f"add it to that environment: {next(iter(missing)).partition('|')[0]}==VERSION"
        message = f"stage {stage.id!r} ({stage.uses}) needs {names}, which {verb} not {where}"
        return [Problem(stage.position, message, hint=hint)]
    return [problem for target in stage.targets for problem in _unable(stage, target, spec.stage_class)]


def needed(pipeline: Pipeline, stage: Stage) -> Mapping[str, str]:
    """The tools that a stage needs, each with what among its parameters asks for it; empty for those of its kind."""
    kind = pipeline.kinds[stage.uses]
    own = dict.fromkeys(kind.spec.tools, "")
    if kind.origin == "file":
        return own
    from orun.stages.required_packages import asked

    return {**own, **asked(import_module(kind.entry), stage.params, pipeline.root), **own}


def _unsaid(stage: Stage, distribution: str, error: Exception) -> Problem:
    what = f"the kind {stage.uses!r} of the package {distribution} cannot say which packages it needs"
    return Problem(
        stage.position, f"{what}: {type(error).__name__}: {error}", hint=f"pip install --upgrade {distribution}"
    )


def _unable(stage: Stage, target: Target, stage_class: StageClass) -> list[Problem]:
    """Why a model of that target of the stage cannot run on this machine."""
    environment = stage.environment_of(target)
    if not venvs.can_run(environment):
        return []
    if target.extended and not distributions.find(EXTENSIONS, venvs.packages(environment)):
        where = f"in environment {environment.name!r}" if environment else "installed"
        hint = f"add it to that environment: {EXTENSIONS}==VERSION" if environment else f"pip install {EXTENSIONS}"
        message = f"target {target.name!r} of stage {stage.id!r} needs {EXTENSIONS}, which is not {where}"
        return [Problem(stage.position, message, hint=hint)]
    why = providers.missing(target, environment)
    if not why and environment and environment != stage.environment:
        packages = venvs.packages(environment)
        lacking = [tool for tool in RUNS_MODELS if distributions.find(tool, packages) is None]
        why = f"its environment {environment.name!r} does not hold {', '.join(lacking)}" if lacking else ""
    if not why:
        try:
            device.fingerprint(stage_class, target, venvs.packages(environment))
        except DeviceUnknown as error:
            why = f"{error.what} ({error.why})"
    if not why:
        return []
    message = f"target {target.name!r} of stage {stage.id!r} cannot run here: {why}"
    hint = f"`missing: skip` under target {target.name!r} skips its stages; see orun doctor"
    return [Problem(stage.position, message, hint=hint)]
