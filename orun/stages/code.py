"""The user's own functions, loaded from their files inside the process of a stage."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from orun.errors import UsageError


class SourceLoader(SourceFileLoader):
    """Compiles a module from its source each time: cached byte code is neither trusted nor written.

    Byte code goes by the time and size of its source, which two edits within a second can leave alike.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module."""
        path = self.get_filename(fullname)
        LOADED[path] = fullname
        text = TEXTS[path] = self.get_data(path)
        return _COMPILED.get((path, text)) or _compile(text, path)


LOADED: dict[str, str] = {}  # file -> module, of those that this process has loaded from their source
TEXTS: dict[str, bytes] = {}  # file -> content, of the same
_COMPILED: dict[tuple[str, bytes], CodeType] = {}


def compile_beforehand(path: str, text: bytes) -> None:
    """Compile a file for the processes that are forked from this one and load it while it has this content.

    Raises:
        SyntaxError, ValueError: when the compiler refuses it.
    """
    _COMPILED[path, text] = _compile(text, path)


def _compile(text: bytes, path: str) -> CodeType:
    code: CodeType = compile(text, path, "exec", dont_inherit=True)
    return code


def load_function(root: Path, reference: str, takes: Sequence[str] | None = None) -> Callable[..., Any]:
    """The function that `file.py:function` names.

    Its file can import what lies beside it and what lies in `root`; it is loaded once to a process.

    Args:
        root: the pipeline's folder, which the reference is relative to.
        reference: `file.py:function`.
        takes: what it will be called with, by name; None when that is checked elsewhere.

    Raises:
        UsageError: when there is no such file or function, or it cannot be called so.
    """
    name, _, function = reference.rpartition(":")
    path = Path(root, name).absolute()
    if not path.is_file():
        raise UsageError(f"no file {name}", why=f"{reference} is looked for in {root}")
    module = _module(root.absolute(), path)
    found = getattr(module, function, None)
    if found is not None and not callable(found):
        raise UsageError(
            f"{reference} is of type {type(found).__name__}, not a function", hint=f"def load(): return {function}"
        )
    if found is None:
        raise UsageError(f"no function {function!r} in {name}", why=f"it defines: {', '.join(_functions(module))}")
    if takes is not None:
        _require(found, path, reference, takes)
    return found  # type: ignore[no-any-return]  # any callable will do


def _require(function: Callable[..., Any], path: Path, reference: str, takes: Sequence[str]) -> None:
    try:
        signature = signature_of(function)
    except ValueError:  # of native code: nothing is known
        return
    try:
        signature.bind(*takes)
    except TypeError:
        file, _, name = reference.rpartition(":")
        code = getattr(function, "__code__", None)
        place = f" at {file}:{code.co_firstlineno}" if code and code.co_filename == str(path) else ""
        why = f"it is called as {name}({', '.join(takes)}), and is {name}{signature}{place}"
        raise UsageError(f"{reference} takes other arguments", why=why) from None


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, whatever the annotations say.

    From Python 3.14 on they are evaluated when somebody asks, and may name what is imported for type checkers alone.

    Raises:
        TypeError, ValueError: when there is none, as for some functions of native code.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _module(root: Path, path: Path) -> ModuleType:
    if known := sys.modules.get(LOADED.get(str(path), "")):
        return known
    for folder in (str(root), str(path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    name = _free_name(path.stem)
    loader = SourceLoader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _free_name(stem: str) -> str:
    """The module's name: that of its file, unless another module has it."""
    name = stem
    while name in sys.modules or name in sys.stdlib_module_names:
        name = f"_{name}"
    return name


def _functions(module: ModuleType) -> list[str]:
    return sorted(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))
