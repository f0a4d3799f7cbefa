"""Runs of models over a dataset: the same batches through each, outputs checked and compared batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orun.core.dynamic_axes import find_batch_index
from orun.errors import UsageError
from orun.measure.accuracy.failed_feeds import KEEPS_TYPES, describe_feed, suggest_feed, suggest_one_type
from orun.measure.accuracy.names import MODEL, REFERENCE, format_title
from orun.measure.dataset import Array, Batch, Values, count, iter_batches, list_unbatched
from orun.measure.dataset_origin import Origin
from orun.measure.metrics.fidelity import Difference, compare, concatenate

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
TEXT = "tensor(string)"
CLASSES = ("tensor(bool)", *(f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)))
RENAME = (
    "the models share no output: give their outputs one name, with `outputs: [NAME]` of a convert stage, or `rename` "
    "of optimize/edit"
)
PLAIN = 2  # axes of an output with one score for each class and example
Tick = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """Plan of a pass over the data.

    Attributes:
        origin: where the examples come from.
        highest: largest value of inputs that have one, by name, for errors.
        outputs: names of the outputs to fetch.
        alike: outputs whose shape and type must be the reference's.
        compared: outputs to compare with the reference's.
        families: metrics by which they are compared.
        kept: outputs whose values are needed afterwards.
        batch: most examples that are fed together.
        class_axis: axis of an output along which the scores of the classes lie.
    """

    origin: Origin
    highest: Mapping[str, float]
    outputs: tuple[str, ...]
    alike: tuple[str, ...]
    compared: tuple[str, ...]
    families: tuple[str, ...]
    kept: tuple[str, ...]
    batch: int
    class_axis: int = -1


@dataclass(frozen=True)
class ModelOutputs:
    """Outputs of all models for some inputs.

    Attributes:
        differences: role -> output -> difference from the reference's output; empty without a reference.
        kept: role -> output -> its values, `[n, ...]` or n arrays.
    """

    differences: Mapping[str, Mapping[str, Difference]]
    kept: Mapping[str, Mapping[str, Values]]


def choose_outputs(sessions: Mapping[str, InferenceSession], wanted: Sequence[str]) -> dict[str, str]:
    """Return the wanted outputs, or all, with their types.

    Raises:
        UsageError: if a model lacks an output, or an output has a type that cannot be measured.
    """
    types = {output.name: output.type for output in sessions[MODEL].get_outputs()}
    names = list(wanted) or list(types)
    present = {role: [output.name for output in session.get_outputs()] for role, session in sessions.items()}
    shared = [name for name in types if all(name in outputs for outputs in present.values())]
    for role, outputs in present.items():
        missing = [name for name in names if name not in outputs]
        if missing:
            raise UsageError(
                f"the {format_title(role)} has no output {', '.join(map(repr, missing))}",
                why=f"it has {', '.join(outputs)}",
                hint=f"name outputs that all models have: `outputs: [{', '.join(shared)}]`" if shared else RENAME,
            )
    for name in names:
        if types[name] not in (*FLOATS, *CLASSES, TEXT):
            raise UsageError(
                f"output '{name}' of the model is a {types[name]}, which cannot be judged",
                hint="name the outputs to judge in `outputs`, or let the model cast this one to float",
            )
    return {name: types[name] for name in names}


def run_models(
    sessions: Mapping[str, InferenceSession], inputs: Mapping[str, Values], plan: Plan, part: str, tick: Tick
) -> ModelOutputs:
    """Feed every example to every model.

    Args:
        sessions: by role: `model`, and any of `reference` and `baseline`.
        inputs: one array `[n, ...]` or n arrays for each input.
        plan: what to fetch, compare and keep.
        part: `example` or `candidate`, for errors.
        tick: called with the number of examples done since the last call.

    Raises:
        UsageError: if an input is missing, a model fails, an output is not finite, or shapes or types differ.
    """
    feeds = {role: _match_inputs(plan, role, session, inputs) for role, session in sessions.items()}
    collector = _Collector(plan, part, tuple(sessions))
    all_sessions = (*sessions.values(), sessions[MODEL])  # the model's own shapes come last
    shapes = {value.name: value.shape or () for session in all_sessions for value in session.get_inputs()}
    unbatched = list_unbatched(inputs, shapes)
    for batch in iter_batches(inputs, plan.batch, unbatched):
        outputs = {
            role: _run(plan, role, sessions, {name: batch.feed[name] for name in feeds[role]}, part, batch)
            for role in sessions
        }
        collector.add(batch, outputs)
        tick(len(batch.examples))
    return collector.collect(count(inputs))


def _match_inputs(plan: Plan, role: str, session: InferenceSession, inputs: Mapping[str, Values]) -> list[str]:
    names = [value.name for value in session.get_inputs()]
    plan.origin.require_inputs(names, inputs, format_title(role))
    return names


def _run(
    plan: Plan, role: str, sessions: Mapping[str, InferenceSession], feed: Mapping[str, Array], part: str, batch: Batch
) -> dict[str, Array]:
    session = sessions[role]
    try:
        values = session.run(list(plan.outputs), dict(feed))
    except Exception as error:  # ONNX Runtime's errors share no base class but this
        raise UsageError(
            f"the {format_title(role)} does not run on {part} {batch.examples[0]}",
            why=f"{str(error).strip()}\n{describe_feed(session, feed)}",
            hint=suggest_one_type(sessions, role) or suggest_feed(session, feed, plan.origin, plan.highest),
        ) from error
    outputs = dict(zip(plan.outputs, (np.asarray(value) for value in values), strict=True))
    if batch.is_unbatched:
        later = {value.name for value in session.get_outputs() if find_batch_index(value.shape or ()) > 0}
        has_batch = {name for name, value in outputs.items() if value.shape[:1] == (1,) and name not in later}
        outputs = {name: value if name in has_batch else value[None] for name, value in outputs.items()}
    for name, value in outputs.items():
        _check_output(f"output '{name}' of the {format_title(role)}", value, part, batch)
    return outputs


def _check_output(title: str, value: Array, part: str, batch: Batch) -> None:
    examples = len(batch.examples)
    if value.shape[:1] != (examples,):
        raise UsageError(
            f"{title} has no batch axis: its shape is {list(value.shape)} for a batch of {examples}",
            hint="name the outputs with a batch axis in `outputs`"
            + ("; or let the model return this one with a batch axis of 1, `output[None]`" if examples == 1 else ""),
        )
    if value.dtype.kind != "f":
        return
    bad = np.flatnonzero(~np.isfinite(value).reshape(examples, -1).all(axis=1))
    if bad.size:
        example = value[bad[0]]
        nan, infinite = int(np.isnan(example).sum()), int(np.isinf(example).sum())
        note = _describe_inputs(batch, int(bad[0]), part)
        raise UsageError(
            f"{title} is not finite for {part} {batch.examples[bad[0]]}",
            why=f"{nan} NaN and {infinite} infinite among its {example.size} values{note}",
        )


def _describe_inputs(batch: Batch, index: int, part: str) -> str:
    """Name the inputs of an example that are not finite themselves, which is then the cause; empty if all are."""
    floats = [name for name, values in batch.feed.items() if values.dtype.kind == "f"]
    bad = [name for name in floats if not np.isfinite(batch.feed[name][index]).all()]
    return f"\nthe {part} itself has inputs that are not finite: {', '.join(bad)}" if bad else ""


@dataclass
class _Collector:
    """Outputs and differences of the batches so far."""

    plan: Plan
    part: str
    roles: tuple[str, ...]
    order: list[NDArray[np.intp]] = field(default_factory=list)
    parts: dict[tuple[str, str], list[Difference]] = field(default_factory=dict)
    values: dict[tuple[str, str], list[Array]] = field(default_factory=dict)

    def add(self, batch: Batch, outputs: Mapping[str, Mapping[str, Array]]) -> None:
        """Add the outputs of each role for a batch."""
        self.order.append(batch.examples)
        for role in self.roles:
            for name in self.plan.kept:
                self.values.setdefault((role, name), []).append(outputs[role][name])
            if role == REFERENCE or REFERENCE not in outputs:
                continue
            for name in self.plan.alike:
                self._check_form(role, name, outputs[role][name], outputs[REFERENCE][name], batch)
            for name in self.plan.compared:
                ours, theirs = (
                    move_classes_last(outputs[side][name], self.plan.class_axis) for side in (role, REFERENCE)
                )
                self.parts.setdefault((role, name), []).append(compare(ours, theirs, self.plan.families))

    def collect(self, examples: int) -> ModelOutputs:
        """Return everything in the order of the data."""
        order = np.concatenate(self.order)
        differences: dict[str, dict[str, Difference]] = {}
        for (role, name), parts in self.parts.items():
            differences.setdefault(role, {})[name] = concatenate(parts).take(np.argsort(order, kind="stable"))
        kept: dict[str, dict[str, Values]] = {role: {} for role in self.roles}
        for (role, name), chunks in self.values.items():
            kept[role][name] = _restore_order(chunks, order, examples)
        return ModelOutputs(differences, kept)

    def _check_form(self, role: str, name: str, value: Array, wanted: Array, batch: Batch) -> None:
        ours, theirs = (f"{array.dtype} {list(array.shape)}" for array in (value, wanted))
        if ours != theirs:
            halved = {str(value.dtype), str(wanted.dtype)} == {"float16", "float32"}
            raise UsageError(
                f"output '{name}' of the {format_title(role)} differs in form from the reference's",
                why=f"{ours}, and {theirs} in the reference, for {self.part} {batch.examples[0]}",
                hint="outputs are compared only if shapes and types are equal: "
                + (KEEPS_TYPES if halved else "make the model keep its reference's"),
            )


def move_classes_last(output: Array, axis: int) -> Array:
    """Move the axis of the classes last; return outputs that hold classes or have one axis per example unchanged.

    Raises:
        UsageError: if the output has no such axis.
    """
    if output.dtype.kind != "f" or output.ndim <= PLAIN:
        return output
    if axis >= output.ndim:
        raise UsageError(f"class_axis: an output has no axis {axis}", why=f"its shape is {list(output.shape)}")
    return np.moveaxis(output, axis, -1)


def _restore_order(chunks: Sequence[Array], order: NDArray[np.intp], examples: int) -> Values:
    placed: list[Array] = [np.empty(0)] * examples
    for position, value in zip(order, (row for chunk in chunks for row in chunk), strict=True):
        placed[position] = value
    return np.stack(placed) if len({np.shape(value) for value in placed}) == 1 else placed  # texts have no shape
