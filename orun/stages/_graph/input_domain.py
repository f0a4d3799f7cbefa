"""Input domain of a model: the values that its inputs take and the sizes of its dynamic axes.

A model carries its domain as JSON in the entry `orun.input_domain` of `metadata_props`, so that the domain goes
wherever the file goes. Whatever makes up inputs for the model stays within it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from orun.core.serialization import Record, decode, encode, field, from_json, to_json
from orun.errors import UsageError
from orun.stages.common_parameters import PADDED, Fill, FillName, High, Low
from orun.stages.contract import MODEL, Spec
from orun.stages.params import Doc

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages._graph.feeds import Input

PROPERTY = "orun.input_domain"


@dataclass(frozen=True)
class DeclaredInput:
    """What a pipeline file says of one input of a model."""

    low: Low = None
    high: High = None
    fill: Fill = "random"


Declarations: TypeAlias = dict[str, DeclaredInput]
DeclaredInputs = Annotated[
    Declarations,
    Doc("What the inputs take, by name. The model carries it along, and later stages make up inputs within it."),
]


class InputValues(Record, frozen=True):
    """Values that one input takes: how it is filled, and its bounds, where it has any."""

    fill: FillName = "random"
    low: float | None = None
    high: float | None = None


class InputDomain(Record, frozen=True):
    """What a model takes.

    Attributes:
        inputs: values of each input that something was declared of, by name.
        sizes: sizes at which a dynamic axis is tried, by its name.
    """

    inputs: Mapping[str, InputValues] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def declared(inputs: Mapping[str, DeclaredInput]) -> dict[str, InputValues]:
    """Return what a pipeline file says of inputs as a model carries it."""
    return {name: InputValues(said.fill, said.low, said.high) for name, said in inputs.items()}


def domain_of(inputs: Sequence[Input], sizes: Mapping[str, Sequence[int]]) -> InputDomain:
    """Return the domain that a conversion declares.

    Args:
        inputs: of the model.
        sizes: of its dynamic axes, where they are declared.
    """
    values = {
        item.name: InputValues((PADDED if item.padded else "mask") if item.mask else "random", item.low, item.high)
        for item in inputs
    }
    return InputDomain(values, {axis: tuple(one) for axis, one in sizes.items()})


def read_domain(model: ModelProto) -> InputDomain:
    """Return the domain that a model carries; an empty one when it carries none.

    Raises:
        UsageError: when the property is not what orun writes there.
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
    """Let a model carry a domain, in place of the one it carries; none when there is nothing to say."""
    kept = [entry for entry in model.metadata_props if entry.key != PROPERTY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    if domain != InputDomain():
        said = {
            "inputs": {name: {"fill": values.fill} | encode(values) for name, values in domain.inputs.items()},
            "sizes": encode(domain.sizes),
        }
        model.metadata_props.add(key=PROPERTY, value=to_json(said).decode())


def carry_domain(spec: Spec, output: Path, inputs: Mapping[str, Path]) -> tuple[str, ...]:
    """Let the model that a stage left carry the domain of the model that the stage was given.

    A domain that the result carries already stays. Dynamic axes that lost their names get them back, because other axes
    and sizes refer to them.

    Args:
        spec: of the stage's kind.
        output: folder of the result, which has been checked.
        inputs: folder of each connected input port.

    Returns:
        What does not hold of the result any more, a sentence each.
    """
    from orun.stages._graph.io import load_graph

    primary = inputs.get(next(iter(spec.inputs), ""))
    if spec.output != "onnx" or primary is None or not (primary / MODEL).is_file():
        return ()
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
        _rewrite(after, path)
    return _lost(domain, before, after)


def _name_axes(before: ModelProto, after: ModelProto) -> bool:
    """Give dynamic axes of inputs the names that they had, where they have none; whether there were any."""
    known = {value.name: value.type.tensor_type.shape.dim for value in before.graph.input}
    changed = False
    for value in after.graph.input:
        axes, others = value.type.tensor_type.shape.dim, known.get(value.name, ())
        for axis, other in zip(axes, others, strict=False) if len(axes) == len(others) else ():
            if not axis.dim_param and not axis.HasField("dim_value") and other.dim_param:
                axis.dim_param = other.dim_param
                changed = True
    return changed


def _rewrite(model: ModelProto, path: Path) -> None:
    """Write a graph in place of its file, which may be linked elsewhere; weights beside it stay as they are."""
    import onnx

    beside = path.with_name("model.onnx.part")
    onnx.save(model, beside)
    beside.replace(path)


def _lost(domain: InputDomain, before: ModelProto, after: ModelProto) -> tuple[str, ...]:
    from orun.stages._graph.io import input_names

    now = input_names(after)
    gone = [name for name in domain.inputs if name not in now]
    new = [name for name in now if name not in input_names(before)]
    told = []
    if gone:
        told.append(f"the input domain of {', '.join(gone)} is dropped: the model takes no such input any more")
    if new and not any(name in read_domain(after).inputs for name in new):
        told.append(f"the input domain says nothing of {', '.join(new)}, which the model takes now")
    return tuple(told)
