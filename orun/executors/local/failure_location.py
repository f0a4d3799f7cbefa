"""Location and cause of a failure inside a stage's process: the user's line, not the library's."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from orun.core.serialization import replace
from orun.environment.distributions import OF_MODULES
from orun.errors import MissingPackages, OrunError, OutputRefused, StageError, UnknownName
from orun.executors.job import Job
from orun.executors.local.messages import Trouble
from orun.executors.tracing import variables
from orun.executors.tracing.scope import Scope
from orun.fs.os_errors import SHORTAGES, quote

MESSAGE_LINES = 8  # of an exception's message; the log has all of it
LINE_LENGTH = 300
STRING = re.compile(r"""(["'])([^"']+)\1""")
NOT_FOUND = re.compile(r"not found|no such file|(does not|doesn't) exist|not open|unable to open", re.IGNORECASE)


def build_trouble(job: Job, scope: Scope, error: BaseException) -> Trouble:
    """Return the report of an exception that ended a stage."""
    report = _describe(job, scope, error)
    return replace(report, shortage=shortage) if (shortage := _find_shortage(error)) else report


def _find_shortage(error: BaseException | None) -> int:
    """Return the errno of a shortage behind an error, such as a full disk; 0 if there is none.

    Libraries wrap it in errors of their own, and those in C++ keep nothing but its text.
    """
    while error is not None:
        if isinstance(error, MemoryError):
            return errno.ENOMEM
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            return error.errno
        message = "\n".join(_format_message(error))
        if number := next((number for number in SHORTAGES if os.strerror(number) in message), 0):
            return number
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return 0


def _describe(job: Job, scope: Scope, error: BaseException) -> Trouble:
    if isinstance(error, OrunError):
        name: Literal["OutputRefused", "StageFailed"] = "StageFailed"
        if isinstance(error, OutputRefused):
            name = "OutputRefused"
        report = Trouble(name, error.problem, error.why, error.hint, *_find_last_frame(error, scope.is_code))
        if isinstance(error, StageError):
            report = replace(report, settings=error.settings)
        if isinstance(error, MissingPackages):
            return replace(report, packages=tuple(error.packages))
        return replace(report, name=error.name, known=tuple(error.known)) if isinstance(error, UnknownName) else report
    file, line, function = _locate(job, scope, error)
    if isinstance(error, SystemExit):
        message, rest = f"{job.stage} called sys.exit({error.code!r}) before its function returned", []
    else:
        first, *rest = _format_message(error) or [""]
        message = f"{job.stage} raised {type(error).__name__}" + (f": {first}" if first else "")
        last = "".join(frame.line or "" for frame in traceback.extract_tb(error.__traceback__)[-1:])
        if isinstance(error, KeyError) and ".inputs[" in last:
            rest.append(f"its inputs are {', '.join(job.inputs) or 'none'}: `@stage(inputs=...)` says which there are")
        if _find_unset_variable(error):
            rest.append("the environment variable is not set")
        rest += [_escape_controls(note[:LINE_LENGTH]) for note in getattr(error, "__notes__", ())]
    hint = _suggest_fix(job, scope, error)
    module = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    missing = _list_missing_paths(job, scope, error)
    report = Trouble(
        "StageFailed", message, "\n".join(rest), hint, file, line, function, module=module, missing=missing
    )
    return replace(report, packages=(OF_MODULES.get(module, module),)) if module and not hint else report


def _suggest_fix(job: Job, scope: Scope, error: BaseException) -> str:
    """Return how to get a missing module or variable, or how to name a project file that the working folder lacks."""
    if name := _find_unset_variable(error):
        return f"export {name}=..."
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _suggest_module(job, error.name)
    for name, code_file in _iter_missing_files(scope, error):
        if path := _format_project_path(job, name, Path(code_file).parent):
            return f"A stage runs in an empty folder of its own: {path}"
    return ""


def _find_unset_variable(error: BaseException) -> str:
    """Return the environment variable whose lookup failed; empty for other errors."""
    files = (frame.filename for frame in traceback.extract_tb(error.__traceback__))
    return os.fsdecode(error.args[0]) if isinstance(error, KeyError) and variables.__file__ in files else ""


def _format_project_path(job: Job, name: str, folder: Path) -> str:
    """Return the Python expression for a project file, from its name and its reader's folder; empty if there is none.

    A function that takes the name as a parameter must go on using the parameter.
    """
    if not name or Path(name).is_absolute():
        return ""
    parameter = _find_parameter(job, name)
    if parameter and Path(job.root, name).exists():
        return f"context.root / {parameter}"
    path = next((path for path in (folder / name, Path(job.root, name)) if path.exists()), None)
    return f"Path(__file__).parent / {os.path.relpath(path, folder)!r}" if path else ""


def _find_parameter(job: Job, name: str) -> str:
    """Return the parameter of a stage function that names a file; empty for kinds of orun, which open files alone."""
    values = {} if job.origin == "built-in" else job.params
    same = (parameter for parameter, value in values.items() if isinstance(value, str) and Path(value) == Path(name))
    return next(same, "")


def _iter_missing_files(scope: Scope, error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield names of files that were not found, each with the user's code file that names it.

    They are the error's own, else the strings in the user's lines that led to it, if a library misses a file.
    Keras says "File not found" in a ValueError. Transformers takes a folder that is not there for a name on a hub.
    """
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        if code_file := _find_last_frame(error, scope.is_code)[0]:
            yield error.filename, code_file
        return
    nameless = isinstance(error, OSError) and error.errno is None
    message = "\n".join(_format_message(error))
    if not (nameless or NOT_FOUND.search(message)):
        return
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if scope.is_code(frame.filename):
            names = [name for _, name in STRING.findall(frame.line or "")]
            yield from ((name, frame.filename) for name in names if nameless or name in message)


def _list_missing_paths(job: Job, scope: Scope, error: BaseException) -> list[str]:
    """Return the paths that a file that was not found may have been meant to have: beside the code, or the pipeline."""
    folders = ((name, os.path.dirname(file)) for name, file in _iter_missing_files(scope, error))  # noqa: PTH120
    paths = (os.path.join(top, name) for name, folder in folders for top in (folder, job.root))  # noqa: PTH118
    return list(dict.fromkeys(map(os.path.normpath, paths)))


def _suggest_module(job: Job, name: str) -> str:
    """Return where a module is, or what was probably meant; empty if a package has to be installed."""
    from difflib import get_close_matches

    inside, dot, module = name.rpartition(".")
    folders = getattr(sys.modules.get(inside), "__path__", ()) if dot else (job.root, job.project)
    paths = ((path, folder) for folder in folders for path in Path(folder).glob("*"))
    modules = {path.stem: folder for path, folder in paths if path.suffix in (".py", ".so") or any(path.glob("*.py"))}
    if close := get_close_matches(module, filter(str.isidentifier, modules), n=1, cutoff=0.8):
        match = f"{inside}{dot}{close[0]}"
        return _set_path(modules[module]) if match == name else f"Did you mean {match}?"
    if dot:
        return f"{inside} is there, and has no {module} in it"
    below = (path for folder in (job.root, job.project) for path in sorted(Path(folder).glob("[!.]*/")))
    forms = (f"{module}.py", f"{module}/__init__.py")  # a folder of that name alone may be about a package to install
    holders = (
        path
        for path in below
        if any(os.path.isfile(path / form) for form in forms)  # noqa: PTH113 - Path.is_file raises where none may enter
    )
    return next((_set_path(str(path)) for path in holders), "")


def _set_path(folder: str) -> str:
    return f"It is in {folder}, where Python does not look: PYTHONPATH={quote(folder)} orun ..."


def write(scope: Scope, error: BaseException) -> None:
    """Write an exception to the log; one of orun's own, without user code on the stack, as a message."""
    plain = isinstance(error, OrunError) and error.__cause__ is None
    if plain and not any(_find_last_frame(error, scope.is_code)):
        # The summary suggests the name that was meant; a `why` here would look like another cause.
        refusal = OrunError(error.problem, hint=error.hint) if isinstance(error, UnknownName) else error
        sys.stderr.write(f"{refusal}\n")
    else:
        shown = traceback.TracebackException.from_exception(error)
        own = [index for index, frame in enumerate(shown.stack) if scope.is_code(frame.filename)]
        if plain:  # orun's frames below the user's call say nothing to them
            del shown.stack[own[-1] + 1 :]
        elif _find_unset_variable(error):
            del shown.stack[-2:]  # the lookup in orun and in `os`
        del shown.stack[: own[0] if own else 0]  # nor do those above it
        sys.stderr.writelines(shown.format())


def _format_message(error: BaseException) -> list[str]:
    """Return the lines of an exception's message, clipped; the location of a syntax error is shown separately."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception as failure:  # noqa: BLE001 - the class is the user's, or a library's
        text = f"(its message cannot be shown: {type(failure).__name__})"
    lines = [_escape_controls(line.rstrip()[:LINE_LENGTH]) for line in text.strip().splitlines() if line.strip()]
    surplus = len(lines) - MESSAGE_LINES
    return [*lines[:MESSAGE_LINES], f"... {surplus} lines more"] if surplus > 0 else lines


def _escape_controls(line: str) -> str:
    """Escape control characters, which would reach terminals and XML reports."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in line.expandtabs(1)
    )


def _locate(job: Job, scope: Scope, error: BaseException) -> tuple[str, int, str]:
    """Return file, line and function of the last frame in the project's code or the kind's; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename and scope.is_code(error.filename):
        return error.filename, error.lineno or 0, ""
    return _find_last_frame(error, lambda file: scope.is_code(file) or _is_kind(job, file))


def _find_last_frame(error: BaseException, wanted: Callable[[str], bool]) -> tuple[str, int, str]:
    """Return file, line and function of the last frame in a file that is wanted; empty if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if wanted(frame.filename):
            return frame.filename, frame.lineno or 0, frame.name
    return "", 0, ""


def _is_kind(job: Job, file: str) -> bool:
    """Return whether a file belongs to the package of the kind; of orun, to `orun.stages`."""
    if job.origin == "file":
        return False
    package = job.entry.partition(".")[0]
    entry = "orun.stages" if package == "orun" else package
    module = sys.modules.get(entry)
    folders = getattr(module, "__path__", None) or [getattr(module, "__file__", None)]  # a package may be one file
    return any(Path(file).is_relative_to(folder) for folder in folders if folder)
