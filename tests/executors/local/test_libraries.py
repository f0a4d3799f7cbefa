"""The real libraries work after a fork from a server that has imported them, several times and at once."""

from __future__ import annotations

import pytest

from orun.executors import JobResult, LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, outcomes

CODE = """
import numpy as np

def multiply(context):
    return {"x": (np.ones((400, 400)) @ np.ones((400, 400)))[0, 0]}

def model():
    import onnx
    from onnx import helper, numpy_helper, TensorProto
    shape = [64, 256]
    weights = np.random.default_rng(0).random((256, 256), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Identity", ["a"], ["b"]),
             helper.make_node("Relu", ["b"], ["y"])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

def infer(context):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).random((64, 256), np.float32)
    for _ in range(20):
        y, = session.run(None, {"x": x})
    weights = np.random.default_rng(0).random((256, 256), np.float32)
    return {"x": np.abs(y - np.maximum(x @ weights, 0)).max()}

def simplify(context):
    import onnxsim
    simplified, good = onnxsim.simplify(model())
    assert good
    return {"x": len(simplified.graph.node)}

def export(context):
    import torch
    layer = torch.nn.Linear(8, 4)
    x = torch.ones(2, 8)
    torch.onnx.export(layer, (x,), context.output / "model.onnx", dynamo=False, input_names=["x"], output_names=["y"])
    # Enough work for the threads of both of its pools.
    big = torch.ones(600, 600)
    return {"x": float((big @ big)[0, 0])}
"""


RUNTIME = ("numpy", "onnx", "onnxruntime")
SPECS = {
    "multiply": Spec(output="metrics"),
    "infer": Spec(output="metrics", preload=RUNTIME),
    "simplify": Spec(output="metrics", preload=(*RUNTIME, "onnxsim")),
    "export": Spec(output="onnx", preload=("torch",)),
}
MEASURED = {"multiply": 400.0, "infer": 0.0, "simplify": 2.0, "export": 600.0}


@pytest.mark.parametrize("names", [("multiply", "infer"), pytest.param(tuple(SPECS), marks=pytest.mark.slow)])
def test_libraries_work_in_stages_that_share_their_import(
    own_executor: LocalExecutor, project: Project, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")  # it is their threads that a fork could harm
    project.write("pipelines/mine.py", CODE)
    jobs = [
        project.job(f"mine.py:{name}", spec=SPECS[name], stage=f"{name} {number}")
        for name in names
        for number in range(2)
    ]
    for job in jobs:
        own_executor.start(job)
    results = outcomes(own_executor, len(jobs))
    measured = {
        stage: outcome.metrics["x"].value for stage, outcome in results.items() if isinstance(outcome, JobResult)
    }
    assert measured == {job.stage: pytest.approx(MEASURED[job.stage.split()[0]], abs=1e-4) for job in jobs}, results
