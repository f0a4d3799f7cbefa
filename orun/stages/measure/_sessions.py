"""Sessions of the models that `measure/accuracy` runs, one for each connected input."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from orun.core.serialization import replace
from orun.core.targets import Target
from orun.measure.accuracy.names import format_title
from orun.stages.contract import Context
from orun.stages.reference_models import build_openers

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from orun.measure.foreign_process import RemoteSession


def open_sessions(context: Context, stack: ExitStack) -> dict[str, InferenceSession | RemoteSession]:
    """Return a session of each role's model, in this process or in one of another environment or runtime."""
    from orun.measure.foreign_process import RemoteSession
    from orun.measure.session import open_session

    sessions: dict[str, InferenceSession | RemoteSession] = {}
    targets = {role: _choose_target(context, role) for role in context.inputs}
    sources = build_openers(context, targets)
    for role, target in targets.items():
        if role in sources:
            session = stack.enter_context(RemoteSession(context.model(role), target, sources[role]))
            source = context.sources[role].stage
            context.note(f"the {format_title(role)} is the model that {source} converts, in {session.framework}")
            sessions[role] = session
        elif target.interpreter:
            sessions[role] = stack.enter_context(RemoteSession(context.model(role), target))
        else:
            sessions[role] = open_session(context.model(role), target)
    return sessions


def _choose_target(context: Context, role: str) -> Target:
    """Return the target of a role. Unless it says otherwise, its threads sleep while another model runs."""
    target = context.model_target
    if role.startswith("reference"):
        target = context.extra_targets.get("reference_target", target)
    return replace(target, session={"session.intra_op.allow_spinning": False, **target.session})
