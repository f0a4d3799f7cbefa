"""Preflight: check before the first stage starts that packages, providers and devices are available."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module

from orun.core.reason_codes import ReasonCode
from orun.core.source_location import Problem
from orun.core.targets import EXTENSIONS, Environment, StageClass, Target, count_gpus
from orun.environment import device, distributions, providers, venvs
from orun.environment.env_vars import read_stage_value
from orun.environment.install_commands import find_library_command, format_install_command, format_upgrade_command
from orun.environment.resources import Resources
from orun.errors import DeviceUnknown, EnvironmentFailed, PipelineError
from orun.pipeline.model import Pipeline, Stage
from orun.pipeline.sources import choose_reference_target
from orun.planning.plan import DUE, Plan, Step
from orun.text import units

MODEL_RUNTIME = ("onnxruntime", "numpy")  # packages of a target's own environment, without which no model runs there
Notify = Callable[[str], None]


def require(plan: Plan, chosen: Collection[str], available: Resources) -> None:
    """Refuse a plan if a chosen stage that must run lacks something. Environments not made yet are not checked.

    Raises:
        PipelineError: with everything that is missing, each at its stage's line.
    """
    if problems := find_missing(plan, chosen, available):
        raise PipelineError(problems)


def find_missing(plan: Plan, chosen: Collection[str], available: Resources) -> list[Problem]:
    """Return what the stages that must run lack, each at its stage's line; see `require`."""
    to_run = _list_due(plan, chosen)
    problems = [
        item
        for stage in to_run
        for item in (
            *find_lacks(plan.pipeline, stage),
            *find_excess(stage, available),
            *find_unset(plan.pipeline, stage),
        )
    ]
    for name, problem in find_without_machine(plan, chosen).items():
        problems.append(Problem(plan[name].stage.position, f"stage {name!r}: {problem}", hint="orun agent --help"))
    return problems


def is_without_machine(step: Step) -> bool:
    """Return whether no machine of a fleet can run a stage."""
    return any(item.code == ReasonCode.NO_MACHINE for item in step.reasons)


def find_without_machine(plan: Plan, chosen: Collection[str]) -> dict[str, str]:
    """Return the chosen stages that no machine of a fleet can run, with the reason."""
    steps = (step for step in plan.steps if step.stage.id in chosen and is_without_machine(step))
    return {step.stage.id: str(step.reasons[0].arguments["problem"]) for step in steps}


def make_environments(plan: Plan, chosen: Collection[str], notify: Notify) -> None:
    """Make the isolated environments of the chosen stages that must run, and check what is in them.

    `notify` receives a sentence before each step that may take minutes.

    Raises:
        PipelineError: with each environment that cannot be made, and everything that is missing in the others.
    """
    isolated = [stage for stage in _list_due(plan, chosen) if stage.environments]
    failed = _make({environment for stage in isolated for environment in stage.environments}, notify)
    problems: list[Problem] = []
    for stage in isolated:
        if errors := [failed[environment] for environment in stage.environments if environment in failed]:
            problems += [_build_environment_problem(stage, error) for error in errors]
        elif not _is_skipped(plan.pipeline, stage):
            problems += find_lacks(plan.pipeline, stage)
    if problems:
        raise PipelineError(problems)


def _is_skipped(pipeline: Pipeline, stage: Stage) -> bool:
    """Return whether a provider is missing that the file allows to be missing."""
    optional = [target for target in stage.targets if target.missing == "skip"]
    return any(
        providers.explain(target.resolve_paths(pipeline.root), stage.choose_environment(target)) for target in optional
    )


def _list_due(plan: Plan, chosen: Collection[str]) -> list[Stage]:
    """Return the stages that must run on this machine; other machines tell what they lack with their facts."""
    due = (step for step in plan.steps if step.action in DUE and step.stage.id in chosen)
    return [step.stage for step in due if not step.machine and not is_without_machine(step)]


def find_excess(stage: Stage, available: Resources) -> list[Problem]:
    """Return a problem if a stage asks for more memory or GPUs than there are. It can do with fewer cores."""
    problems = []
    if available.memory is not None and (stage.memory or 0) > available.memory:
        needed, size = units.show(stage.memory or 0, "B"), units.show(available.memory, "B")
        problems.append(
            Problem(
                stage.position,
                f"stage {stage.id!r} asks for {needed} of memory, and this machine has {size}",
                hint="ask for less in its `resources`; to see what there is: free -h",
            )
        )
    if stage.gpus > max(available.gpus, count_gpus(stage.targets)):
        problems.append(
            Problem(
                stage.position,
                f"stage {stage.id!r} asks for {stage.gpus} GPUs, and this run has {available.gpus}",
                hint="ask for fewer in its `resources`; to see them: nvidia-smi -L (and CUDA_VISIBLE_DEVICES, --gpus)",
            )
        )
    return problems


def find_unset(pipeline: Pipeline, stage: Stage) -> list[Problem]:
    """Return a problem for each variable that a user's function cannot do without and that is not set.

    Only names under `secrets` or `env` count: the code may set others itself.
    """
    names = [name for name in (*pipeline.secrets, *stage.env) if read_stage_value(name) is None]
    kind = pipeline.kinds[stage.uses]
    if not names or kind.origin != "file":
        return []
    from orun.stages.environment_reads import list_required_variables

    required = list_required_variables(pipeline.root, kind.entry)
    return [
        Problem(stage.position, f"stage {stage.id!r} reads {name}, which is not set", hint=f"export {name}=...")
        for name in names
        if name in required
    ]


def _make(environments: Iterable[Environment], notify: Notify) -> dict[Environment | None, EnvironmentFailed]:
    """Make environments; return those that cannot be made, with the reason."""
    from orun.environment import venv_builder

    failed: dict[Environment | None, EnvironmentFailed] = {}
    for environment in sorted(environments, key=lambda environment: environment.name):
        try:
            venv_builder.make(environment, notify)
        except EnvironmentFailed as error:
            failed[environment] = error
    return failed


def _build_environment_problem(stage: Stage, error: EnvironmentFailed) -> Problem:
    why = "; ".join(error.why.splitlines())
    return Problem(stage.position, f"stage {stage.id!r} cannot run: {error.problem}: {why}", hint=error.hint)


def find_lacks(pipeline: Pipeline, stage: Stage) -> list[Problem]:
    """Return what a stage lacks on this machine: packages, and providers of its target.

    Nothing is known of an isolated environment that has not been made yet.
    """
    if not venvs.is_known(stage.environment):
        return []
    spec, packages = pipeline.kinds[stage.uses].spec, venvs.read_packages(stage.environment)
    try:
        needs = list_needed_tools(pipeline, stage)
    except Exception as error:  # a plug-in may raise anything
        if pipeline.kinds[stage.uses].origin != "plug-in":
            raise
        return [_needs_unknown(stage, pipeline.kinds[stage.uses].distribution, error)]
    missing = {tool: reason for tool, reason in needs.items() if distributions.find(tool, packages) is None}
    if not missing:
        return [
            problem
            for target in stage.targets
            for problem in _list_target_problems(stage, target.resolve_paths(pipeline.root), spec.stage_class)
        ]
    purposes = {tool.replace("|", " or "): reason and f" for {reason}" for tool, reason in missing.items()}
    names = ", ".join(f"{tool}{purpose}" for tool, purpose in purposes.items())
    them, verb = ("it", "is") if len(missing) == 1 else ("them", "are")
    own, extra = ([tool for tool in missing if (tool in spec.tools) == ours] for ours in (True, False))
    location, hint = "installed", format_install_command(own, spec.extra, other_tools=extra)
    if stage.environment:
        location = f"in environment {stage.environment.name!r}"
        requirements = ", ".join(f"{tool.partition('|')[0]}==VERSION" for tool in missing)
        hint = f"add {them} to that environment: {requirements}"
    message = f"stage {stage.id!r} ({stage.uses}) needs {names}, which {verb} not {location}"
    return [Problem(stage.position, message, hint=hint)]


def list_needed_tools(pipeline: Pipeline, stage: Stage) -> Mapping[str, str]:
    """Return the tools that a stage needs -> the parameter that asks for it; empty for the tools of its kind.

    Those of its kind come first.
    """
    kind = pipeline.kinds[stage.uses]
    own = dict.fromkeys(kind.spec.tools, "")
    if kind.origin == "file":
        return own
    from orun.stages.required_packages import list_required_packages

    here = stage.choose_environment(choose_reference_target(stage)) == stage.environment
    extra = list_source_tools(stage) if here else {}
    extra |= list_required_packages(import_module(kind.entry), stage.params, pipeline.root)
    return own | {tool: reason for tool, reason in extra.items() if tool not in own}


def list_source_tools(stage: Stage) -> dict[str, str]:
    """Return the tools that the source models of a stage need -> what asks for them."""
    return {
        tool: f"the source model of {source.stage} in {source.runtime}"
        for source in stage.sources.values()
        for tool in source.tools
    }


def _needs_unknown(stage: Stage, distribution: str, error: Exception) -> Problem:
    message = (
        f"the kind {stage.uses!r} of the package {distribution} cannot say which packages it needs: "
        f"{type(error).__name__}: {error}"
    )
    return Problem(stage.position, message, hint=format_upgrade_command(distribution))


def _list_target_problems(stage: Stage, target: Target, stage_class: StageClass) -> list[Problem]:
    """Return why a model of a target of the stage cannot run on this machine."""
    environment = stage.choose_environment(target)
    if not venvs.can_run(environment):
        return []
    if target.extended and not distributions.find(EXTENSIONS, venvs.read_packages(environment)):
        location = f"in environment {environment.name!r}" if environment else "installed"
        hint = (
            f"add it to that environment: {EXTENSIONS}==VERSION"
            if environment
            else format_install_command([EXTENSIONS])
        )
        message = f"target {target.name!r} of stage {stage.id!r} needs {EXTENSIONS}, which is not {location}"
        return [Problem(stage.position, message, hint=hint)]
    why = providers.explain(target, environment)
    if not why and environment and environment != stage.environment:
        packages = venvs.read_packages(environment)
        of_sources = list_source_tools(stage) if target.name == choose_reference_target(stage).name else {}
        lacking = [tool for tool in (*MODEL_RUNTIME, *of_sources) if distributions.find(tool, packages) is None]
        why = f"its environment {environment.name!r} does not hold {', '.join(lacking)}" if lacking else ""
    if not why:
        try:
            device.fingerprint(stage_class, target, venvs.read_packages(environment))
        except DeviceUnknown as error:
            why = f"{error.problem} ({error.why})"
    if not why:
        return []
    message = f"target {target.name!r} of stage {stage.id!r} cannot run here: {why}"
    hints = (
        find_library_command(why),
        f"`missing: skip` under target {target.name!r} skips its stages",
        "see orun doctor",
    )
    return [Problem(stage.position, message, hint="; ".join(filter(None, hints)))]
