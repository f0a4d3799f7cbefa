"""Examples that a model does not run on: what it was fed, and how to change that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orun.measure.accuracy.names import format_title
from orun.measure.dataset import Array, suggest_type
from orun.measure.dataset_origin import TOKENS, Origin

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

KEEPS_TYPES = "`optimize/float16`, and `keep_io_types=True` of other converters, keep float32 inputs and outputs"
TYPES = {  # numpy's name of ONNX Runtime's types
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({name})": name for name in ("float16", "int8", "int16", "int32", "int64", "uint8", "uint16")},
}


def describe_feed(session: InferenceSession, feed: Mapping[str, Array]) -> str:
    """Return what a model was fed and what it takes, a line for each input."""
    types = {value.name: f"{TYPES.get(value.type, value.type)} {value.shape}" for value in session.get_inputs()}
    return "\n".join(
        f"{name}: fed {value.dtype} {list(value.shape)}, takes {types[name]}" for name, value in feed.items()
    )


def suggest_feed(
    session: InferenceSession, feed: Mapping[str, Array], origin: Origin, highest: Mapping[str, float]
) -> str:
    """Return how to feed a model that does not run on an example; empty if nothing is known to be wrong.

    Args:
        session: of the model.
        feed: what it was fed.
        origin: where the examples come from.
        highest: largest value of inputs that have one, by name.
    """
    return (
        _suggest_type(session, feed)
        or _suggest_rank(session, feed)
        or _suggest_table(origin, highest, feed)
        or _suggest_length(origin, feed)
    )


def suggest_one_type(sessions: Mapping[str, InferenceSession], role: str) -> str:
    """Say how two models can take one type of an input; empty if the model of this role differs from no other.

    The same values go to all models, so that a dataset of another type would only move the failure to another model.
    """
    types = {value.name: value.type for value in sessions[role].get_inputs()}
    for other, session in sessions.items():
        for value in session.get_inputs():
            if value.name in types and value.type != (own := types[value.name]):
                return (
                    f"the {format_title(role)} takes {TYPES.get(own, own)}, and the {format_title(other)} "
                    f"{TYPES.get(value.type, value.type)}: give both one type, by `types` of optimize/edit; "
                    f"{KEEPS_TYPES}"
                )
    return ""


def _suggest_type(session: InferenceSession, feed: Mapping[str, Array]) -> str:
    """Say how to convert the first input whose type the model does not take; empty if there is none."""
    types = {value.name: TYPES.get(value.type) for value in session.get_inputs()}
    wrong = [name for name, value in feed.items() if types[name] and types[name] != value.dtype.name]
    return "".join(suggest_type(name, str(types[name])) for name in wrong[:1])


def _suggest_rank(session: InferenceSession, feed: Mapping[str, Array]) -> str:
    """Say how to feed examples that have a batch axis of their own, or too few axes; empty if there are none."""
    for value in session.get_inputs():
        axes, fed = len(value.shape or ()), feed[value.name]
        if fed.ndim == axes + 1 and fed.shape[1:2] == (1,):
            return (
                f"each example of {value.name} has a batch axis of 1, and batching adds another: give each example "
                "without it, `values[0]`, or all examples as one array `[n, ...]`"
            )
        if fed.ndim < axes:
            return (
                f"an example of {value.name} is {list(fed.shape[1:])}, and the model takes {value.shape[1:]}: a row of "
                "a table is one example, so make windows in a function, or store them in a .npz"
            )
    return ""


def _suggest_table(origin: Origin, highest: Mapping[str, float], feed: Mapping[str, Array]) -> str:
    """Name the first input of integers that are more than the model takes, as rows of a table; empty without one."""
    for name, value in feed.items():
        most = highest.get(name)
        if most is not None and value.dtype.kind in "iu" and value.size and value.max() > most:
            tokenizer = origin.tokenizer
            question = f"is {tokenizer} the model's own tokenizer?" if tokenizer else "are these ids of its own table?"
            return f"{name} holds {value.max()}, and the model takes 0 to {most:g}: {question}"
    return ""


def _suggest_length(origin: Origin, feed: Mapping[str, Array]) -> str:
    """Say how to feed fewer tokens; empty if no tokenizer makes the inputs."""
    if not origin.tokenizer or TOKENS not in feed:
        return ""
    return f"if the model takes fewer tokens: `text: {{length: N}}`; this example has {feed[TOKENS].shape[-1]}"
