"""Measure the size of a model, alone and against a reference and the baseline.

`size` is bytes of all files of the model, `parameters` the number of elements in weights and constants, and `nodes` the
number of nodes, including those in functions and nested graphs. Trees, scalers and linear models of `ai.onnx.ml` keep
their parameters in attributes, which count, too. All are exact. The artifact holds `operators.json`, the
number of nodes of each operator in each model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.metrics import LOWER, SIZE, Metric
from orun.stages.contract import Context, Port, Spec

if TYPE_CHECKING:
    from onnx import ModelProto

SPEC = Spec(
    inputs={
        "model": Port(("onnx",), "The model to weigh."),
        "reference": Port(("onnx",), "The model that it is compared with.", optional=True, many=True),
    },
    output="metrics",
    tools=("onnx", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx"),
    baseline=True,
    metrics={"size": SIZE, "parameters": LOWER, "nodes": LOWER},
)


@dataclass(frozen=True)
class Params:
    """No parameters."""


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Measure the models; write their operators."""
    del params
    from orun.measure.metrics.paired import build_exact_metric
    from orun.stages._graph.io import load_graph

    models = {role: load_graph(context.model(role)) for role in context.inputs}
    operators = {role: _count_operators(model) for role, model in models.items()}
    text = json.dumps(operators, indent=2, sort_keys=True)
    (context.output / "operators.json").write_text(text + "\n", "utf-8")
    weights = {role: _weigh(context.inputs[role], model) for role, model in models.items()}
    return {
        name: build_exact_metric(
            {role: figures[name] for role, figures in weights.items()}, "B" if name == "size" else ""
        )
        for name in weights["model"]
    }


def _weigh(folder: Path, model: ModelProto) -> dict[str, float]:
    from orun.stages._graph.io import iter_nodes, measure_files
    from orun.stages._graph.parameters import count_parameters

    return {
        "size": measure_files(folder),
        "parameters": count_parameters(model),
        "nodes": sum(1 for _ in iter_nodes(model)),
    }


def _count_operators(model: ModelProto) -> dict[str, int]:
    from orun.stages._graph.io import iter_nodes

    return dict(Counter(f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in iter_nodes(model)))
