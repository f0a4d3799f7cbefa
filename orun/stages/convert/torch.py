"""Export a PyTorch module to ONNX and check it against PyTorch.

`model` names the source:

- a function of yours that takes no arguments and returns the module. `weights` may name a file of its weights; or a
  stage of your own that trains provides them: `needs: train`.
- a file that PyTorch wrote: TorchScript (needs `exporter: torchscript`) or an ExportedProgram (`.pt2`), which keeps the
  dynamic axes that it was exported with.
- a folder of `transformers`. `hub` names a model on the Hugging Face hub instead.

orun unpickles weights only, and runs no Python that comes with a model.

`inputs` declares what `forward` takes: by name if each is a parameter of `forward`, otherwise in the order given. When
passed in order, no input may have the name of another parameter, as a misspelt name would be mixed up. An axis with a
name instead of a size is dynamic; axes of one name have equal sizes. An axis may be a formula of others, such as the
mask of a decoder (`past + sequence`) or an image size that must be a multiple (`32 * rows`). A list of tensors, such as
a cache of keys and values, is declared tensor by tensor and arrives as `*past`. If `forward` takes a mapping, or
returns an object of your own class, return a module around it that takes and returns tensors.

The exported model and PyTorch are compared on random and boundary inputs at several sizes of each dynamic axis. Where
PyTorch's own results change in float64 and with rounding errors of the inputs, as those of a speech model for a
constant waveform, ten times that change is allowed. Rows of attention that see nothing are not compared. A note says
so. The model carries its input domain (values from `inputs`, sizes from `dims`), within which later stages make up
inputs.

A `forward` that branches on values of its inputs is refused, with the line. If the line belongs to an installed
package, an export by `torchscript` keeps the branch of its example and a note names the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.metrics import LOWER, SIZE
from orun.stages.common_parameters import Atol, Dims, DType, ExternalData, Fill, High, Low, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.datasets import CODE
from orun.stages.library_errors import failing
from orun.stages.name_checks import require_names
from orun.stages.params import Code, Doc, FilePath, Range

if TYPE_CHECKING:
    from orun.measure.dataset import Array
    from orun.measure.framework_model import FrameworkModel
    from orun.stages._graph.feeds import Case, Input
    from orun.stages._torch.export import Bound
    from orun.stages._torch.source import Source


QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")  # modules that hold PyTorch's integers
PADDING_HINT = "; where padding is only behind the text, say so: `fill: right-padded`"


@dataclass(frozen=True)
class InputSpec:
    """Input of the model."""

    shape: Annotated[
        list[int | str],
        Doc("Axes: a size, the name of a dynamic axis, or a formula of other axes (`past + sequence`, `32 * rows`)."),
    ]
    dtype: Annotated[DType, Doc("Type of its values.")] = "float32"
    low: Low = None
    high: High = None
    fill: Fill = "random"


@dataclass(frozen=True)
class Transformers:
    """Options for loading a model of transformers."""

    model_class: Annotated[
        str, Doc("Class, such as `BertForSequenceClassification`; by default that of its configuration.")
    ] = ""
    attention: Annotated[
        Literal["eager", "sdpa"], Doc("How attention is computed: `eager` is what `optimize/transformer` recognizes.")
    ] = "eager"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of `convert/torch`."""

    model: Annotated[
        Code | FilePath | None,
        Doc("Function that returns the module, a TorchScript or .pt2 file, or a folder of transformers."),
    ] = None
    weights: Annotated[
        FilePath | None, Doc("With a function: file of its module's weights, a `state_dict` or .safetensors.")
    ] = None
    hub: Annotated[str | None, Doc("Instead of `model`: `owner/name@commit` on the Hugging Face hub, to download.")] = (
        None
    )
    transformers: Annotated[Transformers, Doc("How to load a model of transformers.")] = field(
        default_factory=Transformers
    )
    inputs: Annotated[dict[str, InputSpec], Doc("Inputs of the model, by name.")]
    outputs: Annotated[list[str], Doc("Names of the outputs, in order.")]
    exporter: Annotated[
        Literal["dynamo", "torchscript"],
        Doc(
            "`dynamo` is PyTorch's new exporter; `torchscript` is the older one, which traces one run and is faster. "
            "`optimize/transformer` fuses attention from both."
        ),
    ] = "dynamo"
    opset: Annotated[
        int,
        Doc("Version of the ONNX operator set. `dynamo` refuses one below 18 to which it cannot convert the model."),
        Range(13, 25),
    ] = 20
    external_data: ExternalData = "auto"
    dims: Dims = field(default_factory=dict)
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={
        "weights": Port(
            ("files",),
            "With a function: the output of a stage that trains, the `state_dict` of its module as a .pt, .pth or "
            ".safetensors file.",
            optional=True,
        )
    },
    output="onnx",
    tools=("torch", "onnx", "onnxscript", "numpy", "onnxruntime|onnxruntime-gpu"),
    extra="torch",
    interface="changed",
    one_of=("model", "hub"),
    preload=("torch", "onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "max_abs_error": LOWER},
    runtimes={"torch": ("torch",), "torch.compile": ("torch",)},
)


def packages(params: Params, root: Path) -> Mapping[str, str]:
    """Return the packages that the model or its file of weights needs, each with what needs it."""
    needed: dict[str, str] = {}
    if params.weights is not None and params.weights.lower().endswith(".safetensors"):
        needed["safetensors"] = str(params.weights)
    if params.hub is not None or (params.model is not None and (root / params.model).is_dir()):
        needed["transformers"] = str(params.hub or params.model)
    return needed


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the exported model to `context.result`."""
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.domains import find_standard_opset
    from orun.stages._graph.feeds import make_cases
    from orun.stages._graph.input_domain import build_domain, write_domain
    from orun.stages._graph.io import load, save, weigh
    from orun.stages._graph.leniency import Agreement
    from orun.stages._graph.names import clean, declare_output_axes, name_input_axes, name_values, restore_inputs
    from orun.stages._graph.processor import check_result
    from orun.stages._torch.answers import TITLE, compute_answers, require_growth
    from orun.stages._torch.export import require_exporter, require_opset
    from orun.stages._torch.limits import build_limits
    from orun.stages._torch.rotary_angles import expand_rotary_angles
    from orun.stages._torch.source import load_source, note_untrained

    inputs = _build_inputs(params)
    require_names(context, [*params.inputs], params.outputs)
    origin = _build_source(context, params)
    bound = load_source(context, origin, inputs)
    note_untrained(context, origin, bound.module)
    require_exporter(bound, params.exporter)
    if len(bound.renamed) > 1:  # a single input cannot be confused with another
        pairs = ", ".join(f"{parameter} = {name}" for parameter, name in bound.renamed.items())
        context.note(f"`inputs` went to the module's forward in the order given, not by name: {pairs}")
    tries = tuple(make_cases(inputs, params.dims, context.seed))
    tolerance = Tolerance(params.atol, params.rtol)
    expected = compute_answers(context, bound, tries, params.outputs, tolerance)
    require_growth(context, bound, tries, expected, params.outputs)
    path, hint = _export(context, params, bound, tries, expected)
    model = load(path)
    require_opset(bound, params.exporter, params.opset, find_standard_opset(model))
    expand_rotary_angles(model)
    clean(model)
    restore_inputs(model, bound.inputs)
    name_values(model, [item.name for item in bound.inputs], params.outputs)
    name_input_axes(model, bound.inputs)
    declare_output_axes(model, tries, expected)
    write_domain(model, build_domain(bound.inputs, params.dims))
    save(model, context.result, external=params.external_data == "always")
    if any(item.fill == "mask" for item in inputs):
        hint += PADDING_HINT
    agreement = Agreement("the exported model", TITLE, params.outputs, tolerance, hint=hint)
    error = check_result(context, agreement, tries, expected, build_limits(context, bound))
    return {**weigh(context.result), "max_abs_error": error}


def source(context: Context, params: Params, runtime: str, threads: int | None) -> FrameworkModel:
    """Open the module as a reference."""
    import torch

    from orun.stages._torch.reference import TorchReference
    from orun.stages._torch.source import load_source

    if threads:
        torch.set_num_threads(threads)
    bound = load_source(context, _build_source(context, params), _build_inputs(params))
    return TorchReference(bound, compiled=runtime == "torch.compile")


def _build_inputs(params: Params) -> list[Input]:
    from orun.stages._graph.feeds import Input

    return [
        Input(name, spec.dtype, tuple(spec.shape), spec.low, spec.high, spec.fill)
        for name, spec in params.inputs.items()
    ]


def _build_source(context: Context, params: Params) -> Source:
    """Return the source of the model.

    Raises:
        StageFailed: when a parameter is not used by this form of source.
    """
    from orun.stages._torch.source import FUNCTION, Source, find_trained_weights

    by_function = params.hub is None and CODE.fullmatch(str(params.model)) is not None
    connected = "weights" in context.inputs
    if by_function and params.transformers != Transformers():
        raise context.failed(
            f"`transformers` is of no use, as {params.model} makes the model itself",
            hint="leave it out, and choose class and attention in that function",
        )
    if (params.weights is not None or connected) and not by_function:
        parameter = "the input `weights`" if connected else "`weights`"
        raise context.failed(
            f"{parameter} is of no use, as {params.hub or params.model} brings its own",
            hint=f"leave it out, or {FUNCTION}",
        )
    if params.weights is not None and connected:
        raise context.failed(
            "weights come from a stage and from a file",
            hint="leave one of them out: `needs` or `weights`",
        )
    weights = context.root / params.weights if params.weights is not None else find_trained_weights(context)
    name = str(params.weights or (weights.name if weights else ""))
    how = params.transformers
    return Source(params.hub or "", str(params.model), weights, name, how.model_class, how.attention)


def _export(
    context: Context, params: Params, bound: Bound, tries: Sequence[Case], expected: Sequence[Sequence[Array]]
) -> tuple[Path, str]:
    """Export with an example whose dynamic axes are above 1 and differ in size, so that no size becomes a constant.

    Axes of outputs that follow from them should be above 1, too. Return the model, and what to do if it is wrong.
    """
    from orun.stages._torch.export import advise_other, export
    from orun.stages._torch.fixed_sizes import advise_traced_sizes, naming_fixed_axis
    from orun.stages._torch.value_branches import naming_value_branch, require_no_value_branch
    from orun.stages.library_warnings import warnings_to

    def rate_case(pair: tuple[Case, Sequence[Array]]) -> tuple[bool, int, int]:
        sizes = pair[0].sizes.values()
        short = [size for value in pair[1] for size in value.shape if size == 1]
        return min(sizes, default=2) > 1, -len(short), len({*sizes})

    example, _ = max(zip(tries, expected, strict=True), key=rate_case)
    quantized = any(type(part).__module__.startswith(QUANTIZED) for part in bound.module.modules())
    other = advise_other(bound, params.exporter)
    hint = (
        "export what training left, before `convert`: its fake quantization is what `quantize/qat` takes"
        if quantized
        else other
    )
    problem = f"PyTorch's {params.exporter} exporter cannot export the model"
    with (
        failing(context, problem, hint),
        naming_value_branch(context),
        naming_fixed_axis(context, bound, problem, other),
        warnings_to(context.log) as caught,
    ):
        path = export(bound, example.feed, params.opset, params.exporter)
    require_no_value_branch(context, bound, example.feed, caught)
    if params.exporter == "torchscript":
        other = advise_traced_sizes(context.root, bound, caught) + other
    return path, other
