"""Input domain of a model: the values that its inputs take and the sizes of its dynamic axes.

A model carries its domain as JSON in the entry `orun.input_domain` of `metadata_props`, so that the domain goes
wherever the file goes. Made-up inputs of the model stay within its domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from orun.core.serialization import Record, decode, encode, field, from_json, to_json
from orun.errors import UsageError
from orun.stages._data.source import Examples
from orun.stages.common_parameters import Fill, FillName, High, Low
from orun.stages.contract import MODEL, Spec
from orun.stages.params import Doc

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages._graph.feeds import Input

PROPERTY = "orun.input_domain"


@dataclass(frozen=True)
class DeclaredInput:
    """Declaration of one input of a model in a pipeline file."""

    low: Low = None
    high: High = None
    fill: Fill = "random"


Declarations: TypeAlias = dict[str, DeclaredInput]
DeclaredInputs = Annotated[
    Declarations,
    Doc("Values of the inputs, by name. They are stored in the model, and later stages make up inputs within them."),
]
ComparedInputs = Annotated[
    Examples | Declarations | None,
    Doc(
        "A dataset of inputs to compare with (see `measure/accuracy`); made up within the model's input domain when "
        "left out. Or values by input that replace those of the domain: `{mask: {fill: right-padded}}`."
    ),
]


class InputValues(Record, frozen=True):
    """Values of one input: how it is filled, and its bounds, if any."""

    fill: FillName = "random"
    low: float | None = None
    high: float | None = None


class InputDomain(Record, frozen=True):
    """Input domain of a model.

    Attributes:
        inputs: values of each declared input, by name.
        sizes: sizes to try for dynamic axes, by name.
    """

    inputs: Mapping[str, InputValues] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def to_input_values(inputs: Mapping[str, DeclaredInput]) -> dict[str, InputValues]:
    """Return declarations of a pipeline file in the form that a model carries."""
    return {name: InputValues(item.fill, item.low, item.high) for name, item in inputs.items()}


def build_domain(inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]]) -> InputDomain:
    """Return the domain that a conversion declares."""
    values = {item.name: InputValues(item.fill, item.low, item.high) for item in inputs}
    return InputDomain(values, {axis: tuple(values) for axis, values in sizes.items()})


def read_domain(model: ModelProto) -> InputDomain:
    """Return the domain that a model carries, or an empty one.

    Raises:
        UsageError: when the property is not in the format of orun.
    """
    text = next((entry.value for entry in model.metadata_props if entry.key == PROPERTY), "{}")
    try:
        return decode(InputDomain, from_json(text.encode()))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the model's property `{PROPERTY}` cannot be read",
            why=str(error),
            hint="it is JSON such as "
            '{"inputs": {"mask": {"fill": "right-padded"}, "ids": {"high": 99}}, "sizes": {"length": [16, 32]}}; '
            "correct it, or remove it from the file",
        ) from error


def write_domain(model: ModelProto, domain: InputDomain) -> None:
    """Store a domain in a model, replacing the one there; an empty domain removes the property."""
    kept = [entry for entry in model.metadata_props if entry.key != PROPERTY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    if domain != InputDomain():
        document = {
            "inputs": {name: {"fill": values.fill} | encode(values) for name, values in domain.inputs.items()},
            "sizes": encode(domain.sizes),
        }
        model.metadata_props.add(key=PROPERTY, value=to_json(document).decode())


def carry_domain(spec: Spec, output: Path, inputs: Mapping[str, Path]) -> tuple[str, ...]:
    """Copy the domain of a stage's input model to its result.

    If the result has a domain already, that stays. Dynamic axes that lost their names get them back, because other axes
    and sizes refer to them.

    Returns:
        A sentence for each part of the domain that does not apply to the result.
    """
    primary = inputs.get(next(iter(spec.inputs), ""))
    if spec.output != "onnx" or primary is None or not (primary / MODEL).is_file():
        return ()
    import onnx  # lazy: an environment of its own may lack it

    from orun.stages._graph.io import load_graph

    before = load_graph(primary / MODEL)
    domain = read_domain(before)
    if domain == InputDomain():
        return ()
    path = output / MODEL
    after = load_graph(path)
    named = _name_axes(before, after)
    carries = any(entry.key == PROPERTY for entry in after.metadata_props)
    if not carries:
        write_domain(after, domain)
    if named or not carries:
        temporary = path.with_name("model.onnx.part")
        onnx.save(after, temporary)
        temporary.replace(path)  # which may be a hard link
    return _list_lost_inputs(read_domain(after), before, after)


def _name_axes(before: ModelProto, after: ModelProto) -> bool:
    """Give nameless dynamic axes of inputs their former names; return whether there were any."""
    known = {value.name: value.type.tensor_type.shape.dim for value in before.graph.input}
    changed = False
    for value in after.graph.input:
        axes, former = value.type.tensor_type.shape.dim, known.get(value.name, ())
        for axis, old in zip(axes, former, strict=False) if len(axes) == len(former) else ():
            if not axis.dim_param and not axis.HasField("dim_value") and old.dim_param:
                axis.dim_param = old.dim_param
                changed = True
    return changed


def _list_lost_inputs(domain: InputDomain, before: ModelProto, after: ModelProto) -> tuple[str, ...]:
    from orun.stages._graph.io import list_input_names

    names = list_input_names(after)
    removed = [name for name in domain.inputs if name not in names]
    new = [name for name in names if name not in list_input_names(before)]
    notes = []
    if removed:
        notes.append(f"the input domain of {', '.join(removed)} is dropped: the model no longer has this input")
    if new and not any(name in domain.inputs for name in new):
        notes.append(f"the input domain does not cover {', '.join(new)}, which the model takes now")
    return tuple(notes)
