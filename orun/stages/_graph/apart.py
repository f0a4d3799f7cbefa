"""Models whose weights stay on disk, so that several can be copied, cut and put together without holding them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from orun.stages._graph.io import EXTERNAL_FROM, load_graph, tensors

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

PAGE = 4096  # weights begin at multiples of it, so that ONNX Runtime can map them


def load_apart(path: Path, name: str) -> ModelProto:
    """The model, its large initializers in a file of the working folder; one at a time is in memory meanwhile.

    Tensors of models that were loaded so may go from one into another: they name the file that holds them.

    Args:
        path: of the model; its external data lies beside it.
        name: of the file.

    Raises:
        UsageError: as `io.load` does.
    """
    from onnx import ModelProto, TensorProto
    from onnx.external_data_helper import set_external_data

    model, base = load_graph(path), str(path.parent)
    for tensor in itertools.islice(tensors(model), len(model.graph.initializer), None):  # inside of nodes
        _load(tensor, base)
    with Path(name).open("wb") as data:
        for tensor in model.graph.initializer:
            whole = TensorProto()
            whole.CopyFrom(tensor)
            _load(whole, base)
            if len(whole.raw_data) >= EXTERNAL_FROM:
                offset = data.seek(-(-data.tell() // PAGE) * PAGE)
                set_external_data(whole, name, offset, data.write(whole.raw_data))
                whole.ClearField("raw_data")
            tensor.CopyFrom(whole)
    light = ModelProto()
    light.CopyFrom(model)  # what a message once held takes memory for as long as it lives
    return light


def _load(tensor: TensorProto, base: str) -> None:
    """Take the data of a tensor into it that lies in a file of this folder."""
    from onnx import TensorProto
    from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

    if uses_external_data(tensor):
        load_external_data_for_tensor(tensor, base)
        tensor.data_location = TensorProto.DEFAULT  # onnx 1.20 leaves both as they were
        del tensor.external_data[:]


def load_whole(model: ModelProto) -> None:
    """Take the weights of a model that was made of ones loaded apart back into it, so that it can be saved to stay."""
    import onnx

    onnx.load_external_data_for_model(model, ".")
