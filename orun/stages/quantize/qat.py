"""Make an integer model of one that was trained with fake quantization: its weights become stored integers.

Such a model rounds its weights and activations while it is trained. It holds pairs of QuantizeLinear and
DequantizeLinear whose scales training has found, so that no calibration is needed. The pairs may come from:

- PyTorch's FakeQuantize modules, placed by hand, by `prepare_qat` or by `prepare_qat_fx`. Pass the trained module,
  before `convert`, to `convert/torch`; either exporter works. It fixes the ranges, also those of the fused variant that
  PyTorch's defaults use, and folds a batch normalization that was trained within its convolution. After `convert`, use
  `exporter: torchscript`.
- torchao's `prepare_qat_pt2e` and `convert_pt2e` (tried: 0.18). Pass the converted module to `convert/torch` with
  `exporter: dynamo`, or its program in a `.pt2` file, which no longer needs torchao.
- TensorFlow's `fake_quant_with_min_max_vars`, also per channel, in layers of your own: `convert/tensorflow`.
  `tensorflow_model_optimization` does not support Keras 3.
- Any other tool: `convert/onnx`.

Weights that are stored rounded, as TensorFlow's converter leaves them, get their integers back. This works if all
values of each output channel are whole multiples of one number, with at most 255 steps between them. Integers may be
cut off to fewer than 8 bits: PyTorch's defaults train activations in 7.

The stage checks that a runtime can turn every pair into integers. It checks that the model without its float weights
computes what the fake quantization computes, within rounding of float32, on a session that does not touch the pairs.
And it checks that no output is off by more than `steps` when the model runs in integers.

`in_float` counts the products that ONNX Runtime still runs in float on a CPU: an input of theirs is not quantized, or
their output, after its activation, is not. The log names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import HIGHER, LOWER, SIZE
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Dims
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto

LEVELS = 255  # steps of 8 bits
ROUNDING = 1e-5  # error of float32 relative to the output's range


@dataclass(frozen=True)
class Params:
    """Parameters of `quantize/qat`."""

    steps: Annotated[
        float,
        Doc(
            "Most steps by which integers may differ from the fake quantization. A step is that of a rounded output, "
            "or a 255th of the output's range if that is larger."
        ),
        Range(0),
    ] = 2.0  # fmt: skip
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "A model with fake quantization.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "quantized": HIGHER, "in_float": LOWER, "max_abs_error": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the integer model to `context.result`."""
    from orun.stages._graph.domains import tidy_domains
    from orun.stages._graph.io import save, weigh
    from orun.stages._graph.ort_graph import IN_THE_WAY, optimize
    from orun.stages.quantize._grids import store_integers
    from orun.stages.quantize._integers import require_integers
    from orun.stages.quantize._pairs import OTHER_WAYS, PAIR_OPTIMIZERS, check_pairs, find_float_products

    # ONNX Runtime folds constants, among them quantized weights, and drops a pair that repeats another.
    model = optimize(context.model(), "basic", (*IN_THE_WAY, *PAIR_OPTIMIZERS))
    check_pairs(context, model)
    if rounded := store_integers(model):
        context.log.info("%d weights that were stored rounded:\n  %s", len(rounded), "\n  ".join(rounded))
    why = "no weight of a product is rounded, by a QuantizeLinear or beforehand"
    quantized = require_integers(context, model, why, OTHER_WAYS)
    tidy_domains(model)
    save(model, context.result)
    floats = find_float_products(optimize(context.result, "extended"))
    if floats:
        text = "%d products run in float, because an input or the output is not quantized:\n  %s"
        context.log.warning(text, len(floats), "\n  ".join(floats))
    return {
        **weigh(context.result),
        "quantized": quantized,
        "in_float": len(floats),
        "max_abs_error": _compare(context, params, model),
    }


def _compare(context: Context, params: Params, model: ModelProto) -> float:
    """Compare the result with the trained model, as written and as it runs; return the error as it runs."""
    import numpy as np

    from orun.core.targets import Target
    from orun.stages._graph.agreement import Trial, check, load_cases, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.leniency import Agreement
    from orun.stages._graph.processor import check_result
    from orun.stages._graph.sessions import open_model
    from orun.stages.quantize._pairs import find_steps

    written = Target("cpu", session={"graph_optimization_level": "disable"})
    names = [output.name for output in model.graph.output]
    tries = load_cases(context, model, Trial(params.dims, params.inputs))
    expected = run_cases(context, "the model before it", open_model(context.model(), names, written), tries)
    worst = 0.0
    rounded = find_steps(model)
    for place, name in enumerate(names):
        right = [[values[place]] for values in expected]
        span = float(max(np.ptp(value) for (value,) in right))
        step = max(span / LEVELS, rounded.get(name, 0.0))
        for target, allowed in ((written, ROUNDING * span), (None, params.steps * step)):
            agreement = Agreement(
                "the integer model" if target is None else "the model with stored integers",
                "the fake quantization",
                [name],
                Tolerance(allowed, 0.0),
                hint="give inputs like those of training, `inputs: file.py:function`, or allow more `steps`",
            )
            if target is None:
                error = check_result(context, agreement, tries, right)
            else:
                error = check(context, agreement, tries, right, open_model(context.result, [name], target))
            worst = max(worst, error)
    return worst
