"""What kinds that take code are given: the model of `benchmarks/big.py` in PyTorch, and a change of nothing."""

from __future__ import annotations

from onnx import ModelProto
from torch import nn

LAYERS, WIDTH = 33, 4096


def wide() -> nn.Module:
    """As many and as wide layers as `pipelines/big.py` has."""
    layers = [module for _ in range(LAYERS) for module in (nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


def unchanged(model: ModelProto) -> ModelProto:
    """The model as it is, under a name of its own."""
    model.graph.name = "renamed"
    return model
