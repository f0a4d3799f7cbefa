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


COUNT = """
import onnx
from onnxruntime.transformers.fusion_quickgelu import FusionQuickGelu
from onnxruntime.transformers.fusion_rotary_attention import FusionRotaryEmbeddings
from onnxruntime.transformers.onnx_model import OnnxModel

calls = 0
list_producers = OnnxModel.output_name_to_node

def count(*arguments, **options):
    global calls
    calls += 1
    return list_producers(*arguments, **options)

OnnxModel.output_name_to_node = count
for fusion in (FusionQuickGelu, FusionRotaryEmbeddings):
    calls = 0
    nodes = " ".join(f"v{n + 1} = {'Mul' if n % 2 else 'Add'} (v{n}, x)" for n in range(20))
    head = '<ir_version: 9, opset_import: ["" : 20]> g (float[2] x) => (float[2] y)'
    text = f"{head} {{ v0 = Relu (x) {nodes} y = Relu (v20) }}"
    fusion(OnnxModel(onnx.parser.parse_model(text))).apply()
    print(calls > 9)
"""


UNPATCHED = """
import onnx
import onnxruntime.transformers.onnx_model
from shape_infer_helper import SymbolicShapeInferenceHelper

head = '<ir_version: 9, opset_import: ["" : 20]>'
model = onnx.parser.parse_model(head + "g (float[2] x) => (float[2] y) { y = Relu (x) }")
known = SymbolicShapeInferenceHelper(model).dispatcher_
print("ReduceL2" in known, "RMSNormalization" in known)
"""


def test_shape_inference_lacks_operators() -> None:
    """Run in another process, because the patch stays for the life of a process."""
    done = subprocess.run([sys.executable, "-c", UNPATCHED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_each_fusion_lists_the_producers_for_each_node() -> None:
    """In a process of its own, as the patch stays for the life of a process."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


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
