"""Location and cause of a failure inside a stage's process: the user's line, not the library's."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from orun.core.serialization import replace
from orun.errors import OrunError, OutputRefused, UnknownName
from orun.executors.job import Job
from orun.executors.local.messages import Trouble
from orun.executors.tracing.scope import Scope

PACKAGES = {"cv2": "opencv-python-headless", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
MESSAGE_LINES = 8  # of an exception's message; the log has all of it
LINE_LENGTH = 300


def trouble(job: Job, scope: Scope, error: BaseException) -> Trouble:
    """What an exception that ended a stage says to its user."""
    if isinstance(error, OrunError):
        name: Literal["OutputRefused", "StageFailed"] = "StageFailed"
        if isinstance(error, OutputRefused):
            name = "OutputRefused"
        told = Trouble(name, error.what, error.why, error.hint, *_last_frame(error, scope.is_code))
        return replace(told, name=error.name, known=tuple(error.known)) if isinstance(error, UnknownName) else told
    file, line, function = _place(job, scope, error)
    if isinstance(error, SystemExit):
        what, rest = f"{job.stage} called sys.exit({error.code!r}) before its function returned", []
    else:
        first, *rest = _message(error) or [""]
        what = f"{job.stage} raised {type(error).__name__}" + (f": {first}" if first else "")
        last = "".join(frame.line or "" for frame in traceback.extract_tb(error.__traceback__)[-1:])
        if isinstance(error, KeyError) and ".inputs[" in last:
            rest.append(f"its inputs are {', '.join(job.inputs) or 'none'}: `@stage(inputs=...)` says which there are")
        rest += [_printable(note[:LINE_LENGTH]) for note in getattr(error, "__notes__", ())]
    return Trouble("StageFailed", what, "\n".join(rest), _hint(job, error), file=file, line=line, function=function)


def _hint(job: Job, error: BaseException) -> str:
    """How to name a file of the project that was looked for in the working folder; what brings a missing module."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_module(job, error.name)
    name = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(name, str) and name and Path(job.root, name).exists():
        return f"A stage runs in an empty folder of its own: Path(__file__).parent / {name!r}"
    return ""


def _missing_module(job: Job, name: str) -> str:
    from difflib import get_close_matches

    inside, dot, module = name.rpartition(".")
    around = getattr(sys.modules.get(inside), "__path__", ()) if dot else (job.root, job.project)
    here = {one.stem: folder for folder in around for one in Path(folder).glob("*") if one.is_dir() or _is_code(one)}
    if close := get_close_matches(module, filter(str.isidentifier, here), n=1, cutoff=0.8):
        found = f"{inside}{dot}{close[0]}"
        if found == name:
            return f"It is in {here[module]}, where Python does not look: PYTHONPATH={here[module]} orun ..."
        return f"Did you mean {found}?"
    if dot:
        return f"{inside} is there, and has no {module} in it"
    package = PACKAGES.get(name, name)
    if job.interpreter:
        return f"List {package} among the packages of its environment"
    return f"Install it where orun runs: {sys.executable} -m pip install {package}"


def _is_code(path: Path) -> bool:
    return path.suffix in (".py", ".so")


def write(scope: Scope, error: BaseException) -> None:
    """Write an exception to the log; a refusal of orun's own, which no code of the user's led to, without traceback."""
    plain = isinstance(error, OrunError) and error.__cause__ is None
    if plain and not any(_last_frame(error, scope.is_code)):
        # Who shows an unknown name says which was meant; a `why` beside it would look like something more.
        shown = OrunError(error.what, hint=error.hint) if isinstance(error, UnknownName) else error
        sys.stderr.write(f"{shown}\n")
    else:
        told = traceback.TracebackException.from_exception(error)
        users = [place for place, frame in enumerate(told.stack) if scope.is_code(frame.filename)]
        if plain:  # what orun did after the user's call says nothing to them
            del told.stack[users[-1] + 1 :]
        del told.stack[: users[0] if users else 0]  # nor does what led to their function
        sys.stderr.writelines(told.format())


def _message(error: BaseException) -> list[str]:
    """The lines of its message, clipped; those of a syntax error without the place, which is shown apart."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception as another:  # noqa: BLE001 - the class is the user's, or a library's
        text = f"(its message cannot be shown: {type(another).__name__})"
    lines = [_printable(line.rstrip()[:LINE_LENGTH]) for line in text.strip().splitlines() if line.strip()]
    surplus = len(lines) - MESSAGE_LINES
    return [*lines[:MESSAGE_LINES], f"... {surplus} lines more"] if surplus > 0 else lines


def _printable(line: str) -> str:
    """The line with escapes in place of control characters, which would reach terminals and XML reports."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in line.expandtabs(1)
    )


def _place(job: Job, scope: Scope, error: BaseException) -> tuple[str, int, str]:
    """File, line and function of the last frame in the project's code or the kind's; empty when there is none."""
    if isinstance(error, SyntaxError) and error.filename and scope.is_code(error.filename):
        return error.filename, error.lineno or 0, ""
    return _last_frame(error, lambda file: scope.is_code(file) or _is_kind(job, file))


def _last_frame(error: BaseException, wanted: Callable[[str], bool]) -> tuple[str, int, str]:
    """File, line and function of the last frame in a file that is wanted; empty when there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if wanted(frame.filename):
            return frame.filename, frame.lineno or 0, frame.name
    return "", 0, ""


def _is_kind(job: Job, file: str) -> bool:
    """Whether a file is of the package that has the kind, as far as it is about kinds."""
    if job.origin == "file":
        return False
    package = job.entry.partition(".")[0]
    entry = "orun.stages" if package == "orun" else package
    module = sys.modules.get(entry)
    places = getattr(module, "__path__", None) or [getattr(module, "__file__", None)]  # one file may be all of it
    return any(Path(file).is_relative_to(place) for place in places if place)
