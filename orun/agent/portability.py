"""Check that a stage read and wrote only what is the same on every machine, and errors in terms of the project."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from orun.agent.project_files import PUT_INTO_PROJECT, is_in
from orun.agent.project_folders import Place, Project
from orun.core.run_record import Failure
from orun.core.serialization import replace
from orun.environment.call_cache import cache_calls
from orun.errors import NotPortable, OrunError, StageError
from orun.executors import JobResult
from orun.fs.observed_state import was_absent
from orun.pipeline.model import Stage
from orun.text.lists import join_few
from orun.text.suggestions import show_path

MOST_NAMED = 3  # files in an error
TRAVELS = "a machine gets what git tracks, and files that git does not ignore"
# What stands before a path in a text: nothing, a blank, a quote or bracket, or the end of a colour code.
BEFORE_PATH = r"""(^|[\s"'`(\[{<=,]|\x1b\[[\d;]*m)"""
# What stands after a name in a path: the rest of the path, or something that ends the path.
AFTER_NAME = r"""(?=$|[/\s"'`)\]}>,:;\x1b]|\.(\s|$))"""


def require_portable(stage: Stage, result: JobResult, project: Project, machine: str) -> None:
    """Refuse what a stage read outside of its project, what it missed in it, and what it wrote beside its output.

    Raises:
        NotPortable: naming the files.
    """
    place = project.place
    if missed := dict(_iter_missed(result, place)):
        names = [_rebase(name, place) for name in missed]
        absence = f"which did not come to {machine} with the project"
        raise _build_error(
            stage, "reads", names, absence, *_explain_left_out(list(dict.fromkeys(missed.values())), place)
        )
    if outside := list(dict.fromkeys(_iter_reads_outside(stage, result, project))):
        raise _build_error(
            stage, "reads", outside, "outside of the project",
            f"there may be something else on another machine than on {machine}",
            "Move it into the project, or name it in a parameter of the stage: then its content is in the key",
        )  # fmt: skip
    if result.undeclared_writes:
        written = [os.path.relpath(path, place.root) for path in result.undeclared_writes]
        raise _build_error(
            stage, "writes", written, "beside its output",
            f"on {machine} nothing is kept but the output",
            "Write it to context.output",
        )  # fmt: skip


def _build_error(stage: Stage, verb: str, paths: list[str], clause: str, why: str, hint: str) -> NotPortable:
    return NotPortable(stage.id, f"{stage.id} {verb} {join_few(paths, MOST_NAMED)}, {clause}", why=why, hint=hint)


def _explain_left_out(entries: list[str], place: Place) -> tuple[str, str]:
    """Return why entries of `left_out` did not travel, and how their files would."""
    for entry in entries:
        if entry in place.odd:
            return f"{_rebase(entry, place)}: {place.odd[entry]}", PUT_INTO_PROJECT.capitalize()
    names = [_rebase(entry, place) for entry in entries[:MOST_NAMED]]
    why = f"git ignores {', '.join(names)}: {TRAVELS}"
    return why, f"List it in the pipeline file: ship: [{', '.join(name.rstrip('/') for name in names)}]"


def _iter_missed(result: JobResult, place: Place) -> Iterator[tuple[str, str]]:
    """Yield what a stage looked for and may have found where the project was taken, with what was left out there."""
    absent = [path for path, signature in result.reads.items() if signature is None]
    absent += [path for path, state in result.probed.items() if was_absent(state)]
    for name in filter(None, (_make_relative(path, place.folder) for path in absent)):
        yield from ((name, entry) for entry in place.left_out if is_in(name, entry.rstrip("/")))
    listed = set(filter(None, (_make_relative(path, place.folder) for path in result.listings)))
    if listed:
        yield from ((entry, entry) for entry in place.left_out if str(Path(entry).parent) in listed)


def _iter_reads_outside(stage: Stage, result: JobResult, project: Project) -> Iterator[str]:
    """Yield what a stage read outside of the project, but for paths that its parameters name and installed packages."""
    root = project.planner.pipeline.root
    declared = [*(os.path.realpath(root / reference.path) for reference in stage.references), *_list_package_folders()]
    present = [path for path, signature in result.reads.items() if signature is not None]
    present += [path for path, state in result.probed.items() if not was_absent(state)]
    for path in (*present, *result.listings):
        real = os.path.realpath(path)
        if not _make_relative(path, project.place.folder) and not any(is_in(real, folder) for folder in declared):
            yield path


@cache_calls
def _list_package_folders() -> tuple[str, ...]:
    return tuple(os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib"))


def _rebase(entry: str, place: Place) -> str:
    """Return a name in the project relative to the pipeline's folder, as `ship:` has it."""
    return os.path.relpath(place.folder / entry, place.root) + ("/" if entry.endswith("/") else "")


def _make_relative(path: str, folder: Path) -> str:
    """Return a path relative to a folder; empty if it is outside."""
    for top in _list_forms(folder):
        if is_in(path, top):
            return os.path.relpath(path, top)
    return ""


def is_of_machine(error: OrunError) -> bool:
    """Return whether this machine is to blame for an error, as with a full disk, and not the stage."""
    return not isinstance(error, StageError) or error.of_machine


def to_failure(error: OrunError, machine: str, place: Place | None = None) -> Failure:
    """Return an error as data.

    Args:
        error: the error. If it names a file or a module that did not travel, its hint says how that travels.
        machine: this machine; a hint that is to be followed here names it.
        place: the project; paths in it become relative to it.
    """
    advice, commands, command = _split_hint(error)
    if is_of_machine(error) and advice:
        advice = f"on {machine}: {advice}"
    elif is_of_machine(error) and commands:
        commands = f"on {machine}: {commands}"
    why = error.why
    code, settings = (error.code, error.settings) if isinstance(error, StageError) else (None, {})
    if place is not None:
        code = replace(code, file=strip_folder(code.file, place.folder)) if code else None
        missed = _list_missed(error, (error.problem, why, advice, commands), place)
        if isinstance(error, StageError) and error.module and (of_module := _list_module_entries(error.module, place)):
            missed, advice = of_module, ""  # which is to install a package of that name
        texts = why, advice, commands, command
        why, advice, commands, command = (strip_folder(text, place.folder) for text in texts)
        if missed:
            why_missed, how = _explain_left_out(missed, place)
            why = f"{why}\n{why_missed}".strip()
            advice = f"{how}\n{advice}".strip()
    return Failure(
        error=type(error).__name__,
        problem=error.problem if place is None else strip_folder(error.problem, place.folder),
        why=why,
        hint="\n".join(filter(None, (advice, commands))),
        log=show_path(getattr(error, "log", "")),
        advice=advice,
        command=command,
        code=code,
        settings=settings,
    )


def _split_hint(error: OrunError) -> tuple[str, str, str]:
    """Return the advice of an error, the rest of its hint, and the command in that which runs its stage alone."""
    if isinstance(error, StageError):
        return error.advice, error.commands, error.command
    return "", error.hint, ""


def _list_missed(error: OrunError, texts: Iterable[str], place: Place) -> list[str]:
    """Return the entries of `left_out` that the texts of an error name, or in which it did not find a file."""
    paths = error.missing if isinstance(error, StageError) else ()
    names = [name for path in paths if (name := _make_relative(path, place.folder))]
    return [
        entry
        for entry in place.left_out
        if any(_has_path(text, entry, place.folder) for text in texts)
        or any(is_in(name, entry.rstrip("/")) for name in names)
    ]


def _list_module_entries(module: str, place: Place) -> list[str]:
    """Return the entries of `left_out` in which a module may be."""
    path = re.escape(module.replace(".", "/"))
    form = re.compile(rf"(^|/){path}(/|([./].*)?\.(py|so))$")  # a folder, a file, or a file in a folder that travels
    return [entry for entry in place.left_out if form.search(entry)]


def strip_folder(text: str, folder: Path) -> str:
    """Return a text in which paths of a folder are relative to it."""
    return re.sub(_build_prefix_pattern(folder), r"\1", text)


def _has_path(text: str, entry: str, folder: Path) -> bool:
    """Return whether a text has the path of an entry of a folder, or a path in it."""
    return bool(re.search(f"{_build_prefix_pattern(folder)}{re.escape(entry.rstrip('/'))}{AFTER_NAME}", text))


def _build_prefix_pattern(folder: Path) -> str:
    """Return the regular expression of what stands before names of a folder in texts."""
    return f"{BEFORE_PATH}(?:{'|'.join(map(re.escape, _list_forms(folder)))})/"


def _list_forms(folder: Path) -> list[str]:
    """Return the forms in which paths of a folder occur in texts, the longest first: a short one may end a long one."""
    forms = {str(folder), os.path.realpath(folder), show_path(str(folder))}
    return sorted(forms, key=lambda form: (-len(form), form))
