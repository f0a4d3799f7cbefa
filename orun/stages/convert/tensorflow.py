"""Convert a TensorFlow or Keras model to ONNX with tf2onnx and check it against TensorFlow.

`model` names the source:

- a function of yours that returns a Keras model (functional, sequential or subclassed), a `tf.function`, a `tf.Module`
  or another callable;
- a file: `.keras`, `.h5`, `.tflite`, a frozen graph (`.pb`), or the folder of a SavedModel. Keras files are read in
  safe mode, which runs no code in them.

Instead of `model`, a stage of your own that trains may provide one `.keras`, `.h5` or `.tflite` file: `needs: train`.
SavedModels and frozen graphs are refused there. They are programs that can write files, and the output of a stage may
come from a shared store.

orun reads the inputs from the model. Declare them in `inputs` where the model has none: for subclassed models and for
functions without a signature. They are passed by name if each is a parameter of the call, otherwise as one dictionary.
`inputs` also bounds the values of an input and names or fixes its axes. Axes that TensorFlow leaves open are dynamic;
the first is `batch`.

The result and TensorFlow are compared on random and boundary inputs at several sizes of each dynamic axis. Where
rounding errors of inputs and weights change TensorFlow's own results, as those of a speech model for a constant
waveform, ten times that change is allowed; a note says so. Nodes get a canonical order and new names, since tf2onnx
numbers them differently in each process; nodes with a weight matrix keep the name of their layer. The model carries its
input domain (input values, and sizes from `dims`), within which later stages make up inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import LOWER, SIZE
from orun.stages._tf.inputs import InputSpec
from orun.stages.common_parameters import Atol, Dims, ExternalData, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.datasets import CODE
from orun.stages.params import Code, Doc, FilePath, Range

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.framework_model import FrameworkModel
    from orun.stages._graph.feeds import Input
    from orun.stages._tf.function import Function
    from orun.stages._tf.lite import Lite
    from orun.stages._tf.source import Source

TITLE = "the TensorFlow model"  # in messages
REPEATABLE = (
    "no tf.random in the call; stateful=False in recurrent layers: let the model take the states as inputs, "
    "`initial_state`, and yield them, `return_state=True`"
)
DATA_FILES = (".keras", ".h5", ".tflite")  # formats that can neither run code nor write files
UNFIT = (
    "say in `inputs` which values the model takes, `low`, `high`, `fill`, and give axes that must be equal one name, "
    "`shape: [batch, length]`"
)


@dataclass(frozen=True)
class Params:
    """Parameters of `convert/tensorflow`."""

    model: Annotated[Code | FilePath | None, Doc("Function that returns the model, or its file or folder.")] = None
    inputs: Annotated[dict[str, InputSpec], Doc("Inputs by name, where the model leaves something open.")] = field(
        default_factory=dict
    )
    outputs: Annotated[
        list[str],
        Doc("Names of the outputs, in order; by default the keys of a dictionary, Keras's own names, or `output`."),
    ] = field(default_factory=list)
    signature: Annotated[
        str, Doc("SavedModel only: the function to convert; by default its only one, or `serving_default`.")
    ] = ""
    tensors: Annotated[
        list[str],
        Doc("Frozen graph only: its outputs, as `name:0`; by default the tensors that no node reads."),
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
            "Instead of `model`: the output of a stage that trains, one .keras, .h5 or .tflite file.",
            optional=True,
        )
    },
    output="onnx",
    one_of=("model", "trained"),
    tools=("tensorflow|tensorflow-cpu", "keras", "tf2onnx", "onnx", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="tensorflow",
    interface="changed",
    preload=("numpy", "onnx", "onnxruntime", "tensorflow", "keras", "tf2onnx"),
    metrics={"size": SIZE, "nodes": LOWER, "max_abs_error": LOWER},
    runtimes={"tensorflow": ("tensorflow|tensorflow-cpu", "keras")},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the converted model to `context.result`."""
    from orun.stages._graph.agreement import require_finite, require_repeatable, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.feeds import make_cases
    from orun.stages._graph.input_domain import build_domain, write_domain
    from orun.stages._graph.io import save, weigh
    from orun.stages._graph.leniency import Agreement
    from orun.stages._graph.names import declare_output_axes
    from orun.stages._graph.processor import check_result
    from orun.stages._tf.export import export
    from orun.stages._tf.limits import build_limits
    from orun.stages._tf.source import load_source

    source = load_source(context, _build_source(context, params))
    model = export(context, source, params.opset, params.outputs)
    inputs = _build_inputs(context, params, source, model)
    tries = tuple(make_cases(inputs, params.dims, context.seed))
    tolerance = Tolerance(params.atol, params.rtol)
    run_model = partial(run_cases, context, TITLE, source, hint=_suggest_inputs(inputs))
    expected = run_model(tries)
    require_repeatable(context, TITLE, run_model, tries, expected, tolerance, REPEATABLE)
    require_finite(context, TITLE, source.outputs, tries, expected)
    declare_output_axes(model, tries, expected)
    write_domain(model, build_domain(inputs, params.dims))
    save(model, context.result, external=params.external_data == "always")
    names = [output.name for output in model.graph.output]
    agreement = Agreement(
        "the converted model",
        TITLE,
        names,
        tolerance,
        hint="try another `opset`",
    )
    error = check_result(context, agreement, tries, expected, build_limits(context, source))
    return {**weigh(context.result), "max_abs_error": error}


def source(context: Context, params: Params, runtime: str, threads: int | None) -> FrameworkModel:
    """Open the model as a reference."""
    from orun.stages._tf.source import load_source

    del runtime  # there is one
    return load_source(context, _build_source(context, params), timed=True, threads=threads)


def _build_source(context: Context, params: Params) -> Source:
    """Return the source of the model.

    Raises:
        StageFailed: when a parameter is for another form of model.
    """
    from orun.stages._tf.source import Source
    from orun.stages.port_files import find_only_file

    if params.model is None:
        path = find_only_file(context, "trained", "model", DATA_FILES)
    else:
        path = context.root / params.model
    name = str(params.model or path.name)
    form = "function" if CODE.fullmatch(name) else "folder" if path.is_dir() else path.suffix.lower()
    for parameter, used, wanted in (
        ("signature", not params.signature or form == "folder", "the folder of a SavedModel"),
        ("tensors", not params.tensors or form == ".pb", "a frozen graph, .pb"),
    ):
        if not used:
            raise context.failed(f"`{parameter}` is for {wanted}, and {name} is another form of model")
    return Source(name, path, params.inputs, params.signature, params.tensors)


def _suggest_inputs(inputs: Sequence[Input]) -> str:
    """Say how to declare the values that a model takes, and the sizes of its dynamic axes."""
    from orun.core.dynamic_axes import BATCH
    from orun.stages._graph.feeds import list_axes

    sizes = ", ".join(f"{axis}: [16, 32]" for axis in list_axes(inputs) if axis != BATCH)
    return f"{UNFIT}; which sizes it takes, `dims: {{{sizes}}}`" if sizes else UNFIT


def _build_inputs(context: Context, params: Params, source: Function | Lite, model: ModelProto) -> list[Input]:
    """Return the model's inputs, with the bounds that its graph has for indices unless the pipeline declares others."""
    from orun.stages._graph.signature import build_inputs

    known = {item.name: item for item in build_inputs(model)}
    unknown = sorted(set(params.inputs) - {item.name for item in source.inputs})
    if unknown:
        raise context.failed(
            f"the model has no input {', '.join(unknown)}",
            why=f"it takes {', '.join(item.name for item in source.inputs)}",
        )
    inputs = []
    for item in source.inputs:
        declared = params.inputs.get(item.name, InputSpec())
        if declared.dtype not in (None, item.dtype):
            problem = f"inputs: {item.name!r} cannot be of {declared.dtype}"
            raise context.failed(problem, why=f"the model takes {item.dtype}")
        is_declared = declared.low is not None or declared.high is not None or declared.fill != "random"
        values: InputSpec | Input = declared if is_declared else known[item.name]
        inputs.append(replace(item, low=values.low, high=values.high, fill=values.fill))
    return inputs
