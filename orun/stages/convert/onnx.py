"""Import an existing ONNX model with its external data, from a file or from the web.

The model is read and written anew, so that the result holds everything it needs:

- External data must lie in the model's folder; it is gathered into one file.
- Weights that are also inputs, as before IR version 4, are weights alone: runtimes do not optimize them otherwise.
- Nodes are sorted, and nodes of equal names renamed. A graph without a name gets one, and outputs without a shape get
  the inferred one. Sparse weights are stored in full.

For a download the pipeline must name the SHA-256 of the model, and of each file of external data, which is looked for
next to the model's address.

Stages that make up inputs try several sizes of each named dynamic axis. `axes` renames axes and declares formulas, such
as `past + sequence` for the mask of a decoder. `inputs` declares the values of inputs and `dims` the sizes of axes. The
model carries them as its input domain; a domain in the file is kept where these declare nothing. Sizes that the
graph asks for need no declaration: the channels of its weights, and lengths that its kernels fit in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import LOWER, SIZE
from orun.stages._graph.input_domain import DeclaredInputs
from orun.stages.common_parameters import Dims
from orun.stages.contract import Context, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, FilePath
from orun.text.counts import count

if TYPE_CHECKING:
    from onnx import ModelProto

GRAPH = "graph"  # name of a graph that has none, which the ONNX checker refuses


@dataclass(frozen=True)
class Params:
    """Parameters of `convert/onnx`."""

    path: Annotated[FilePath | None, Doc("The model's .onnx file.")] = None
    url: Annotated[str | None, Doc("Instead of `path`: the http or https address of the model.")] = None
    digest: Annotated[str | None, Doc("SHA-256 of the .onnx file, in hexadecimal; required with `url`.")] = None
    data: Annotated[
        dict[str, str],
        Doc("SHA-256 of files of external data, by their names in the model; with `url` all are required."),
    ] = field(default_factory=dict)
    axes: Annotated[
        dict[str, str],
        Doc(
            "New names of dynamic axes, by old name, or by input and place (`mask.1`): "
            "`{total_length: past_length + length}`."
        ),
    ] = field(default_factory=dict)
    inputs: DeclaredInputs = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)


SPEC = Spec(
    output="onnx",
    tools=("onnx",),
    extra="cpu",
    interface="changed",
    one_of=("path", "url"),
    preload=("onnx",),
    metrics={"size": SIZE, "nodes": LOWER},
)


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the model to `context.result`."""
    from orun.stages._graph.io import list_external_files, load, load_graph, save, weigh
    from orun.stages._graph.nodes import sort_nodes
    from orun.stages._graph.plain import complete_outputs, fill, part_weights, tell_apart

    path = _download(context, params) if params.path is None else context.root / params.path
    if params.path is not None and params.digest is not None:
        _check_digest(context, path, params.digest)
    named = list_external_files(load_graph(path))
    require_known("data", params.data, named)
    model = load(path)
    if params.path is not None:  # files of a download have been checked on the way
        for name, digest in params.data.items():
            _check_digest(context, path.parent / name, digest)
    if parted := part_weights(model):
        context.log.info("%s: no longer an input too, as before IR version 4", count(parted, "weight"))
    if filled := fill(model):
        context.log.info("%s: stored in full, as other tools read them", count(filled, "sparse weight"))
    if renamed := tell_apart(model):
        context.log.info("%s: renamed, because ONNX Runtime takes no two of one name", count(renamed, "node"))
    model.graph.name = model.graph.name or GRAPH
    _require_shapes(context, model)
    light = load_graph(path)
    with suppress(CycleError):  # the checker names its nodes
        sort_nodes(model.graph)
        sort_nodes(light.graph)
    complete_outputs(model, light)
    _name_axes(context, model, params.axes)
    _declare(model, params)
    save(model, context.result, external=bool(named))
    return weigh(context.result)


def _require_shapes(context: Context, model: ModelProto) -> None:
    """Refuse inputs without a shape, for which no values can be made up."""
    for value in model.graph.input:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            raise context.failed(
                f"input {value.name!r} of the model has no shape",
                hint="write one into the file, with names for dynamic axes: onnx.helper.make_tensor_value_info",
            )


def _name_axes(context: Context, model: ModelProto, names: Mapping[str, str]) -> None:
    """Rename dynamic axes, in formulas of other axes as well."""
    from orun.core.dynamic_axes import rename
    from orun.stages._graph.signature import name_axes

    inputs = {value.name: name_axes(value) for value in model.graph.input}
    require_known("axes", names, [name for axes in inputs.values() for name in axes if isinstance(name, str)])
    if "" in names.values():
        raise context.failed("axes: a name is empty", hint="give one, or a sum such as `past + sequence`")
    for value in (*model.graph.input, *model.graph.output):
        axes = zip(value.type.tensor_type.shape.dim, name_axes(value), strict=True)
        for axis, name in axes:
            if isinstance(name, str) and rename(name, names) != name:
                axis.dim_param = rename(name, names)
    if names:
        del model.graph.value_info[:]  # it has the old names


def _declare(model: ModelProto, params: Params) -> None:
    """Add the declared domain, and sizes that the graph asks for, to the one in the file; refuse an impossible one."""
    from orun.core.dynamic_axes import rename
    from orun.stages._graph.feeds import assign_sizes
    from orun.stages._graph.implied_sizes import find_implied_sizes
    from orun.stages._graph.input_domain import InputDomain, read_domain, to_input_values, write_domain
    from orun.stages._graph.io import list_input_names
    from orun.stages._graph.signature import build_inputs, find_sizes

    carried = read_domain(model)
    require_known("inputs", params.inputs, list_input_names(model))
    sizes = {axis: tuple(values) for axis, values in params.dims.items()}
    carried_sizes = {rename(axis, params.axes): values for axis, values in carried.sizes.items()}
    domain = InputDomain(
        {**carried.inputs, **to_input_values(params.inputs)}, {**find_implied_sizes(model), **carried_sizes, **sizes}
    )
    write_domain(model, domain)
    if domain != InputDomain():
        assign_sizes(build_inputs(model), {**find_sizes(model), **sizes})


def _download(context: Context, params: Params) -> Path:
    """Download the model and its external data into the working folder; return the model's path."""
    from urllib.parse import urljoin, urlsplit

    from orun.stages.download import download

    url = str(params.url)
    if params.digest is None:
        raise context.failed(
            f"{url} has no `digest`",
            why="what lies there can change, and then the result would",
            hint="write its SHA-256 into the pipeline: sha256sum FILE",
        )
    for name in params.data:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise context.failed(f"data: {name!r} lies outside the folder of the model")
    path = Path("fetched", PurePosixPath(urlsplit(url).path).name or "model.onnx")
    download(url, path, params.digest, context.progress)
    for name, digest in params.data.items():
        download(urljoin(url, name), path.parent / name, digest, context.progress)
    return path


def _check_digest(context: Context, path: Path, digest: str) -> None:
    import hashlib

    from orun.stages.download import build_digest_error

    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != digest.lower():
        raise build_digest_error(os.path.relpath(path, context.root), actual, digest)
