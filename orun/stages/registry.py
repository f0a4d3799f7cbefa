"""Registry of kinds: the library's by name, plug-ins by entry point, the user's own by file.

Finding a kind imports that kind's module and no other. A plug-in package is imported only when its kind is used.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

from orun.errors import PipelineError
from orun.fs.observed_state import FILE, presence, unreachable
from orun.stages import custom, plugins
from orun.stages.codefile import CodeFiles
from orun.stages.contract import module_name
from orun.stages.kind import Kind, metrics_of
from orun.stages.params import params_of
from orun.text.suggestions import Unknown, closest, one_of

BUILTIN: tuple[str, ...] = (
    "convert/torch",
    "convert/tensorflow",
    "convert/sklearn",
    "convert/onnx",
    "convert/opset",
    "check/model",
    "check/coverage",
    "optimize/simplify",
    "optimize/shapes",
    "optimize/transformer",
    "optimize/graph",
    "optimize/float16",
    "optimize/layout",
    "optimize/prune",
    "optimize/python",
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
    "release/metadata",
    "release/card",
    "release/bundle",
    "release/serve-check",
    "release/publish",
    "release/triton",
)
A_FILE = re.compile(r"(?P<file>.+?\.py)(:(?P<behind>.*))?", re.DOTALL)  # with something behind it that is no function
FILE_KIND = re.compile(r".+\.py:[A-Za-z_][A-Za-z0-9_]*")


def find(uses: str, root: Path, files: CodeFiles | None = None) -> Kind:
    """The kind of that name.

    Args:
        uses: `folder/file` of the library, `./file.py:function`, or the name of a plug-in's entry point.
        root: the folder that a file is relative to.
        files: where the code files that were looked into are kept.

    Raises:
        Unknown: when there is none, or the package that offers it is broken.
        PipelineError: when the user's function is not declared well; the places are in its file.
    """
    if FILE_KIND.fullmatch(uses):
        return custom.read(uses, root, files or CodeFiles())
    return _built_in(uses) if uses in BUILTIN else _plug_in(uses, root, files or CodeFiles())


def all_kinds() -> tuple[Kind, ...]:
    """The kinds of the library, in order."""
    return tuple(_built_in(name) for name in BUILTIN)


def module_of(name: str) -> ModuleType:
    """The module of a kind of the library."""
    return importlib.import_module(module_name(name))


@functools.cache
def _built_in(name: str) -> Kind:
    module = module_of(name)
    return Kind(
        name=name,
        origin="built-in",
        entry=module.__name__,
        doc=inspect.cleandoc(module.__doc__ or ""),
        params=params_of(module.Params),
        spec=module.SPEC,
        metrics=metrics_of(module),
    )


def _plug_in(uses: str, root: Path, files: CodeFiles) -> Kind:
    found = plugins.offered()
    if points := found.get(uses):
        return plugins.load(points)
    if in_file := A_FILE.fullmatch(uses):
        raise _no_function(in_file["file"], in_file["behind"] or "", root, files)
    from orun.text.aliases import meant, note  # needed where something is wrong

    known, instead = (*BUILTIN, *found), note(uses, "kind of stage")
    is_path = uses.startswith((".", "/"))
    raise Unknown(
        f"there is no kind of stage {uses!r}",
        expected="./file.py:function" if is_path else f"one of {', '.join(known)}, or ./file.py:function",
        suggestion=_function(uses, root) or (meant(uses, known) if instead else closest(uses, known)),
        hint=instead or "orun stages",
    )


def _no_function(name: str, behind: str, root: Path, files: CodeFiles) -> Unknown:
    """The error for the path of a Python file without a function behind it, or with what can be none."""
    try:
        functions = files.get(root / name).functions()
    except OSError:
        return Unknown(unreachable(root / name, name, "code file"), expected="./file.py:function")
    except PipelineError:  # nothing is known of what is in it
        functions = ()
    here = [f"{name}:{function}" for function in functions if not function.startswith("_")]
    meant = [f"{name}:{word}" for word in re.findall(r"\w+", behind) if f"{name}:{word}" in here] or here
    what = f"{behind!r} cannot be the name of a function in {name!r}"
    return Unknown(
        what if behind else f"{name!r} is a file, and a stage is a function in it",
        expected=one_of(here) or f"{name}:FUNCTION",
        suggestion=meant[0] if meant != here or len(here) == 1 else "",
        hint="orun stages",
    )


def _function(uses: str, root: Path) -> str:
    """What was meant by `file:function` or `file.py::function`, where there is such a file."""
    file, _, function = uses.partition(":")
    path = f"{file.removesuffix('.py')}.py"
    name = function.strip(":").removesuffix("()")
    return f"./{path.removeprefix('./')}:{name}" if name.isidentifier() and presence(root / path) == FILE else ""
