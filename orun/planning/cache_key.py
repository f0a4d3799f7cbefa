"""Cache key of a stage: the named components that its result depends on, and the digest over them.

A part is a name and a text, so that `orun explain` can lay two keys side by side. Content goes in by digest: an input
by its tree, a code file or path by its bytes, never by the key that made it or by a time. Paths count beside it, those
into the project by what holds wherever that is.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.core.targets import EXTENSIONS, StageClass, Target
from orun.environment import device, distributions, python_path, venvs
from orun.environment.call_cache import once
from orun.environment.env_vars import HASH_SEED, OPTIMIZE, UNLESS_SET, value_told
from orun.environment.startup import startup_code
from orun.fs.observed_state import portable_name, value_digest
from orun.pipeline.model import KindUse, Pipeline, Reference, Stage
from orun.stages.contract import module_name

FORMAT = 8  # raise it when the meaning of a part changes, or code that runs in every stage's process

MODULES = "modules from"  # folders of PYTHONPATH; an isolated environment has its own
STARTUP = "startup code"  # which Python runs before anything else
OWN = "uses"  # stands for a parameter where a stage is the user's own function
UNSET = "unset"  # instead of the digest of a variable's value, where it has none

TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")  # conditions that hold for type checkers alone

# Modules of plain data and declarations: they pass values on and cannot change what a stage makes.
DECLARATIONS = frozenset(
    {
        "orun",
        "orun.core.serialization",
        "orun.errors",
        "orun.core.metrics",
        "orun.core.targets",
        "orun.stages.contract",
        "orun.stages.params",
    }
)

Digest = Callable[[Path], str]
Parts = Mapping[str, str]
Fixed = tuple[Parts, Parts]  # parameters; versions, target, device and seed


def compose(
    pipeline: Pipeline, stage: Stage, inputs: Parts, digest: Digest, fixed: dict[str, Fixed] | None = None
) -> dict[str, str]:
    """Every part of the key of a stage, by name.

    Args:
        pipeline: the pipeline that the stage belongs to.
        stage: the stage.
        inputs: digest of the tree (or file) at each input port.
        digest: content digest of a file or folder.
        fixed: what is known already of the parts that stay while a process lives, by stage; more is put in.
    """
    use = pipeline.kinds[stage.uses]
    parts = {"kind": stage.uses if use.origin != "file" else use.entry.rpartition(":")[2]}
    if code := stage_code(use, digest):
        parts["stage code"] = code
    told = fixed.get(stage.id) if fixed is not None else None
    if told is None:
        told = _parameters(pipeline, stage), _surroundings(pipeline, stage)
        if fixed is not None and not stage.environments:  # of one that is made on the way, more comes to be known
            fixed[stage.id] = told
    parameters, surroundings = told
    parts |= parameters
    parts |= {f"input {port}": tree for port, tree in inputs.items()}
    for reference in stage.references:
        parts[f"content of {reference.parameter}"] = digest(pipeline.root / reference.path)
    parts |= {f"environment {name}": environment_value(name) for name in stage.env}
    parts |= surroundings
    return parts


def variables(stage: Stage) -> tuple[str, ...]:
    """The environment variables that parts of its key are made of."""
    return (*stage.env, OPTIMIZE, HASH_SEED, python_path.VARIABLE)


def _python(pipeline: Pipeline, stage: Stage) -> dict[str, str]:
    """By what Python makes of the user's code what it does, beside its text; nothing where there is none."""
    beside = {(pipeline.root / reference.path).parent for reference in stage.references if reference.function}
    if not beside:
        return {}
    parts = {"python of your code": platform.python_version()}  # it may read the standard library, or print it
    if os.environ.get(OPTIMIZE):
        parts[f"environment {OPTIMIZE}"] = environment_value(OPTIMIZE)
    if (encoding := sys.getfilesystemencoding()) != "utf-8":  # which `open` takes too when it is told none
        parts["encoding of texts"] = encoding
    around = {pipeline.root, *(beside if len(beside) == 1 else ())}  # each of several is there once its file is loaded
    if not stage.environment and (folders := python_path.module_folders(pipeline.root, pipeline.project, around)):
        parts[MODULES] = folders
    return parts


def _surroundings(pipeline: Pipeline, stage: Stage) -> dict[str, str]:
    """Versions, the target, the device and the seed."""
    use, parts = pipeline.kinds[stage.uses], _python(pipeline, stage)
    if (parts or use.origin == "plug-in") and value_told(HASH_SEED) != UNLESS_SET[HASH_SEED]:
        parts[f"environment {HASH_SEED}"] = environment_value(HASH_SEED)  # of orun's own kinds no result depends on it
    code = startup_code(isolated=stage.environment is not None)
    if started := [f"{_startup_name(pipeline, Path(path))} {digest}" for path, digest in code]:
        parts[STARTUP] = os.pathsep.join(started)
    packages = venvs.packages(stage.environment)
    extensions = (EXTENSIONS,) if any(target.extended for target in stage.targets) else ()
    parts |= {f"tool {tool}": _version(tool, packages) for tool in (*use.spec.tools, *extensions)}
    if stage.environment:
        parts |= {f"package {name}": version for name, version in (packages or {}).items()}
    if stage.target:
        parts["target"] = _target_text(stage.target)
    there = venvs.packages(stage.environment_of(stage.target))
    if stage.environment_of(stage.target) != stage.environment:
        parts |= {f"package {name} of target": version for name, version in (there or {}).items()}
    parts |= {
        f"device {name}": value for name, value in device.fingerprint(use.spec.stage_class, stage.target, there).items()
    }
    for parameter, target in stage.further.items():
        parts |= _further(parameter, target, venvs.packages(stage.environment_of(target)), use.spec.stage_class)
    parts["seed"] = str(pipeline.seed)
    return parts


def _startup_name(pipeline: Pipeline, path: Path) -> str:
    """Its name relative to the pipeline's folder in the project; else no folder, as environments lie anywhere."""
    name = portable_name(path, pipeline.root, pipeline.project)
    return path.name if Path(name).is_absolute() else name


def _further(
    parameter: str, target: Target, packages: Mapping[str, str] | None, stage_class: StageClass
) -> dict[str, str]:
    """The parts of a further target: what it says, and what its environment and device are."""
    parts = {parameter: _target_text(target)}
    parts |= {f"package {name} of {parameter}": version for name, version in (packages or {}).items()}
    found = device.fingerprint(stage_class, target, packages)
    return parts | {f"device {name} of {parameter}": value for name, value in found.items()}


def _target_text(target: Target) -> str:
    told = {"providers": _plain(target.providers), "session": dict(target.session)}
    if target.fallback == "forbid-cpu":  # fails what the others let pass, which are alike in what is made
        told["fallback"] = target.fallback
    return _text(told, in_order=False)


def digest_of(parts: Mapping[str, str]) -> str:
    """The key: BLAKE3 over the sorted parts, each name and text with its length before it. 64 hex digits."""
    fields = [field.encode() for part in sorted(parts.items()) for field in part]
    sized = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
    return blake3(f"orun key {FORMAT}".encode() + sized).hexdigest()


def environment_value(name: str) -> str:
    """Return a variable as a part of a key: the digest of its value; `unset` is told apart from empty."""
    return value_digest(name, os.environ.get(name)) or UNSET


def _parameters(pipeline: Pipeline, stage: Stage) -> dict[str, str]:
    """Each parameter as JSON, which keeps `1`, `1.0`, `"1"` and `true` apart, and the path of the user's own code.

    Where a file lies and what it is called decides, beside its content, what is read from beside it: weights, a module,
    or what `Path(__file__).with_suffix(".json")` names.
    """
    names = {reference.path: _portable(pipeline, reference) for reference in stage.references}
    parts = {f"parameter {name}": _text(_replace(value, names)) for name, value in stage.params.items()}
    own = (names[reference.path] for reference in stage.references if reference.parameter == OWN)
    return parts | {f"file of {OWN}": Path(os.path.normpath(path)).as_posix() for path in own}


def _portable(pipeline: Pipeline, reference: Reference) -> str:
    """An absolute path into the project relative to the pipeline's folder; any other as it is written."""
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


def _plain(providers: Iterable[Any]) -> list[Any]:
    return [[provider.name, dict(provider.options)] for provider in providers]


def _text(value: Any, *, in_order: bool = True) -> str:
    """JSON; mappings in their own order, as code that is given one may go through it, or sorted."""
    return json.dumps(value, sort_keys=not in_order, ensure_ascii=False, separators=(",", ":"))


def _version(tool: str, packages: Mapping[str, str] | None) -> str:
    found = distributions.find(tool, packages)
    return " ".join(found) if found else distributions.ABSENT


def stage_code(use: KindUse, digest: Digest) -> str:
    """Digest of the code of a built-in or plug-in kind, of what runs with it, and of the kinds that it builds with.

    A function of the user's own is covered by its reference, and what it imports is discovered while it runs.
    """
    if use.origin == "file":
        return ""
    hasher = blake3()
    modules = (use.entry, *map(module_name, use.spec.builds_with))
    for name, path in sorted({file for module in modules for file in code_files(module)}):
        hasher.update(f"{name} {digest(Path(path))}\n".encode())
    version = f" {use.distribution} {distributions.installed().get(use.distribution, '')}" if use.distribution else ""
    return hasher.hexdigest() + version


def code_files(module: str) -> tuple[tuple[str, str], ...]:
    """Name and path of a module and of every module of its own top-level package that runs with it, however deep."""
    return tuple((name, path) for name, path, does in reached(module) if does)


@once
def reached(module: str, skipped: frozenset[str] = DECLARATIONS) -> tuple[tuple[str, str, bool], ...]:
    """Return name and path of every module that runs with a module, and whether it does anything.

    A module runs with another one that imports it, lies in its package, or names it in a text (a process is started by
    such a name). Imports for type checkers do not count. A module of no statements does nothing, until it is edited.
    Modules are found by their place in the package's folder and read as text: finding them through `importlib` would
    import their parents.

    Args:
        module: the full name of the first one.
        skipped: names of modules that are neither returned nor followed.
    """
    package = module.partition(".")[0]
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations or [spec.origin or ""]) if spec else []
    tops = [Path(place).parent for place in places if place]  # of a package without `__init__.py` there may be several
    if not tops:
        raise ModuleNotFoundError(f"no package {package!r}")
    found: list[tuple[str, str, bool]] = []
    seen = set(skipped)
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] != package:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        if path := _source(tops, name):
            tree = ast.parse(path.read_bytes())
            found.append((name, str(path), any(not _is_text(node) for node in tree.body)))
            waiting += _named(tree, name if path.name == "__init__.py" else name.rpartition(".")[0])
    return tuple(sorted(found))


def _source(tops: Iterable[Path], module: str) -> Path | None:
    stems = [top.joinpath(*module.split(".")) for top in tops]
    candidates = (path for stem in stems for path in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"))
    return next((path for path in candidates if path.is_file()), None)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _named(tree: ast.Module, package: str) -> list[str]:
    """What a module of a package imports or holds as text, at whatever depth of its code; some is no module's name."""
    names: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            anchor = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*anchor, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.partition(":")[0]
            names += [text] if all(map(str.isidentifier, text.split("."))) else []
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return names
