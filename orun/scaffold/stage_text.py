"""Template of a custom stage."""

from __future__ import annotations

TEMPLATE = '''"""A custom stage. Try it on a tiny model: orun test ./{file}:{function}"""

from typing import Annotated

import orun


# The decorator is read without running this file, so its arguments are literals.
#   inputs         the ports and what each takes; onnx, files, dataset, metrics, engine or bundle
#   output         what the stage leaves in context.output: one of the same
#   interface      "same": an onnx output keeps the inputs and outputs of its input model
#   tools          packages whose versions decide whether a stored result still holds
#   metrics        the names of the metrics, so that a gate on another is an error at once
#   deterministic  False if equal inputs may yield other bytes
@orun.stage(inputs={{"model": "onnx"}}, output="onnx", interface="same", tools=["onnx"], metrics=["nodes", "weights"])
def {function}(
    context: orun.Context,
    *,
    smallest: Annotated[int, orun.Doc("Leave out weights with fewer values."), orun.Range(0)] = 1,
) -> dict[str, orun.Metric]:
    """Pass the model on and count its nodes and weights."""
    import math

    import onnx  # heavy imports belong inside the function

    model = onnx.load(context.model())  # context.inputs["PORT"] is the folder of any other input
    weights = [tensor for tensor in model.graph.initializer if math.prod(tensor.dims) >= smallest]
    context.log.info("%s weights", len(weights))  # goes to the stage's log
    onnx.save(model, context.result)  # context.output is the folder of any other output
    return {{
        # unit: "s", "B", "J", "ratio", "x", "1/s" or "" (a number); better: "lower", "higher" or "neither"
        "nodes": orun.Metric(len(model.graph.node), better="lower"),
        "weights": orun.Metric(sum(tensor.ByteSize() for tensor in weights), unit="B", better="lower"),
    }}
'''


def format_stage(file: str, function: str) -> str:
    """Return the text of a Python file with a custom stage."""
    return TEMPLATE.format(file=file, function=function)
