"""Registry of kinds: the library's by name, plug-ins by entry point, the user's functions by file.

Finding a kind imports only that kind's module. A plug-in package is imported only when its kind is used.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from orun.errors import PipelineError
from orun.fs.bounded_reads import explain_unreachable
from orun.fs.observed_state import FILE, observe_presence
from orun.stages import custom, plugins
from orun.stages.codefile import CodeFiles
from orun.stages.contract import to_module_name
from orun.stages.kind import Kind, bind_metrics
from orun.stages.params import list_params
from orun.text.suggestions import Unknown, find_closest, format_choices

BUILTIN: tuple[str, ...] = (
    "train/distill",
    "train/finetune",
    "convert/torch",
    "convert/tensorflow",
    "convert/sklearn",
    "convert/onnx",
    "convert/opset",
    "check/model",
    "check/coverage",
    "check/web",
    "optimize/simplify",
    "optimize/shapes",
    "optimize/transformer",
    "optimize/graph",
    "optimize/float16",
    "optimize/layout",
    "optimize/prune",
    "optimize/low-rank",
    "optimize/edit",
    "optimize/python",
    "optimize/pipeline-in-model",
    "optimize/session",
    "compile/engine",
    "compile/mobile",
    "quantize/dynamic",
    "quantize/static",
    "quantize/weights",
    "quantize/qat",
    "quantize/tune",
    "quantize/debug",
    "measure/accuracy",
    "measure/latency",
    "measure/memory",
    "measure/load",
    "measure/profile",
    "measure/size",
    "measure/startup",
    "measure/web",
    "release/metadata",
    "release/card",
    "release/bundle",
    "release/serve-check",
    "release/publish",
    "release/triton",
    "release/server",
    "release/kserve",
    "release/web",
)
EXPECTED = "a kind that `orun stages` lists, or ./file.py:function"
PYTHON_FILE = re.compile(r"(?P<file>.+?\.py)(:(?P<rest>.*))?", re.DOTALL)  # the rest is no valid function name
FILE_KIND = re.compile(r".+\.py:[A-Za-z_][A-Za-z0-9_]*")


def find(uses: str, root: Path, files: CodeFiles | None = None) -> Kind:
    """Return the kind that `uses` names: of the library, a function of the user's, or a plug-in's entry point.

    Raises:
        Unknown: when there is no such kind, or its package is broken.
        PipelineError: when the declaration of a user's function is wrong; locations are in its file.
    """
    if FILE_KIND.fullmatch(uses):
        return custom.read(uses, root, files or CodeFiles())
    return _build_built_in(uses) if uses in BUILTIN else _find_plug_in(uses, root, files or CodeFiles())


def list_kinds() -> tuple[Kind, ...]:
    """Return the kinds of the library, in order."""
    return tuple(_build_built_in(name) for name in BUILTIN)


def import_kind(name: str) -> ModuleType:
    """Return the module of a kind of the library."""
    return importlib.import_module(to_module_name(name))


@functools.cache
def _build_built_in(name: str) -> Kind:
    module = import_kind(name)
    return Kind(
        name=name,
        origin="built-in",
        entry=module.__name__,
        doc=inspect.cleandoc(module.__doc__ or ""),
        params=list_params(module.Params),
        spec=module.SPEC,
        metrics=bind_metrics(module),
    )


def _find_plug_in(uses: str, root: Path, files: CodeFiles) -> Kind:
    offered = plugins.KINDS.find()
    if points := offered.get(uses):
        return plugins.load(points)
    if in_file := PYTHON_FILE.fullmatch(uses):
        raise _build_no_function_error(in_file["file"], in_file["rest"] or "", root, files)
    from orun.text.aliases import note, resolve_alias  # lazy: only for errors

    known, instead = (*BUILTIN, *offered), note(uses, "kind of stage")
    near = _suggest_function(uses, root) or (resolve_alias(uses, known) if instead else find_closest(uses, known))
    raise Unknown(
        f"there is no kind of stage {uses!r}",
        expected="./file.py:function" if uses.startswith((".", "/")) else _list_same_folder(near or uses, known),
        suggestion=near,
        hint=instead or "orun stages",
    )


def _list_same_folder(name: str, known: Sequence[str]) -> str:
    """Return the kinds of the folder that a name has, as all of them are too many to be read."""
    folder = name.partition("/")[0]
    return format_choices(kind for kind in known if kind.partition("/")[0] == folder) or EXPECTED


def _build_no_function_error(name: str, rest: str, root: Path, files: CodeFiles) -> Unknown:
    """Return the error for the path of a Python file without a valid function name after it."""
    try:
        functions = files.get(root / name).list_functions()
    except OSError:
        return Unknown(explain_unreachable(root / name, name, "code file"), expected="./file.py:function")
    except PipelineError:  # not Python
        functions = ()
    kinds = [f"{name}:{function}" for function in functions if not function.startswith("_")]
    meant = [f"{name}:{word}" for word in re.findall(r"\w+", rest) if f"{name}:{word}" in kinds] or kinds
    message = f"{name!r} is a file, and a stage is a function in it"
    return Unknown(
        f"{rest!r} cannot be the name of a function in {name!r}" if rest else message,
        expected=format_choices(kinds) or f"{name}:FUNCTION",
        suggestion=meant[0] if meant != kinds or len(kinds) == 1 else "",
        hint="orun stages",
    )


def _suggest_function(uses: str, root: Path) -> str:
    """Return the suggestion for `file:function` or `file.py::function`, if there is such a file."""
    file, _, function = uses.partition(":")
    path = f"{file.removesuffix('.py')}.py"
    name = function.strip(":").removesuffix("()")
    return (
        f"./{path.removeprefix('./')}:{name}" if name.isidentifier() and observe_presence(root / path) == FILE else ""
    )
