"""Models whose weights stay on disk, so that several can be copied, cut and joined without holding the weights."""

from __future__ import annotations

import itertools
from pathlib import Path

from onnx import ModelProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor, set_external_data, uses_external_data

from orun.stages._graph.io import EXTERNAL_FROM, iter_tensors, load_graph

PAGE = 4096  # offset of a weight is a multiple, so that ONNX Runtime can map it


def load_on_disk(path: Path, name: str) -> ModelProto:
    """Load a model with its large initializers in a file of the working folder; at most one is in memory at a time.

    Tensors may be moved between models that were loaded so, because they name the file that holds them. To save such a
    model, read its weights back: `onnx.load_external_data_for_model(model, ".")`.

    Raises:
        UsageError: as `io.load` does.
    """
    model, base = load_graph(path), str(path.parent)
    for tensor in itertools.islice(iter_tensors(model), len(model.graph.initializer), None):  # inside of nodes
        _load(tensor, base)
    with Path(name).open("wb") as data:
        for tensor in model.graph.initializer:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            _load(copy, base)
            if len(copy.raw_data) >= EXTERNAL_FROM:
                offset = data.seek(-(-data.tell() // PAGE) * PAGE)
                set_external_data(copy, name, offset, data.write(copy.raw_data))
                copy.ClearField("raw_data")
            tensor.CopyFrom(copy)
    light = ModelProto()
    light.CopyFrom(model)  # protobuf frees the memory of removed fields only with the message
    return light


def _load(tensor: TensorProto, base: str) -> None:
    if uses_external_data(tensor):
        load_external_data_for_tensor(tensor, base)
        tensor.data_location = TensorProto.DEFAULT  # onnx 1.20 leaves both as they were
        del tensor.external_data[:]
