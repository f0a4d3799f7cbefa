"""Export a PyTorch module to ONNX and check it against PyTorch.

`model` names a function of yours that takes nothing and returns the module, whose weights may come from a file; or a
file that PyTorch wrote, TorchScript or an ExportedProgram (`.pt2`); or a folder of `transformers`; `hub` names a model
on the Hugging Face hub. A stage of your own that trains may hand over the weights for the function's module:
`needs: train`. Nothing but weights is unpickled, and no Python that comes with a model is run. TorchScript takes
`exporter: torchscript`, and an ExportedProgram has the dynamic axes that it was exported with. `inputs` says what its
`forward` takes: by name when each of them is a parameter of `forward`, otherwise in the order given. An axis that has a
name instead of a size is dynamic; axes of one name have the same size. An axis may follow from others, as that of a
decoder's mask does (`past + sequence`), or that of an image which must be a multiple of something (`32 * rows`). What
`forward` takes as a list, such as a cache of keys and values, is named tensor by tensor and arrives as `*past`. Where
one name is no parameter, none of the others may stand in the place of another parameter, as when one is misspelt. A
`forward` that takes a mapping, or returns an object of a class of yours, needs a module around it that takes and
returns tensors.

The exported model and PyTorch are compared on random and boundary inputs at several sizes of each dynamic axis. Where
PyTorch's own results in float32 and float64 differ, as those of a speech model do for a constant waveform, ten times
that difference is allowed; rows of attention that see nothing are left out. A note says so.
The model carries its input domain: the values that `inputs` declares and the sizes that `dims` declares. Later stages
make up inputs within it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._graph.agreement import Atol, Dims, Rtol
from orun.stages.common_parameters import PADDED, DType, ExternalData, Fill, High, Low
from orun.stages.contract import Context, Port, Spec
from orun.stages.library_errors import failing
from orun.stages.params import Code, Doc, FilePath, Range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.stages._graph.feeds import Case, Input
    from orun.stages._torch.export import Bound

    Array = NDArray[Any]


CONVERTED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")  # modules that hold integers of PyTorch's own
UNFIT = (
    "say which values the model takes, `low`, `high` and `fill` in `inputs`, and which sizes, `dims: {axis: [16, 32]}`"
)
OTHERWISE = "try the other `exporter`, or another `opset`"
MASKED = "; where padding is only behind the text, say so: `fill: right-padded`"


@dataclass(frozen=True)
class InputSpec:
    """One input of the model."""

    shape: Annotated[
        list[int | str],
        Doc("Its axes: a size, the name of a dynamic axis, or what it follows from (`past + sequence`, `32 * rows`)."),
    ]
    dtype: Annotated[DType, Doc("Type of its values.")] = "float32"
    low: Low = None
    high: High = None
    fill: Fill = "random"


@dataclass(frozen=True)
class Transformers:
    """How a model of transformers is loaded."""

    model_class: Annotated[
        str, Doc("Its class, such as `BertForSequenceClassification`; that of its configuration when left out.")
    ] = ""
    attention: Annotated[
        Literal["eager", "sdpa"], Doc("How attention is computed: `eager` is what `optimize/transformer` recognises.")
    ] = "eager"


@dataclass(frozen=True, kw_only=True)
class Params:
    """What is exported, and how it is checked."""

    model: Annotated[
        Code | FilePath | None,
        Doc("Function that returns the module; or a TorchScript or .pt2 file, or a folder of transformers."),
    ] = None
    weights: Annotated[
        FilePath | None, Doc("With a function: the `state_dict` or .safetensors file of its module.")
    ] = None
    hub: Annotated[
        str | None, Doc("Instead of `model`: `owner/name@commit` on the Hugging Face hub, which is then downloaded.")
    ] = None
    transformers: Annotated[Transformers, Doc("For a model of transformers: how it is loaded.")] = field(
        default_factory=Transformers
    )
    inputs: Annotated[dict[str, InputSpec], Doc("What the model takes, by name.")]
    outputs: Annotated[list[str], Doc("Names for what the model returns, in order.")]
    exporter: Annotated[
        Literal["dynamo", "torchscript"],
        Doc(
            "`dynamo` is PyTorch's new exporter; `torchscript`, the older, traces one run and is faster. "
            "`optimize/transformer` fuses the attention of either."
        ),
    ] = "dynamo"
    opset: Annotated[int, Doc("Version of the ONNX operator set."), Range(13, 25)] = 20
    external_data: ExternalData = "auto"
    dims: Dims = field(default_factory=dict)
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={
        "weights": Port(
            ("files",),
            "With a function: what a stage that trains left, the `state_dict` of its module, as a file of PyTorch's or "
            ".safetensors.",
            optional=True,
        )
    },
    output="onnx",
    tools=("torch", "onnx", "onnxscript", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="torch",
    interface="changed",
    one_of=("model", "hub"),
    preload=("torch", "onnx", "onnxruntime"),
    metrics=("size", "nodes", "max_abs_error"),
)


def packages(params: Params, root: Path) -> Mapping[str, str]:
    """What a model, or a file of its weights, asks for."""
    found: dict[str, str] = {}
    if params.weights is not None and params.weights.endswith(".safetensors"):
        found["safetensors"] = str(params.weights)
    if params.hub is not None or (params.model is not None and (root / params.model).is_dir()):
        found["transformers"] = str(params.hub or params.model)
    return found


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the exported model to `context.result`."""
    from orun.stages._graph.agreement import Agreement, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.feeds import Input, make_cases
    from orun.stages._graph.input_domain import domain_of, write_domain
    from orun.stages._graph.io import load, save, weigh
    from orun.stages._graph.names import clean, name_axes, name_input_axes, name_values, restore_inputs
    from orun.stages._graph.processor import check_result
    from orun.stages._torch.limits import limits_of
    from orun.stages._torch.mend import mend

    inputs = [
        Input(
            name,
            spec.dtype,
            tuple(spec.shape),
            spec.low,
            spec.high,
            mask=spec.fill != "random",
            padded=spec.fill == PADDED,
        )
        for name, spec in params.inputs.items()
    ]
    bound = _bind(context, params, inputs)
    if len(bound.renamed) > 1:  # one alone is nothing to be mistaken for
        taken = ", ".join(f"{name} = {given}" for name, given in bound.renamed.items())
        context.note(f"`inputs` went to the module's forward in the order given, not by name: {taken}")
    tries = tuple(make_cases(inputs, params.dims, context.seed))
    expected = run_cases(context, "the PyTorch model", bound, tries, UNFIT)
    _check_answers(context, params.outputs, tries, expected)
    model = load(_export(context, params, bound, tries))
    mend(model)
    clean(model)
    restore_inputs(model, bound.inputs)
    name_values(model, [item.name for item in bound.inputs], params.outputs)
    name_input_axes(model, bound.inputs)
    name_axes(model, tries, expected)
    write_domain(model, domain_of(bound.inputs, params.dims))
    save(model, context.result, external=params.external_data == "always")
    agreement = Agreement(
        "the exported model",
        "the PyTorch model",
        params.outputs,
        Tolerance(params.atol, params.rtol),
        hint=OTHERWISE + (MASKED if any(one.mask and not one.padded for one in inputs) else ""),
    )
    error = check_result(context, agreement, tries, expected, limits_of(context, bound))
    return {**weigh(context.result), "max_abs_error": error}


def _bind(context: Context, params: Params, inputs: Sequence[Input]) -> Bound:
    from orun.stages._torch.source import open_model

    clash = sorted(set(params.outputs) & set(params.inputs))
    if clash or len(set(params.outputs)) < len(params.outputs):
        names = ", ".join(clash) or ", ".join(params.outputs)
        raise StageFailed(context.stage, "inputs and outputs need names that differ", why=names)
    if "" in {*params.outputs, *params.inputs}:
        raise StageFailed(context.stage, "inputs and outputs need names", why="one is empty")
    return open_model(context, params, inputs)


def _check_answers(
    context: Context, outputs: Sequence[str], tries: Sequence[Case], expected: Sequence[Sequence[Array]]
) -> None:
    """Refuse what PyTorch itself answers when `outputs` does not name it, or it is not finite."""
    from orun.stages._graph.agreement import require_finite

    if len(expected[0]) != len(outputs):
        raise StageFailed(
            context.stage,
            f"the PyTorch model returns {len(expected[0])} tensors, and `outputs` names {len(outputs)}",
            why=f"of shapes {', '.join(str(list(value.shape)) for value in expected[0])}",
            hint="name each tensor that the model returns, in order",
        )
    require_finite(context, "the PyTorch model", outputs, tries, expected)


def _export(context: Context, params: Params, bound: Bound, tries: Sequence[Case]) -> Path:
    """Export with the example whose dynamic axes are plainest: all above 1 and each of another size."""
    from orun.stages._torch.export import export

    example = max(tries, key=lambda case: (min(case.sizes.values(), default=2) > 1, len(set(case.sizes.values()))))
    other = "torchscript" if params.exporter == "dynamo" else "dynamo"
    converted = any(type(part).__module__.startswith(CONVERTED) for part in bound.module.modules())
    hint = (
        "export what training left, before `convert`: its fake quantization is what `quantize/qat` takes"
        if converted
        else f"try `exporter: {other}`, or another `opset`"
    )
    with failing(context, f"PyTorch's {params.exporter} exporter cannot export the model", hint):
        return export(bound, example.feed, params.opset, params.exporter, context.log)
