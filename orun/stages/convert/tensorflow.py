"""Convert a TensorFlow or Keras model to ONNX with tf2onnx and check it against TensorFlow.

`model` names a function of yours that returns a Keras model (functional, sequential or subclassed), a `tf.function`, a
`tf.Module` or another callable; or a file: a SavedModel's folder, a `.keras`, `.h5` or `.tflite` file, or a frozen
graph in a `.pb` file. Keras files are read in its safe mode, which runs no code that is in them. A stage of your own
that trains may hand over the model in place of `model`: `needs: train`, which leaves one `.keras`, `.h5` or `.tflite`
file. SavedModels and frozen graphs are not taken so: they are programs, which can write files, and what a stage left
may come from a store that others share.

What the model takes is read from it. `inputs` says it where it cannot be: for subclassed models and functions without a
signature, by name when each is a parameter of the call, otherwise as a dictionary in the first. It also says which
values an input takes, and fixes or names its axes. Axes that TensorFlow leaves open are dynamic: `batch` is the first.

The result and TensorFlow are compared on random and boundary inputs at several sizes of each dynamic axis. Where
TensorFlow's own results change with the last bit of inputs and weights, as those of a speech model do for a constant
waveform, ten times that change is allowed; a note says so. Nodes are put in the order in which they are needed and
named anew, since tf2onnx counts them otherwise in each process; those with a matrix of weights keep the name of their
layer. The model carries its input domain: the values that its inputs take and the sizes that `dims` declares. Later
stages make up inputs within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._graph.agreement import Atol, Dims, Rtol
from orun.stages.common_parameters import PADDED, DType, ExternalData, Fill, High, Low
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Code, Doc, FilePath, Range

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.stages._graph.feeds import Input
    from orun.stages._tf.model import Model

SIGNATURE = "serving_default"  # the name of what a SavedModel is served by
UNFIT = (
    "say in `inputs` which values the model takes, `low`, `high`, `fill`, and give axes that must be equal one name, "
    "`shape: [batch, length]`; which sizes it takes, `dims: {length: [16, 32]}`"
)


@dataclass(frozen=True)
class InputSpec:
    """One input of the model."""

    shape: Annotated[
        list[int | str] | None,
        Doc(
            "Its axes: a size, the name of a dynamic axis, or what it follows from (`past + sequence`, `32 * rows`); "
            "as the model has it when left out."
        ),
    ] = None
    dtype: Annotated[DType | None, Doc("Type of its values, where the model does not say.")] = None
    low: Low = None
    high: High = None
    fill: Fill = "random"


@dataclass(frozen=True)
class Params:
    """What is converted, and how it is checked."""

    model: Annotated[Code | FilePath | None, Doc("Function that returns the model, or its file or folder.")] = None
    inputs: Annotated[dict[str, InputSpec], Doc("What the model takes, by name, where more is to be said.")] = field(
        default_factory=dict
    )
    outputs: Annotated[
        list[str], Doc("Names for what the model returns, in order; keys of a dictionary or `output` when left out.")
    ] = field(default_factory=list)
    signature: Annotated[str, Doc("Of a SavedModel: the function to convert.")] = SIGNATURE
    tensors: Annotated[
        list[str],
        Doc("Of a frozen graph: the tensors that it yields, as `name:0`; those that none reads when left out."),
    ] = field(default_factory=list)
    opset: Annotated[int, Doc("Version of the ONNX operator set."), Range(13, 18)] = 18
    external_data: ExternalData = "auto"
    dims: Dims = field(default_factory=dict)
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={
        "trained": Port(
            ("files",),
            "Instead of `model`: what a stage that trains left, one .keras, .h5 or .tflite file.",
            optional=True,
        )
    },
    output="onnx",
    one_of=("model", "trained"),
    tools=("tensorflow|tensorflow-cpu", "keras", "tf2onnx", "onnx", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="tensorflow",
    interface="changed",
    preload=("numpy", "onnx", "onnxruntime", "tensorflow", "keras", "tf2onnx"),
    metrics=("size", "nodes", "max_abs_error"),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the converted model to `context.result`."""
    from orun.stages._graph.agreement import Agreement, require_finite, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.feeds import make_cases
    from orun.stages._graph.input_domain import domain_of, write_domain
    from orun.stages._graph.io import save, weigh
    from orun.stages._graph.names import name_axes
    from orun.stages._graph.processor import check_result
    from orun.stages._tf.export import export
    from orun.stages._tf.limits import limits_of
    from orun.stages._tf.source import open_model

    source = open_model(context, params)
    model = export(context, source, params.opset, params.outputs)
    inputs = _inputs(context, params, source, model)
    tries = tuple(make_cases(inputs, params.dims, context.seed))
    expected = run_cases(context, "the TensorFlow model", source, tries, UNFIT)
    require_finite(context, "the TensorFlow model", source.outputs, tries, expected)
    name_axes(model, tries, expected)
    write_domain(model, domain_of(inputs, params.dims))
    save(model, context.result, external=params.external_data == "always")
    names = [output.name for output in model.graph.output]
    agreement = Agreement(
        "the converted model",
        "the TensorFlow model",
        names,
        Tolerance(params.atol, params.rtol),
        hint="try another `opset`; a model that draws random numbers has no fixed answer",
    )
    error = check_result(context, agreement, tries, expected, limits_of(context, source))
    return {**weigh(context.result), "max_abs_error": error}


def _inputs(context: Context, params: Params, source: Model, model: ModelProto) -> list[Input]:
    """What the model takes, with the bounds that its graph has for indices, unless the pipeline says others."""
    from dataclasses import replace

    from orun.stages._graph.signature import inputs_of

    known = {item.name: item for item in inputs_of(model)}
    unknown = sorted(set(params.inputs) - {item.name for item in source.inputs})
    if unknown:
        raise StageFailed(
            context.stage,
            f"the model has no input {', '.join(unknown)}",
            why=f"it takes {', '.join(item.name for item in source.inputs)}",
        )
    found = []
    for item in source.inputs:
        said = params.inputs.get(item.name, InputSpec())
        if said.dtype not in (None, item.dtype):
            what = f"inputs: {item.name!r} cannot be of {said.dtype}"
            raise StageFailed(context.stage, what, why=f"the model takes {item.dtype}")
        bounded = replace(item, low=known[item.name].low, high=known[item.name].high, mask=known[item.name].mask)
        if said.low is not None or said.high is not None or said.fill != "random":
            mask, padded = said.fill != "random", said.fill == PADDED
            bounded = replace(item, low=said.low, high=said.high, mask=mask, padded=padded)
        found.append(bounded)
    return found
