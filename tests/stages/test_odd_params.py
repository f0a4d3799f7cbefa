"""Empty, negative and unknown values of parameters are refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from orun.errors import OrunError
from orun.stages._graph.io import load_graph
from tests.stages.models import WORDY, parse
from tests.stages.support import artifact, run_stage

NATIVE = """
<ir_version: 10, opset_import: ["" : 23]>
native (float[1, 2, 4, 8] q) => (float[1, 2, 4, 8] y)
{
  y = Attention (q, q, q)
}
"""
EXAMPLES = """
import numpy as np
import orun

def rows():
    return orun.Dataset({"x": np.eye(4, dtype=np.float32)})

def first(outputs, dataset):
    return 1.0
"""
UNNAMED = "the model has no ''\n  it has none with a name"
NO_OPTIMIZER = (
    f"skip: ONNX Runtime {onnxruntime.__version__} has no optimizer '{{}}'\n  hint: with `log_severity_level: 1` in a "
    "target's `session` the log names the optimizers that change the model"
)
OF_NO_USE = (
    "`dims` has no effect with `inputs`\n  its examples have their own sizes\n"
    "  hint: leave one of them out: without `inputs` inputs are made up with these sizes"
)
NO_TYPES = "`op_types` is empty\n  hint: name the types to quantize, or leave it out for all types"


TUNE = {"dataset": "examples.py:rows", "metric": "cosine.min", "at_least": 0.9}


@pytest.mark.parametrize(
    ("uses", "params", "message"),
    [
        (
            "optimize/simplify",
            {"dims": {"n": []}},
            "the dynamic axis 'n' has no size\n  sizes are whole numbers from 0 on",
        ),
        (
            "optimize/simplify",
            {"dims": {"n": [3, -1]}},
            "the dynamic axis 'n' cannot be -1\n  sizes are whole numbers from 0 on",
        ),
        (
            "measure/startup",
            {"shape": {"n": -1}},
            "the dynamic axis 'n' cannot be -1\n  sizes are whole numbers from 0 on",
        ),
        ("optimize/simplify", {"dims": {"n": [1]}, "inputs": "data.py:some"}, OF_NO_USE),
        (
            "quantize/debug",
            {"dims": {"n": [1]}, "dataset": "data.py:some"},
            OF_NO_USE.replace("`inputs`", "`dataset`"),
        ),
        (
            "measure/accuracy",
            {"dims": {"n": [1]}, "dataset": "data.py:some", "metrics": ["cosine"]},
            OF_NO_USE.replace("`inputs`", "`dataset`"),
        ),
        (
            "measure/accuracy",
            {"metrics": []},
            "`metrics` is empty\n  hint: name metrics: orun stages measure/accuracy",
        ),
        (
            "measure/accuracy",
            {"dataset": "examples.py:rows", "metrics": ["examples.py:first"], "reference_target": "gpu"},
            (
                "`reference_target` is set, but no reference is connected\n"
                "  hint: connect one: needs: {model: ..., reference: ...}; or leave `reference_target` out"
            ),
        ),
        ("optimize/shapes", {"fix": {"n": -1}}, "fix: the axis 'n' cannot be -1"),
        (
            "optimize/graph",
            {"skip": ["ConstantFolding", "ConstantFoulding"]},
            NO_OPTIMIZER.format("ConstantFoulding"),
        ),
        ("optimize/graph", {"skip": [""]}, NO_OPTIMIZER.format("")),
        ("optimize/float16", {"block_nodes": [""]}, f"block_nodes: {UNNAMED}"),
        ("quantize/static", {"exclude": [""], "preprocess": False}, f"exclude: {UNNAMED}"),
        ("quantize/static", {"op_types": []}, NO_TYPES),
        ("quantize/weights", {"dims": {"n": [1]}, "inputs": "data.py:some", "block_size": 16}, OF_NO_USE),
        ("quantize/dynamic", {"op_types": []}, NO_TYPES),
        ("quantize/weights", {"dataset": "data.py:none"}, "`dataset` needs `algorithm: gptq`, not rtn"),
        ("quantize/weights", {"samples": 8}, "`samples` needs `algorithm: gptq`, not rtn"),
        ("quantize/static", {"percentile": 99.0}, "`percentile` needs `method: percentile`, not minmax"),
        (
            "quantize/static",
            {"moving_average": True, "method": "entropy"},
            "`moving_average` needs `method: minmax`, not entropy",
        ),
        (
            "check/model",
            {"min_opset": 21, "max_opset": 20},
            "no model can pass: `min_opset` is 21, and `max_opset` 20\n  hint: leave one of them out",
        ),
        (
            "compile/mobile",
            {"optimization": "runtime", "platform": "amd64"},
            (
                "`platform: amd64` needs `optimization: fixed`\n"
                "  layouts for x86-64 processors can be saved only if the graph is optimized now"
            ),
        ),
        (
            "quantize/tune",
            {**TUNE, "metric": "cosin.min"},
            (
                "metric: a search cannot judge by 'cosin.min'\n"
                "  it judges by cosine, cosine.mean, cosine.min, max_abs, relative, sqnr, agreement, agreement_at_5, "
                "kl, kl.max, accuracy, accuracy_at_5, precision, recall, f1, iou, auc, average_precision, brier, "
                "log_loss, ece, mae, rmse, r2, ndcg, ndcg_at_10, recall_at_1, recall_at_5, recall_at_10, mrr"
            ),
        ),
        (
            "quantize/tune",
            {**TUNE, "metric": "max_abs"},
            "max_abs is better when it is lower\n  hint: say `at_most`",
        ),
        (
            "quantize/tune",
            {**TUNE, "at_least": None, "at_most": 0.5},
            "cosine.min is better when it is higher\n  hint: say `at_least`",
        ),
        (
            "quantize/tune",
            {**TUNE, "objective": "size", "batch": 4},
            "`batch` is for timing, and with `objective: size` nothing is timed",
        ),
        (
            "quantize/tune",
            {**TUNE, "objective": "size", "shape": {"n": 4}},
            "`shape` is for timing, and with `objective: size` nothing is timed",
        ),
        (
            "quantize/tune",
            {**TUNE, "calibration": "examples.py:no"},
            "no function 'no' in examples.py\n  it defines: first, rows",
        ),
        (
            "quantize/tune",
            {**TUNE, "metric": "accuracy"},
            (
                "accuracy needs labels, and the dataset examples.py:rows has none\n  it has x\n"
                "  hint: return them: orun.Dataset(inputs, labels)"
            ),
        ),
    ],
)
def test_what_would_be_ignored_or_end_in_an_error_of_a_library(
    tmp_path: Path, uses: str, params: Mapping[str, Any], message: str
) -> None:
    ports = {"model": artifact(tmp_path, parse(WORDY))}
    if uses in ("quantize/debug", "measure/accuracy") and "reference_target" not in params:
        ports["reference"] = artifact(tmp_path, parse(WORDY))
    (tmp_path / "examples.py").write_text(EXAMPLES)
    with pytest.raises(OrunError) as caught:
        run_stage(uses, tmp_path, params, inputs=ports)
    assert str(caught.value) == message


def test_the_standards_attention_alone_is_not_taken_for_all_types(tmp_path: Path) -> None:
    with pytest.raises(OrunError) as caught:
        run_stage(
            "quantize/dynamic",
            tmp_path,
            {"op_types": ["Attention"]},
            inputs={"model": artifact(tmp_path, parse(NATIVE))},
        )
    assert str(caught.value) == (
        "nothing in the model could be quantized\n"
        "  its Attention is the standard's own, for which ONNX Runtime has no integers\n"
        "  hint: name other `op_types`, such as MatMul"
    )


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        ([], ["FusedMatMul"]),
        (["MatMulAddFusion", "LayerNormFusion", "Level1_RuleBasedTransformer"], ["Identity", "FusedMatMul"]),
    ],
)
def test_optimizers_by_their_names(tmp_path: Path, names: list[str], nodes: list[str]) -> None:
    """A name may be the end of a longer string in the library; names with a level are not in the library."""
    run = run_stage("optimize/graph", tmp_path, {"skip": names}, inputs={"model": artifact(tmp_path, parse(WORDY))})
    assert [node.op_type for node in load_graph(run.model).graph.node] == nodes
