"""Canaries of the patches of ONNX Runtime: remove a patch when its test fails."""

from __future__ import annotations

import importlib
import subprocess
import sys

import onnx
import pytest

from orun.stages._graph import compat

CHAIN = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 2] x) => (float[n, 2] y) { a = Sigmoid (x) y = Relu (a) }
"""
UNPATCHED = """
import onnx
from onnxruntime.transformers.fusion_quickgelu import FusionQuickGelu
from onnxruntime.transformers.fusion_rotary_attention import FusionRotaryEmbeddings
from onnxruntime.transformers.onnx_model import OnnxModel
from shape_infer_helper import SymbolicShapeInferenceHelper

head = '<ir_version: 9, opset_import: ["" : 20]> g (float[2] x) => (float[2] y)'
nodes = " ".join(f"v{n + 1} = {'Mul' if n % 2 else 'Add'} (v{n}, x)" for n in range(20))
chain = f"{head} {{ v0 = Relu (x) {nodes} y = Relu (v20) }}"
known = SymbolicShapeInferenceHelper(onnx.parser.parse_model(chain)).dispatcher_
print("ReduceL2" in known, "RMSNormalization" in known)

calls = 0
list_producers = OnnxModel.output_name_to_node

def count(*arguments, **options):
    global calls
    calls += 1
    return list_producers(*arguments, **options)

OnnxModel.output_name_to_node = count
for fusion in (FusionQuickGelu, FusionRotaryEmbeddings):
    calls = 0
    fusion(OnnxModel(onnx.parser.parse_model(chain))).apply()
    print(calls > 9)
"""


def test_onnx_runtime_lacks_shapes_of_operators_and_lists_producers_for_each_node() -> None:
    """In a process of its own, as the patches stay for the life of a process."""
    process = subprocess.run([sys.executable, "-c", UNPATCHED], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == ["False False", "True", "True"]


@pytest.mark.parametrize("package", ["onnxruntime.transformers.", ""])
def test_producers_that_are_gone_are_not_used(package: str) -> None:
    compat.patch_quadratic_scan()
    model = importlib.import_module(f"{package}onnx_model").OnnxModel(onnx.parser.parse_model(CHAIN))
    setattr(model, compat.CACHE, {})
    assert model.output_name_to_node().keys() == {"a", "y"}
    model.model.graph.node[0].output[0] = "b"
    assert model.output_name_to_node().keys() == {"a", "y"}  # it is cached
    model.remove_nodes([])
    assert model.output_name_to_node().keys() == {"b", "y"}
