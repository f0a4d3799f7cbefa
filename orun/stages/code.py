"""Loader of the user's functions from their files, in the process of a stage."""

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
    """Loader that compiles a module from its source each time, and neither reads nor writes byte code.

    Byte code is checked by time and size of its source, which can be equal after two edits within a second.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the module."""
        path = self.get_filename(fullname)
        LOADED[path] = fullname
        text = TEXTS[path] = self.get_data(path)
        code: CodeType = compile(text, path, "exec", dont_inherit=True)
        return code


LOADED: dict[str, str] = {}  # file -> module, of modules loaded from source in this process
TEXTS: dict[str, bytes] = {}  # file -> content of the same modules


def load_function(root: Path, reference: str, takes: Sequence[str] | None = None) -> Callable[..., Any]:
    """Load the function that `file.py:function` names, once in a process.

    Its file can import modules from its own folder and from `root`.

    Args:
        root: the pipeline's folder, which the reference is relative to.
        reference: `file.py:function`.
        takes: names of the arguments of the later call; None when they are checked elsewhere.

    Raises:
        UsageError: when there is no such file or function, or it does not take these arguments.
    """
    name, _, function = reference.rpartition(":")
    path = Path(root, name).absolute()
    if not path.is_file():
        raise UsageError(f"no file {name}", why=f"{reference} is looked for in {root}")
    module = _import_module(root.absolute(), path)
    value = getattr(module, function, None)
    if value is not None and not callable(value):
        raise UsageError(
            f"{reference} is of type {type(value).__name__}, not a function", hint=f"def load(): return {function}"
        )
    if value is None:
        names = sorted(key for key, item in vars(module).items() if callable(item) and not key.startswith("_"))
        raise UsageError(f"no function {function!r} in {name}", why=f"it defines: {', '.join(names)}")
    if takes is not None:
        _require_signature(value, path, reference, takes)
    return value  # type: ignore[no-any-return]  # any callable will do


def _require_signature(function: Callable[..., Any], path: Path, reference: str, takes: Sequence[str]) -> None:
    try:
        signature = inspect_signature(function)
    except ValueError:  # native code without a signature
        return
    try:
        signature.bind(*takes)
    except TypeError:
        file, _, name = reference.rpartition(":")
        code = getattr(function, "__code__", None)
        place = f" at {file}:{code.co_firstlineno}" if code and code.co_filename == str(path) else ""
        why = f"it is called as {name}({', '.join(takes)}), and is {name}{signature}{place}"
        raise UsageError(f"{reference} takes other arguments", why=why) from None


def inspect_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return `inspect.signature` without evaluating annotations.

    From Python 3.14 on `inspect.signature` evaluates them, and they may name imports for type checkers only.

    Raises:
        TypeError, ValueError: when there is no signature, as for some native functions.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _import_module(root: Path, path: Path) -> ModuleType:
    if known := sys.modules.get(LOADED.get(str(path), "")):
        return known
    for folder in (str(root), str(path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    name = path.stem
    while name in sys.modules or name in sys.stdlib_module_names:
        name = f"_{name}"
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
