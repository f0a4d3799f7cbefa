"""ONNX models on disk: reading, writing and size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orun.errors import UsageError

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

DATA = "model.onnx.data"  # external data of a model that does not fit into one file
LFS = b"version https://git-lfs.github.com/"
HEAD = 256  # bytes of a file that tell what it is
SHOWN = 40  # letters of a text
CUT = "\ufffd"  # what a letter becomes that the end of these bytes cuts
PROTO_LIMIT = 2**31 - 2**24  # bytes of weights; a protobuf message has at most 2 GiB, and the graph needs some
STORED_FREELY = 4  # IR version; before it, every initializer must be an input
EXTERNAL_FROM = 1024  # bytes; larger tensors go to the external data


def load(path: Path) -> ModelProto:
    """Load a model with all of its weights in memory.

    Raises:
        UsageError: when it is no ONNX model, or its external data is missing or outside its folder.
    """
    import onnx

    model = load_graph(path)
    with _refusing_bad_data(path):
        onnx.load_external_data_for_model(model, str(path.parent))
    return model


def load_graph(path: Path) -> ModelProto:
    """Load a model without its external data, whose locations are checked; raises as `load` does."""
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
        raise _build_no_model_error(path, str(error)) from error
    if not model.HasField("graph"):
        raise _build_no_model_error(path, "it holds no graph")
    with _refusing_bad_data(path):
        locations = list_external_files(model)
    for location in locations:
        _check_location(path, location)
    return model


def _build_no_model_error(path: Path, problem: str) -> UsageError:
    """Return the error for a file that is not an ONNX model, which says what it is as far as its first bytes tell."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    text = "" if b"\0" in head else head.decode(errors="replace").strip()
    why, hint = problem, "export it anew, or copy it again: it may have been cut off"
    if not head:
        why, hint = "it is empty", "export it anew, or copy it again"
    elif text.lower().startswith(("<!doctype html", "<html")):
        why, hint = "it is a web page", "download the file itself, not the page that shows it"
    elif head.startswith(b"PK\x03\x04"):
        why, hint = "it is a zip archive, as PyTorch and Keras write", "name it after its format: .pt2, .pt or .keras"
        if path.suffix in (".pt", ".pt2", ".pth", ".keras"):
            hint = f"uses: convert/{'tensorflow' if path.suffix == '.keras' else 'torch'}"
    elif text and "".join(text.split()).rstrip(CUT).isprintable():
        first = text.splitlines()[0][:SHOWN]
        why, hint = f"it is a text file, which begins with {first!r}", "name a file that an exporter wrote"
    return UsageError(f"{path.name} is not an ONNX model", why=why, hint=hint)


def is_pointer(path: Path) -> bool:
    """Return whether a file is the pointer that Git LFS leaves for a file that was not fetched."""
    with path.open("rb") as file:
        return file.read(len(LFS)) == LFS


@contextmanager
def _refusing_bad_data(path: Path) -> Iterator[None]:
    """Turn errors about locations and lengths of external data into usage errors."""
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
            why=f"location {location!r}; a model may only read files in or below its own folder",
        )
    file = path.parent / named
    if not file.is_file():
        raise UsageError(
            f"{path.name} names external data that is missing",
            why=f"no file {location!r} next to it",
            hint="put the file there under this name: a model that is renamed still names its data as before",
        )
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise UsageError(
            f"{path.name} names external data outside its folder", why=f"{location!r} is a link to {file.resolve()}"
        )
    file.open("rb").close()  # recorded as read, even if reads of native code are not traced


def list_external_files(model: ModelProto) -> tuple[str, ...]:
    """Return the locations of external data as the model has them, each once."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    return tuple(
        dict.fromkeys(ExternalDataInfo(tensor).location for tensor in iter_tensors(model) if uses_external_data(tensor))
    )


def save(model: ModelProto, path: Path, *, external: bool = False) -> None:
    """Write a model that is whole in memory; weights go to `DATA` next to it if `external` or too large.

    The model is changed: tensors written to external data are emptied.
    """
    import onnx

    if not external and sum(map(count_bytes, iter_tensors(model))) < PROTO_LIMIT:
        onnx.save(model, path)
        return
    onnx.save(model, path, save_as_external_data=True, location=DATA, size_threshold=EXTERNAL_FROM)


def count_bytes(tensor: TensorProto) -> int:
    """Return the bytes that the values of a tensor take in the model's file, or slightly more."""
    from onnx import helper

    if not tensor.HasField("raw_data"):  # typed fields have no fixed size
        return int(tensor.ByteSize())
    count: int = math.prod(tensor.dims)
    return count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def store_freely(model: ModelProto) -> None:
    """Raise the IR version, in place, so that initializers need not be inputs.

    Converters and optimizers add initializers without raising the version.
    """
    model.ir_version = max(model.ir_version, STORED_FREELY)


def save_graph(model: ModelProto, source: Path, path: Path) -> None:
    """Write a model that `load_graph` read from `source`, with a copy of its external data next to it."""
    import shutil  # lazy, because it imports compression libraries

    import onnx

    onnx.save(model, path)
    for name in list_external_files(model):
        target = path.parent / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.parent / name, target)


def iter_graphs(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """Yield the model's graph, its functions, and every graph inside a node."""
    pending: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while pending:
        graph = pending.pop(0)
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                pending.extend(attribute.graphs)
                if attribute.HasField("g"):
                    pending.append(attribute.g)


def iter_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yield every node, those inside functions and nested graphs included."""
    for graph in iter_graphs(model):
        yield from graph.node


def iter_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor that is stored in the model: initializers and attributes."""
    from onnx import GraphProto

    for graph in iter_graphs(model):
        if isinstance(graph, GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t


def measure_files(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def weigh(path: Path) -> dict[str, float]:
    """Return the metrics `size` (bytes of the artifact's folder) and `nodes` of the model."""
    return {
        "size": measure_files(path.parent),
        "nodes": sum(1 for _ in iter_nodes(load_graph(path))),
    }


def list_input_names(model: ModelProto) -> tuple[str, ...]:
    """Return the names of a model's inputs without weights, which are inputs too before IR version 4."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return tuple(value.name for value in model.graph.input if value.name not in stored)
