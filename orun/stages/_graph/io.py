"""ONNX models on disk: read, written the same way every time, and what they weigh."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orun.core.metrics import Metric
from orun.errors import UsageError

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

DATA = "model.onnx.data"  # external data of a model that does not fit into one file
LFS = b"version https://git-lfs.github.com/"
PROTO_LIMIT = 2**31 - 2**24  # bytes of weights that one protobuf message (2 GiB at most) holds beside its graph
STORED_FREELY = 4  # IR version from which a stored tensor need not be an input
EXTERNAL_FROM = 1024  # bytes from which a tensor goes to the external data


def load(path: Path) -> ModelProto:
    """The model with all of its weights in memory.

    Raises:
        UsageError: when it is no ONNX model, or names external data outside its own folder or that is not there.
    """
    import onnx

    model = load_graph(path)
    with _told(path):
        onnx.load_external_data_for_model(model, str(path.parent))
    return model


def load_graph(path: Path) -> ModelProto:
    """The model without its external data, whose locations are checked; raises as `load` does."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if path.is_dir():
        inside = sorted(file.name for file in path.glob("*.onnx"))
        raise UsageError(f"{path.name} is a folder, not an ONNX model", why=f"it holds {', '.join(inside) or 'none'}")
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        if is_pointer(path):
            raise UsageError(
                f"{path.name} is not an ONNX model", why="it is a pointer of Git LFS", hint="git lfs pull"
            ) from None
        raise UsageError(f"{path.name} is not an ONNX model", why=str(error)) from error
    if not model.HasField("graph"):
        raise UsageError(f"{path.name} is not an ONNX model", why="it holds no graph")
    with _told(path):
        locations = external_files(model)
    for location in locations:
        _check_location(path, location)
    return model


def is_pointer(path: Path) -> bool:
    """Whether a file is what Git LFS leaves in place of one that was not fetched."""
    with path.open("rb") as file:
        return file.read(len(LFS)) == LFS


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell of places and lengths of external data that make no sense."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{path.name} names external data that cannot be read", why=str(error)) from error


def _check_location(path: Path, location: str) -> None:
    named = PurePosixPath(location.replace("\\", "/"))
    if not named.parts:
        raise UsageError(f"{path.name} names external data without a file", why=f"location {location!r}")
    if named.is_absolute() or ":" in named.parts[0] or ".." in named.parts:
        raise UsageError(
            f"{path.name} names external data outside its folder",
            why=f"location {location!r}; a model may only read files beside or below it",
        )
    file = path.parent / named
    if not file.is_file():
        raise UsageError(f"{path.name} names external data that is not there", why=f"no file {location!r} beside it")
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise UsageError(
            f"{path.name} names external data outside its folder", why=f"{location!r} is a link to {file.resolve()}"
        )
    file.open("rb").close()  # seen to be read, also where the system does not tell of what native code opens


def external_files(model: ModelProto) -> tuple[str, ...]:
    """Locations of external data that the model names, each once, as it names them."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    return tuple(
        dict.fromkeys(ExternalDataInfo(tensor).location for tensor in tensors(model) if uses_external_data(tensor))
    )


def save(model: ModelProto, path: Path, *, external: bool = False) -> None:
    """Write a model that is whole in memory; its weights go to `DATA` beside it when asked for or too many.

    The model is changed: tensors that were written beside it are emptied.
    """
    import onnx

    if not external and sum(map(held, tensors(model))) < PROTO_LIMIT:
        onnx.save(model, path)
        return
    onnx.save(model, path, save_as_external_data=True, location=DATA, size_threshold=EXTERNAL_FROM)


def held(tensor: TensorProto) -> int:
    """Bytes that the values of a tensor take in its model's file, or somewhat more."""
    from onnx import helper

    if not tensor.HasField("raw_data"):  # typed fields have no fixed size
        return int(tensor.ByteSize())  # writes the tensor to see how long it gets
    count: int = math.prod(tensor.dims)
    return count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def store_freely(model: ModelProto) -> None:
    """Let a model store tensors that are none of its inputs, which IR versions before 4 do not; in place.

    Converters and optimizers add such tensors and leave the version as it was.
    """
    model.ir_version = max(model.ir_version, STORED_FREELY)


def save_graph(model: ModelProto, source: Path, path: Path) -> None:
    """Write a model that was read from `source` by `load_graph`, with a copy of its external data beside it."""
    import shutil  # brings libraries for compression into every process that imports this module

    import onnx

    onnx.save(model, path)
    for name in external_files(model):
        target = path.parent / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.parent / name, target)


def graphs(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """The model's graph, its functions, and every graph inside a node."""
    pending: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while pending:
        graph = pending.pop(0)
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                pending.extend(attribute.graphs)
                if attribute.HasField("g"):
                    pending.append(attribute.g)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node, those inside functions and nested graphs included."""
    for graph in graphs(model):
        yield from graph.node


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that is stored in the model: initializers and attributes."""
    from onnx import GraphProto

    for graph in graphs(model):
        if isinstance(graph, GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t


def weigh(path: Path) -> dict[str, Metric]:
    """`size` in bytes of the artifact's folder, and `nodes` of its model."""
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    return {
        "size": Metric(sum(file.stat().st_size for file in files), "B", "lower"),
        "nodes": Metric(sum(1 for _ in nodes(load_graph(path))), better="lower"),
    }


def input_names(model: ModelProto) -> tuple[str, ...]:
    """Names of what a model takes; models of old have their weights among the inputs too."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return tuple(value.name for value in model.graph.input if value.name not in stored)
