"""Models over a dataset: the same batches through each, outputs checked, compared as they come and kept where asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orun.errors import StageFailed, UsageError
from orun.measure.accuracy.names import MODEL, REFERENCE
from orun.measure.dataset import Array, Batch, Values, as_type, batches, count
from orun.measure.metrics.fidelity import Difference, compare, concatenate

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
TEXT = "tensor(string)"
CLASSES = ("tensor(bool)", *(f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)))
TYPES = {  # numpy's name of ONNX Runtime's types
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({name})": name for name in ("float16", "int8", "int16", "int32", "int64", "uint8", "uint16")},
}
PLAIN = 2  # axes of an output with one score of each class to an example
Tick = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """What is wanted of a pass over the data.

    Attributes:
        stage: its id, for errors.
        outputs: names of the outputs to fetch.
        compared: those of them that are compared with the reference's.
        kept: those of them whose values are needed afterwards.
        batch: examples that are fed together at most.
        class_axis: of an output's axes the one along which classes stand.
    """

    stage: str
    outputs: tuple[str, ...]
    compared: tuple[str, ...]
    kept: tuple[str, ...]
    batch: int
    class_axis: int = -1


@dataclass(frozen=True)
class Answers:
    """What models answered to some inputs.

    Attributes:
        differences: role -> output -> that model's output against the reference's, where there is a reference.
        kept: role -> output -> its values, `[n, ...]` or n arrays.
    """

    differences: Mapping[str, Mapping[str, Difference]]
    kept: Mapping[str, Mapping[str, Values]]


def choose_outputs(stage: str, sessions: Mapping[str, InferenceSession], wanted: Sequence[str]) -> dict[str, str]:
    """The outputs to look at with their types: those wanted, or all; each of the models must have them.

    Raises:
        StageFailed: when a model lacks one, or when one is nothing that can be looked at.
    """
    types = {output.name: output.type for output in sessions[MODEL].get_outputs()}
    names = list(wanted) or list(types)
    for role, session in sessions.items():
        present = [output.name for output in session.get_outputs()]
        missing = [name for name in names if name not in present]
        if missing:
            raise StageFailed(
                stage,
                f"the {role} has no output {', '.join(missing)}",
                why=f"it has {', '.join(present)}",
                hint="name the outputs that all models share in `outputs`",
            )
    for name in names:
        if types[name] not in (*FLOATS, *CLASSES, TEXT):
            raise StageFailed(
                stage,
                f"output '{name}' of the model is a {types[name]}, which cannot be judged",
                hint="name the outputs to judge in `outputs`, or let the model cast this one to float",
            )
    return {name: types[name] for name in names}


def answer(
    sessions: Mapping[str, InferenceSession], inputs: Mapping[str, Values], plan: Plan, part: str, tick: Tick
) -> Answers:
    """Feed every example to every model.

    Args:
        sessions: by role: `model`, and `reference` and `baseline` where there are such.
        inputs: one array `[n, ...]` or n arrays for each input.
        plan: what is wanted.
        part: what the inputs are (`example`, `candidate`), for errors.
        tick: called with the number of examples that were done since.

    Raises:
        StageFailed: when an input is missing, a model fails, an output is not finite, or shapes or types differ.
    """
    feeds = {role: _names(plan.stage, role, session, inputs) for role, session in sessions.items()}
    collected = _Collected(plan, part, tuple(sessions))
    for batch in batches(inputs, plan.batch):
        outputs = {
            role: _run(plan, role, session, {name: batch.feed[name] for name in feeds[role]}, part, batch)
            for role, session in sessions.items()
        }
        collected.add(batch, outputs)
        tick(len(batch.examples))
    return collected.answers(count(inputs))


def _names(stage: str, role: str, session: InferenceSession, inputs: Mapping[str, Values]) -> list[str]:
    names = [needed.name for needed in session.get_inputs()]
    missing = [name for name in names if name not in inputs]
    if missing:
        raise StageFailed(
            stage,
            f"the dataset has no {', '.join(missing)}, which the {role} takes",
            why=f"it has {', '.join(inputs)}",
            hint="name the arrays of the dataset after the model's inputs",
        )
    return names


def _run(
    plan: Plan, role: str, session: InferenceSession, feed: Mapping[str, Array], part: str, batch: Batch
) -> dict[str, Array]:
    try:
        values = session.run(list(plan.outputs), dict(feed))
    except Exception as error:  # ONNX Runtime's errors share no base class but this
        taken = {one.name: f"{TYPES.get(one.type, one.type)} {one.shape}" for one in session.get_inputs()}
        listed = "\n".join(
            f"{name}: fed {value.dtype} {list(value.shape)}, takes {taken[name]}" for name, value in feed.items()
        )
        raise StageFailed(
            plan.stage,
            f"the {role} does not run on {part} {batch.examples[0]}",
            why=f"{str(error).strip()}\n{listed}",
            hint=_other_types(session, feed) or _batched(session, feed),
        ) from error
    outputs = dict(zip(plan.outputs, (np.asarray(value) for value in values), strict=True))
    for name, value in outputs.items():
        _check_output(plan.stage, f"output '{name}' of the {role}", value, part, batch)
    return outputs


def _other_types(session: InferenceSession, feed: Mapping[str, Array]) -> str:
    """How to give the inputs the types that the model takes, where they have others."""
    taken = {needed.name: TYPES.get(needed.type) for needed in session.get_inputs()}
    wrong = [name for name, value in feed.items() if taken[name] and taken[name] != value.dtype.name]
    return "".join(as_type(name, str(taken[name])) for name in wrong[:1])


def _batched(session: InferenceSession, feed: Mapping[str, Array]) -> str:
    """How to give examples that bring a batch axis of 1 along, to which that of the batch is added."""
    axes = {needed.name: len(needed.shape or ()) for needed in session.get_inputs()}
    wrong = [name for name, value in feed.items() if value.ndim == axes[name] + 1 and value.shape[1:2] == (1,)]
    return "".join(
        f"its examples of {name} have a batch axis of 1, and the batch gets one as well: give each without it, "
        f"`values[0]`, or all of them as one array `[n, ...]`"
        for name in wrong[:1]
    )


def _check_output(stage: str, what: str, value: Array, part: str, batch: Batch) -> None:
    examples = len(batch.examples)
    if value.shape[:1] != (examples,):
        raise StageFailed(
            stage,
            f"{what} has no batch axis: its shape is {list(value.shape)} for a batch of {examples}",
            hint="name the outputs with a batch axis in `outputs`",
        )
    if value.dtype.kind != "f":
        return
    bad = np.flatnonzero(~np.isfinite(value).reshape(examples, -1).all(axis=1))
    if bad.size:
        example = value[bad[0]]
        nan, infinite = int(np.isnan(example).sum()), int(np.isinf(example).sum())
        raise StageFailed(
            stage,
            f"{what} is not finite for {part} {batch.examples[bad[0]]}",
            why=f"{nan} NaN and {infinite} infinite among its {example.size} values{_fed(batch, int(bad[0]), part)}",
        )


def _fed(batch: Batch, place: int, part: str) -> str:
    """Which inputs of an example are not finite themselves: then it is no matter of the model."""
    odd = [name for name, values in batch.feed.items() if values.dtype.kind == "f"]
    odd = [name for name in odd if not np.isfinite(batch.feed[name][place]).all()]
    return f"\nwhat the {part} is fed is not finite either, in {', '.join(odd)}" if odd else ""


@dataclass
class _Collected:
    plan: Plan
    part: str
    roles: tuple[str, ...]
    order: list[NDArray[np.intp]] = field(default_factory=list)
    parts: dict[tuple[str, str], list[Difference]] = field(default_factory=dict)
    values: dict[tuple[str, str], list[Array]] = field(default_factory=dict)

    def add(self, batch: Batch, outputs: Mapping[str, Mapping[str, Array]]) -> None:
        """Take in what each role answered to a batch."""
        self.order.append(batch.examples)
        for role in self.roles:
            for name in self.plan.kept:
                self.values.setdefault((role, name), []).append(outputs[role][name])
            if role == REFERENCE or REFERENCE not in outputs:
                continue
            for name in self.plan.outputs:
                self._same_form(role, name, outputs[role][name], outputs[REFERENCE][name], batch)
            for name in self.plan.compared:
                pair = (classes_last(outputs[one][name], self.plan.class_axis) for one in (role, REFERENCE))
                difference = compare(*pair)
                self.parts.setdefault((role, name), []).append(difference)

    def answers(self, examples: int) -> Answers:
        """Everything in the order of the data."""
        order = np.concatenate(self.order)
        differences: dict[str, dict[str, Difference]] = {}
        for (role, name), parts in self.parts.items():
            differences.setdefault(role, {})[name] = concatenate(parts).take(np.argsort(order, kind="stable"))
        kept: dict[str, dict[str, Values]] = {role: {} for role in self.roles}
        for (role, name), chunks in self.values.items():
            kept[role][name] = _in_order(chunks, order, examples)
        return Answers(differences, kept)

    def _same_form(self, role: str, name: str, value: Array, wanted: Array, batch: Batch) -> None:
        ours, theirs = (f"{array.dtype} {list(array.shape)}" for array in (value, wanted))
        if ours != theirs:
            raise StageFailed(
                self.plan.stage,
                f"output '{name}' of the {role} differs in form from the reference's",
                why=f"{ours}, and {theirs} in the reference, for {self.part} {batch.examples[0]}",
                hint="shapes and types are part of equality: make the model keep those of its reference",
            )


def classes_last(output: Array, axis: int) -> Array:
    """An output with the axis of its classes last; as it is where it holds classes, or has but one axis to an example.

    Raises:
        UsageError: when it has no such axis.
    """
    if output.dtype.kind != "f" or output.ndim <= PLAIN:
        return output
    if axis >= output.ndim:
        raise UsageError(
            f"class_axis: no classes stand along axis {axis} of an output", why=f"its shape is {list(output.shape)}"
        )
    return np.moveaxis(output, axis, -1)


def _in_order(chunks: Sequence[Array], order: NDArray[np.intp], examples: int) -> Values:
    placed: list[Array] = [np.empty(0)] * examples
    for position, value in zip(order, (row for chunk in chunks for row in chunk), strict=True):
        placed[position] = value
    return np.stack(placed) if len({np.shape(value) for value in placed}) == 1 else placed  # texts have no shape
