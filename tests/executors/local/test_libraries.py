"""The real libraries work after a fork from a server that has imported them, several times and at once."""

from __future__ import annotations

import pytest

from orun.executors import JobResult, LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, outcomes

CODE = """
import os
import numpy as np

def multiply(context):
    rng = np.random.default_rng(0)
    left, right = rng.random((400, 400)), rng.random((400, 400))
    (context.output / "sum.txt").write_text(f"{(left @ right).sum():.6f}")
    return {"threads": len(os.listdir("/proc/self/task"))}

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
    return {"error": np.abs(y - np.maximum(x @ weights, 0)).max()}

def simplify(context):
    import onnxsim
    simplified, good = onnxsim.simplify(model())
    assert good
    return {"nodes": len(simplified.graph.node)}

def export(context):
    import torch
    layer = torch.nn.Linear(8, 4)
    x = torch.ones(2, 8)
    torch.onnx.export(layer, (x,), context.output / "model.onnx", dynamo=False, input_names=["x"], output_names=["y"])
    # Enough work for the threads of both of its pools.
    big = torch.ones(600, 600)
    return {"sum": float((big @ big)[0, 0]), "threads": torch.get_num_threads()}
"""


def test_every_library_works_in_stages_that_share_its_import(
    executor: LocalExecutor, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")  # it is their threads that a fork could harm
    project.write("pipelines/mine.py", CODE)
    runtime = ("numpy", "onnx", "onnxruntime")
    specs = {
        "multiply": Spec(output="metrics"),
        "infer": Spec(output="metrics", preload=runtime),
        "simplify": Spec(output="metrics", preload=(*runtime, "onnxsim")),
        "export": Spec(output="onnx", preload=("torch",)),
    }
    jobs = {
        f"{name}{n}": project.job(f"mine.py:{name}", spec=spec, stage=f"{name}{n}")
        for name, spec in specs.items()
        for n in range(2)
    }
    for job in jobs.values():
        executor.start(job)
    found = outcomes(executor, len(jobs))
    results = {name: value for name, value in found.items() if isinstance(value, JobResult)}
    assert results.keys() == jobs.keys(), found
    assert results["infer0"].metrics["error"].value < 1e-4
    assert results["infer1"].metrics["error"].value < 1e-4
    assert results["simplify0"].metrics["nodes"].value == results["simplify1"].metrics["nodes"].value == 2
    assert results["export0"].metrics["sum"].value == 600
