"""Make an integer model of one that was trained with fake quantization: its weights become stored integers.

Such a model rounds its weights and activations while it is trained, and holds pairs of QuantizeLinear and
DequantizeLinear for it, whose scales training has found: no calibration is needed. `convert/torch` makes these pairs
of PyTorch's FakeQuantize modules with `exporter: torchscript` (PyTorch 2.13's new exporter refuses them, and neither
knows the fused variant, FusedMovingAvgObsFakeQuantize); a model of any other origin that has them will do.

What is checked: every pair is one that a runtime can turn into integers; the model without its float weights computes
what the fake quantization computes (within rounding of float32, on a session that does not touch the pairs); and run
in integers, no output is further from it than `steps` of the 255 steps into which 8 bits divide the output's range.
`in_float` counts the products that ONNX Runtime still runs in float on a CPU: those with an input that is not
quantized, or whose own output, after its activation, is not. The log names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.metrics import Metric
from orun.stages.agreement import Dims, Inputs
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto

LEVELS = 255  # steps of 8 bits
ROUNDING = 1e-5  # of float32, as a part of the output's range


@dataclass(frozen=True)
class Params:
    """How far the integer model may be from the one that was trained, and on which inputs."""

    steps: Annotated[
        float, Doc("Most steps, of the 255 of an output's range, that integers may be off the fake quantization."),
        Range(0),
    ] = 2.0  # fmt: skip
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None


SPEC = Spec(
    inputs={"model": Port(("onnx",), "A model with fake quantization.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics=("size", "nodes", "quantized", "in_float", "max_abs_error"),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the integer model to `context.result`."""
    from orun.stages.domains import tidy_domains
    from orun.stages.fake_quantize import PAIR_OPTIMIZERS, check_pairs, in_float
    from orun.stages.integers import require_integers
    from orun.stages.onnx_io import save, weigh
    from orun.stages.ort_graph import IN_THE_WAY, optimized

    # ONNX Runtime folds constants, a weight that is quantized into its integers, and drops a pair that repeats another.
    model = optimized(context.model(), "basic", (*IN_THE_WAY, *PAIR_OPTIMIZERS))
    check_pairs(context, model)
    quantized = require_integers(context, model, "no weight of more than one axis goes through a QuantizeLinear")
    tidy_domains(model)
    save(model, context.result)
    left = in_float(optimized(context.result, "extended"))
    if left:
        text = "%d products run in float, as an input or what comes out is not quantized:\n  %s"
        context.log.warning(text, len(left), "\n  ".join(left))
    return {
        **weigh(context.result),
        "quantized": Metric(quantized, better="higher"),
        "in_float": Metric(len(left), better="lower"),
        "max_abs_error": _compare(context, params, model),
    }


def _compare(context: Context, params: Params, model: ModelProto) -> Metric:
    """Compare the result with the model that was trained, as it is written and as it runs; the latter's error."""
    import numpy as np

    from orun.stages.agreement import Agreement, Tolerance, Trial, answers, check, session, tries_for
    from orun.targets import Target

    written = Target("cpu", session={"graph_optimization_level": "disable"})
    names = [output.name for output in model.graph.output]
    tries = tries_for(context, model, Trial(params.dims, params.inputs))
    expected = answers(context, "the model before it", session(context.model(), names, written), tries)
    worst = 0.0
    for place, name in enumerate(names):
        right = [[values[place]] for values in expected]
        span = float(max(np.ptp(one) for (one,) in right))
        for target, steps in ((written, ROUNDING * LEVELS), (None, params.steps)):
            agreement = Agreement(
                "the integer model" if target is None else "the model with stored integers",
                "the fake quantization",
                [name],
                Tolerance(steps * span / LEVELS, 0.0),
                hint="give inputs like those of training, `inputs: file.py:function`, or allow more `steps`",
            )
            found = check(context, agreement, tries, right, session(context.result, [name], target))
            worst = max(worst, found.value)
    return Metric(worst, better="lower")
