"""An ONNX Runtime session for a target, which is what the target says or an error: never silently the CPU.

ONNX Runtime names providers as available that cannot load, ignores most options it does not know, and falls back to the
CPU with a message on stderr. So what loaded, and where each node landed, is read back from the session itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.targets import Target
from orun.errors import UsageError
from orun.measure import engines, placement
from orun.measure.plugins import CPU, available, make_session
from orun.measure.session_options import disabled_optimizers, session_options

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["open_session", "session_options"]

# ONNX Runtime up to 1.31 turns pairs that round to 8-bit floats into operators on integers, which lack the type.
FLOAT8 = "in the target, `session: {session.disable_quant_qdq: 1}`: ONNX Runtime's CPU computes 8-bit floats in float"


def open_session(model: Path, target: Target, profile: str = "", *, watched: bool = False) -> InferenceSession:
    """A session of `model` that runs where `target` says.

    Args:
        model: an ONNX file; its external data lies beside it, and so does what was compiled of it.
        target: providers in order of preference, session options by name (see `session_options`), and what to do when
            a node lands on the CPU although another provider comes first.
        profile: prefix of the profile that ONNX Runtime writes; none when empty.
        watched: whether the session is to remember where each node landed, for `placement.placement`.

    Raises:
        UsageError: when a provider is not in this build or did not load, an option is unknown, the model cannot be
            loaded, `fallback: forbid-cpu` is broken, or the target is one of another environment (see `elsewhere`).
    """
    if target.interpreter:
        raise UsageError(
            f"target '{target.name}' runs in an environment of its own, and this looks into models in its own process",
            hint="run the stage itself in that environment: `environment:` beside `uses`",
        )
    target = engines.applied(model, target)
    _require_available(target, available())
    options = session_options(target)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    judged = target.fallback != "allow" and target.providers[0].name != CPU
    if judged or watched:
        placement.watch(options)
    try:
        session = make_session(model, options, target.providers, disabled_optimizers=disabled_optimizers(target))
    except UsageError:
        raise
    except Exception as error:  # its errors share no base class but this
        raise UsageError(
            f"ONNX Runtime cannot open {model.name} for target '{target.name}'",
            why=_strange(model) or _first_line(error),
            hint=FLOAT8 if "tensor(float8" in str(error) else "see what this machine can run: orun doctor",
        ) from error
    _require_loaded(target, session.get_providers())
    if judged:
        placement.check(target, placement.placement(session))
    return session


def _strange(model: Path) -> str:
    """Why ONNX Runtime, which takes a path in UTF-8, does not find that of a model; empty where it does."""
    try:
        if str(model).encode() == os.fsencode(model):
            return ""
    except UnicodeEncodeError:  # bytes that are no text in the encoding of file names
        pass
    read = f"its path is not what ONNX Runtime reads as UTF-8: file names here are in {sys.getfilesystemencoding()}"
    return f"{read}; set PYTHONUTF8=1, or name its folders in ASCII"


def _require_available(target: Target, available: Sequence[str]) -> None:
    missing = [provider.name for provider in target.providers if provider.name not in available]
    if missing:
        raise UsageError(
            f"target '{target.name}': {', '.join(missing)} is not in this build of ONNX Runtime",
            why=f"it has {', '.join(available)}",
            hint="install the build of ONNX Runtime that has it, then look again: orun doctor",
        )


def _require_loaded(target: Target, loaded: Sequence[str]) -> None:
    missing = [provider.name for provider in target.providers if provider.name not in loaded]
    if missing:
        raise UsageError(
            f"target '{target.name}': {', '.join(missing)} did not load; the session would run on {', '.join(loaded)}",
            why="a library or device that it needs is not on this machine; ONNX Runtime's own message is in the log",
            hint="see what this machine can run: orun doctor",
        )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
