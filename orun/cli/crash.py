"""Errors that no code expected: a package of an extra that is not installed, or a bug, with a file that tells it."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec

from orun.errors import MissingPackages, OrunError, UsageError


def find_missing_package_error(error: ModuleNotFoundError) -> UsageError | None:
    """Return the message for a missing package of orun or of one of its extras; None for any other module."""
    from orun.environment.distributions import OF_MODULES, list_metadata_paths, normalize, read_requirements

    module = (error.name or "").partition(".")[0]
    name = normalize(OF_MODULES.get(module, module))
    if "orun" not in list_metadata_paths() or name not in read_requirements("orun") or find_spec(module):
        return None
    with suppress(ModuleNotFoundError):  # what looks up the extras needs what orun needs
        from orun.environment.install_commands import EXTRAS

        if name in EXTRAS:
            return MissingPackages(f"this command needs {name}, which is not installed", [name])
    return UsageError(f"orun needs {name}, which is not installed", hint=f"pip install {name}, or install orun anew")


def report_bug(error: Exception, command_line: Sequence[str]) -> OrunError:
    """Return the message for an unexpected error, after writing what is needed to understand it to a log file."""
    from orun.environment.secret_variables import Secrets
    from orun.executors import Mask

    mask = Mask.of(Secrets())
    report = mask.hide_in_text(_format_report(error, command_line))
    try:
        handle, path = tempfile.mkstemp(prefix="orun-bug-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as log:  # of whatever names files have
            log.write(report)
    except OSError as refused:  # a full disk, or no folder for temporary files
        why = f"{report}and no file takes this: {refused.strerror}"
    else:
        why = f"the traceback and versions are in {path}"
    return OrunError(
        mask.hide_in_text(f"this is a bug in orun: {type(error).__name__}: {error}"),
        why=why,
        hint="nothing that was stored is lost; please report it with that file",
    )


def _format_report(error: Exception, command_line: Sequence[str]) -> str:
    from orun.environment.distributions import list_installed

    versions = "".join(f"  {name} {version}\n" for name, version in sorted(list_installed().items()))
    return (
        f"command: orun {' '.join(redact(command_line))}\n"
        f"python: {sys.version}\nplatform: {platform.platform()}\n\n"
        f"{''.join(traceback.format_exception(error))}\ninstalled:\n{versions}"
    )


def redact(command_line: Sequence[str]) -> list[str]:
    """Return the command line without the values of `--set`: they may be secrets."""
    kept: list[str] = []
    for before, word in zip(["", *command_line], command_line, strict=False):
        is_value = before == "--set" or word.startswith("--set=")
        name, separator, _ = word.removeprefix("--set=").partition("=")
        prefix = "--set=" if word.startswith("--set=") else ""
        kept.append(f"{prefix}{name}{separator}***" if is_value and separator else word)
    return kept
