"""Convert a model to another version of the standard operator set, with ONNX's own converter.

The result is compared with the model before it on random and boundary inputs at several sizes of each dynamic axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.library_errors import failing
from orun.stages.params import Doc, Range


@dataclass(frozen=True)
class Params:
    """Parameters of `convert/opset`."""

    version: Annotated[int, Doc("Version of the operator set of the result."), Range(7)]
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-5
    rtol: Rtol = 1e-3


SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to convert.")},
    tools=("onnx", "onnxruntime|onnxruntime-gpu"),
    extra="cpu",
    preload=("onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "nodes_before": LOWER, "max_abs_error": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the converted model to `context.result`."""
    import onnx

    from orun.stages._graph.agreement import check_and_weigh
    from orun.stages._graph.io import list_external_files, load_graph, save, store_freely
    from orun.stages._graph.plain import inline

    before = load_graph(context.model())  # without external data, as the converter has a size limit
    hint = "export the model at that version: `opset` of `convert/torch`"
    with failing(context, f"ONNX cannot convert the model to operator set {params.version}", hint):
        model = onnx.version_converter.convert_version(inline(before), params.version)  # it drops functions
    store_freely(model)
    onnx.load_external_data_for_model(model, str(context.model().parent))
    save(model, context.result, external=bool(list_external_files(before)))
    return check_and_weigh(context, "the converted model", params, hint=hint)
