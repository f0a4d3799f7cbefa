"""Facts: what the machine that runs a stage decides of its key and of the reuse of its results.

`LocalFacts` reads them from this process. `orun.planning.assignment` has them of other machines.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.targets import EXTENSIONS, StageClass, Target
from orun.environment import device, distributions, providers, python_path, venvs
from orun.environment.env_vars import HASH_SEED, OPTIMIZE, UNLESS_SET, read_stage_value
from orun.environment.startup import list_startup_code
from orun.fs.observed_state import digest_value, to_portable_name
from orun.pipeline.model import Pipeline, Stage
from orun.planning.implicit_deps import observe_state
from orun.store import ImplicitDependencies, StatCache

UNSET = "unset"  # instead of the digest of a variable's value, where it has none
STAGE_TARGET = "target"  # owner of the packages of a target whose environment is not the stage's


class Facts(Protocol):
    """Facts of one machine about the stages of one pipeline."""

    @property
    def machine(self) -> str:
        """Its id; empty for the machine that plans."""

    def list_components(self, stage: Stage) -> Components:
        """Return the components of a stage's key that the machine decides.

        Raises:
            DeviceUnknown: if a device that they depend on cannot be read.
        """

    def explain_skip(self, stage: Stage) -> Reason | None:
        """Return why a stage is skipped there, because a provider is missing; None if it is not."""

    def list_unknown_environments(self, stage: Stage) -> list[str]:
        """Return the isolated environments of a stage whose packages are not known yet."""

    def read_variable(self, name: str) -> str:
        """Return the state of an environment variable as stages find it there."""

    def observe_state(self, stage: Stage, dependencies: ImplicitDependencies, files: StatCache) -> ImplicitDependencies:
        """Return the present state there of what a stage saw when it ran."""


Classes = tuple[tuple[Facts, ...], ...]  # facts of machines, those with the same components of a key together


class LocalFacts:
    """Facts of this machine; components stay while the process lives."""

    machine = ""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._surroundings: dict[str, Components] = {}

    def list_components(self, stage: Stage) -> Components:
        """See `Facts`."""
        surroundings = self._surroundings.get(stage.id)
        if surroundings is None:
            surroundings = tuple(_iter_surroundings(self._pipeline, stage))
            if not stage.environments:  # the packages of an environment are known once it is built
                self._surroundings[stage.id] = surroundings
        return (
            *map(_build_variable, stage.env),
            *(item for item in surroundings if item.kind != ComponentKind.VARIABLE or item.subject not in stage.env),
        )

    def explain_skip(self, stage: Stage) -> Reason | None:
        """See `Facts`."""
        for target in stage.targets:
            environment = stage.choose_environment(target)
            if target.missing != "skip" or not venvs.can_run(environment):
                continue
            if problem := providers.explain(target.resolve_paths(self._pipeline.root), environment):
                return build_reason(ReasonCode.PROVIDER_MISSING, target=target.name, problem=problem)
        return None

    def list_unknown_environments(self, stage: Stage) -> list[str]:
        """See `Facts`."""
        return [item.name for item in stage.environments if not venvs.is_known(item)]

    def read_variable(self, name: str) -> str:
        """See `Facts`."""
        return self._pipeline.private.read_state(name)

    def observe_state(self, stage: Stage, dependencies: ImplicitDependencies, files: StatCache) -> ImplicitDependencies:
        """See `Facts`."""
        packages = venvs.read_packages(stage.environment)
        return observe_state(dependencies, self._pipeline.root, files, self._pipeline.private, packages)


def list_variables(stage: Stage) -> tuple[str, ...]:
    """Return the environment variables whose values are in the key of a stage."""
    return (*stage.env, OPTIMIZE, HASH_SEED, python_path.VARIABLE)


def _build_variable(name: str) -> KeyComponent:
    """Return a variable as a component, with the digest of its value; `unset` differs from empty."""
    return KeyComponent(ComponentKind.VARIABLE, name, value=digest_value(name, os.environ.get(name)) or UNSET)


def _iter_python(pipeline: Pipeline, stage: Stage) -> Iterator[KeyComponent]:
    """Yield how Python runs the user's code; nothing where the stage has none."""
    folders = {(pipeline.root / reference.path).parent for reference in stage.references if reference.function}
    if not folders:
        return
    yield KeyComponent(ComponentKind.PYTHON, value=platform.python_version())  # code may read the standard library
    if os.environ.get(OPTIMIZE):
        yield _build_variable(OPTIMIZE)
    if (encoding := sys.getfilesystemencoding()) != "utf-8":  # the default of `open`
        yield KeyComponent(ComponentKind.ENCODING, value=encoding)
    # Python puts the folder of a code file on the path once it loads the file: with several, the order is open.
    known = {pipeline.root, *(folders if len(folders) == 1 else ())}
    if stage.environment:
        return
    if modules := python_path.format_module_folders(pipeline.root, pipeline.project, known):
        yield KeyComponent(ComponentKind.MODULE_FOLDERS, value=modules)


def _iter_surroundings(pipeline: Pipeline, stage: Stage) -> Iterator[KeyComponent]:
    """Yield versions, the target, the device and the seed."""
    use, python = pipeline.kinds[stage.uses], tuple(_iter_python(pipeline, stage))
    yield from python
    if (python or use.origin == "plug-in") and read_stage_value(HASH_SEED) != UNLESS_SET[HASH_SEED]:
        yield _build_variable(HASH_SEED)  # no result of orun's own kinds depends on it
    code = list_startup_code(isolated=stage.environment is not None)
    if started := [f"{_name_startup_file(pipeline, Path(path))} {digest}" for path, digest in code]:
        yield KeyComponent(ComponentKind.STARTUP, value=os.pathsep.join(started))
    packages = venvs.read_packages(stage.environment)
    extensions = (EXTENSIONS,) if any(target.extended for target in stage.targets) else ()
    of_sources = (tool for source in stage.sources.values() for tool in source.tools)
    for tool in dict.fromkeys((*use.spec.tools, *extensions, *of_sources)):
        yield KeyComponent(ComponentKind.TOOL, tool, value=_format_version(tool, packages))
    if stage.environment:
        yield from _iter_packages(packages)
    if stage.target:
        yield KeyComponent(ComponentKind.TARGET, value=_format_target(stage.target))
    target_packages = venvs.read_packages(stage.choose_environment(stage.target))
    if stage.choose_environment(stage.target) != stage.environment:
        yield from _iter_packages(target_packages, STAGE_TARGET)
    yield from _iter_device(use.spec.stage_class, stage.target, target_packages)
    for parameter, target in stage.extra_targets.items():
        yield KeyComponent(ComponentKind.TARGET, owner=parameter, value=_format_target(target))
        packages = venvs.read_packages(stage.choose_environment(target))
        yield from _iter_packages(packages, parameter)
        yield from _iter_device(use.spec.stage_class, target, packages, parameter)
    yield KeyComponent(ComponentKind.SEED, value=str(pipeline.seed))


def _iter_packages(packages: Mapping[str, str] | None, owner: str = "") -> Iterator[KeyComponent]:
    for name, version in (packages or {}).items():
        yield KeyComponent(ComponentKind.PACKAGE, name, owner, version)


def _iter_device(
    stage_class: StageClass, target: Target | None, packages: Mapping[str, str] | None, owner: str = ""
) -> Iterator[KeyComponent]:
    for name, value in device.fingerprint(stage_class, target, packages).items():
        yield KeyComponent(ComponentKind.DEVICE, name, owner, value)


def _name_startup_file(pipeline: Pipeline, path: Path) -> str:
    """Return a path relative to the pipeline's folder in the project; else the name alone, as environments can move."""
    name = to_portable_name(path, pipeline.root, pipeline.project)
    return path.name if Path(name).is_absolute() else name


def _format_target(target: Target) -> str:
    listed = [
        [item.name, dict(item.options), *filter(None, [item.library, item.spec and item.spec.plugin])]
        for item in target.providers
    ]
    settings: dict[str, Any] = {"providers": listed, "session": dict(target.session)}
    if target.fallback == "forbid-cpu":  # the other settings of `fallback` make the same result
        settings["fallback"] = target.fallback
    return json.dumps(settings, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _format_version(tool: str, packages: Mapping[str, str] | None) -> str:
    distribution = distributions.find(tool, packages)
    return " ".join(distribution) if distribution else distributions.ABSENT
