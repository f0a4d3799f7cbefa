"""Cache key of a stage: the components that its result depends on, and the digest over them.

Content counts by digest: an input by its tree, a code file or path by its bytes, never by the key that made it or by a
time. Paths count too; a path into the project is relative, so that the project can move.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.targets import EXTENSIONS, StageClass, Target
from orun.environment import device, distributions, python_path, venvs
from orun.environment.env_vars import HASH_SEED, OPTIMIZE, UNLESS_SET, stage_value
from orun.environment.startup import startup_code
from orun.fs.observed_state import portable_name, value_digest
from orun.pipeline.model import Pipeline, Reference, Stage
from orun.planning.kind_code import Digest, stage_code

FORMAT = 9  # raise it when the meaning of a component changes, or code that runs in every stage's process

OWN = "uses"  # stands for a parameter where a stage is the user's own function
UNSET = "unset"  # instead of the digest of a variable's value, where it has none
STAGE_TARGET = "target"  # owner of the packages of a target whose environment is not the stage's

Fixed = tuple[Components, Components]  # parameters; versions, target, device and seed


def compose(
    pipeline: Pipeline,
    stage: Stage,
    inputs: Mapping[str, str],
    digest: Digest,
    cache: dict[str, Fixed] | None = None,
) -> Components:
    """Return the components of the key of a stage.

    Args:
        pipeline: the pipeline that the stage belongs to.
        stage: the stage.
        inputs: digest of the tree (or file) at each input port.
        digest: content digest of a file or folder.
        cache: components that stay while a process lives, by stage; this call adds those of the stage.
    """
    use = pipeline.kinds[stage.uses]
    name = stage.uses if use.origin != "file" else use.entry.rpartition(":")[2]
    code = stage_code(use, digest)
    fixed = cache.get(stage.id) if cache is not None else None
    if fixed is None:
        fixed = tuple(_parameters(pipeline, stage)), tuple(_surroundings(pipeline, stage))
        if cache is not None and not stage.environments:  # the packages of an environment are known once it is built
            cache[stage.id] = fixed
    parameters, surroundings = fixed
    return (
        KeyComponent(ComponentKind.KIND, value=name),
        *([KeyComponent(ComponentKind.STAGE_CODE, value=code)] if code else []),
        *parameters,
        *(KeyComponent(ComponentKind.INPUT, port, value=tree) for port, tree in inputs.items()),
        *(
            KeyComponent(ComponentKind.CONTENT, item.parameter, value=digest(pipeline.root / item.path))
            for item in stage.references
        ),
        *map(_variable, stage.env),
        *(item for item in surroundings if item.kind != ComponentKind.VARIABLE or item.subject not in stage.env),
    )


def variables(stage: Stage) -> tuple[str, ...]:
    """Return the environment variables whose values are in the key of a stage."""
    return (*stage.env, OPTIMIZE, HASH_SEED, python_path.VARIABLE)


def _variable(name: str) -> KeyComponent:
    return KeyComponent(ComponentKind.VARIABLE, name, value=environment_value(name))


def _python(pipeline: Pipeline, stage: Stage) -> Iterator[KeyComponent]:
    """Yield how Python runs the user's code; nothing where the stage has none."""
    folders = {(pipeline.root / reference.path).parent for reference in stage.references if reference.function}
    if not folders:
        return
    yield KeyComponent(ComponentKind.PYTHON, value=platform.python_version())  # code may read the standard library
    if os.environ.get(OPTIMIZE):
        yield _variable(OPTIMIZE)
    if (encoding := sys.getfilesystemencoding()) != "utf-8":  # the default of `open`
        yield KeyComponent(ComponentKind.ENCODING, value=encoding)
    # Python puts the folder of a code file on the path once it loads the file: with several, the order is open.
    known = {pipeline.root, *(folders if len(folders) == 1 else ())}
    if stage.environment:
        return
    if modules := python_path.module_folders(pipeline.root, pipeline.project, known):
        yield KeyComponent(ComponentKind.MODULE_FOLDERS, value=modules)


def _surroundings(pipeline: Pipeline, stage: Stage) -> Iterator[KeyComponent]:
    """Yield versions, the target, the device and the seed."""
    use, python = pipeline.kinds[stage.uses], tuple(_python(pipeline, stage))
    yield from python
    if (python or use.origin == "plug-in") and stage_value(HASH_SEED) != UNLESS_SET[HASH_SEED]:
        yield _variable(HASH_SEED)  # no result of orun's own kinds depends on it
    code = startup_code(isolated=stage.environment is not None)
    if started := [f"{_startup_name(pipeline, Path(path))} {digest}" for path, digest in code]:
        yield KeyComponent(ComponentKind.STARTUP, value=os.pathsep.join(started))
    packages = venvs.packages(stage.environment)
    extensions = (EXTENSIONS,) if any(target.extended for target in stage.targets) else ()
    for tool in (*use.spec.tools, *extensions):
        yield KeyComponent(ComponentKind.TOOL, tool, value=_version(tool, packages))
    if stage.environment:
        yield from _packages(packages)
    if stage.target:
        yield KeyComponent(ComponentKind.TARGET, value=_target_text(stage.target))
    target_packages = venvs.packages(stage.environment_of(stage.target))
    if stage.environment_of(stage.target) != stage.environment:
        yield from _packages(target_packages, STAGE_TARGET)
    yield from _device(use.spec.stage_class, stage.target, target_packages)
    for parameter, target in stage.extra_targets.items():
        yield KeyComponent(ComponentKind.TARGET, owner=parameter, value=_target_text(target))
        packages = venvs.packages(stage.environment_of(target))
        yield from _packages(packages, parameter)
        yield from _device(use.spec.stage_class, target, packages, parameter)
    yield KeyComponent(ComponentKind.SEED, value=str(pipeline.seed))


def _packages(packages: Mapping[str, str] | None, owner: str = "") -> Iterator[KeyComponent]:
    for name, version in (packages or {}).items():
        yield KeyComponent(ComponentKind.PACKAGE, name, owner, version)


def _device(
    stage_class: StageClass, target: Target | None, packages: Mapping[str, str] | None, owner: str = ""
) -> Iterator[KeyComponent]:
    for name, value in device.fingerprint(stage_class, target, packages).items():
        yield KeyComponent(ComponentKind.DEVICE, name, owner, value)


def _startup_name(pipeline: Pipeline, path: Path) -> str:
    """Return a path relative to the pipeline's folder in the project; else the name alone, as environments can move."""
    name = portable_name(path, pipeline.root, pipeline.project)
    return path.name if Path(name).is_absolute() else name


def _target_text(target: Target) -> str:
    providers = [[provider.name, dict(provider.options)] for provider in target.providers]
    settings = {"providers": providers, "session": dict(target.session)}
    if target.fallback == "forbid-cpu":  # the other settings of `fallback` make the same result
        settings["fallback"] = target.fallback
    return _text(settings, in_order=False)


def digest_of(components: Iterable[KeyComponent]) -> str:
    """Return the key: BLAKE3 over the sorted components, each field with its length before it. 64 hex digits."""
    fields = [field.encode() for item in sorted(components) for field in (*item.identity, item.value)]
    sized = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
    return blake3(f"orun key {FORMAT}".encode() + sized).hexdigest()


def environment_value(name: str) -> str:
    """Return a variable as the value of a component: the digest of its value; `unset` differs from empty."""
    return value_digest(name, os.environ.get(name)) or UNSET


def _parameters(pipeline: Pipeline, stage: Stage) -> Iterator[KeyComponent]:
    """Yield each parameter as JSON, which keeps `1`, `1.0`, `"1"` and `true` apart, and the path of the user's code.

    The place and the name of a file decide what is read from its folder: weights, a module, or what
    `Path(__file__).with_suffix(".json")` names.
    """
    names = {reference.path: _portable(pipeline, reference) for reference in stage.references}
    for name, value in stage.params.items():
        yield KeyComponent(ComponentKind.PARAMETER, name, value=_text(_replace(value, names)))
    if path := next((names[item.path] for item in stage.references if item.parameter == OWN), ""):
        yield KeyComponent(ComponentKind.CODE_FILE, OWN, value=Path(os.path.normpath(path)).as_posix())


def _portable(pipeline: Pipeline, reference: Reference) -> str:
    """Return an absolute path into the project relative to the pipeline's folder; any other as it is written."""
    path = Path(reference.path)
    return portable_name(path, pipeline.root, pipeline.project) if path.is_absolute() else reference.path


def _replace(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        path, colon, function = value.rpartition(":")
        return names.get(value) or (f"{names[path]}{colon}{function}" if path in names else value)
    if isinstance(value, Mapping):
        return {key: _replace(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace(item, names) for item in value]
    return value


def _text(value: Any, *, in_order: bool = True) -> str:
    """Return JSON; mappings in their own order, which code can see, or sorted."""
    return json.dumps(value, sort_keys=not in_order, ensure_ascii=False, separators=(",", ":"))


def _version(tool: str, packages: Mapping[str, str] | None) -> str:
    distribution = distributions.find(tool, packages)
    return " ".join(distribution) if distribution else distributions.ABSENT
