"""Take an ONNX model that exists, with its external data, from a file or from the web.

The model is read whole and written anew, so that files around it change nothing. External data must lie in the
model's own folder; it is gathered into one file. Weights that are inputs too, as models before IR version 4 must have
them, are inputs no more: runtimes and converters would leave them alone. Nodes are put in order, and outputs without a
shape get the one that is inferred, as ONNX's checker asks for; sparse weights are stored in full, and nodes of one name
get names of their own, as runtimes and tools ask for. What comes from the web has its SHA-256 in the pipeline
file, and so does each file of external data, which is looked for beside the model's address.

A model is tried at several sizes of each dynamic axis that has a name of its own, wherever a stage makes inputs up.
`axes` renames them, and says which of them follow from others: that of a decoder's mask is `past + sequence`. `inputs`
says which values the inputs take, and `dims` which sizes the axes take: the model's input domain, which it carries
along. A domain that the file carries already is kept where these say nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages._graph.agreement import Dims
from orun.stages._graph.input_domain import DeclaredInputs
from orun.stages.contract import Context, Spec
from orun.stages.name_checks import require_known
from orun.stages.params import Doc, FilePath

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Params:
    """Which model."""

    path: Annotated[FilePath | None, Doc("The model's .onnx file.")] = None
    url: Annotated[str | None, Doc("Instead of `path`: its address, http or https.")] = None
    digest: Annotated[str | None, Doc("SHA-256 that the .onnx file must have, in hexadecimal; with `url` always.")] = (
        None
    )
    data: Annotated[
        dict[str, str],
        Doc("SHA-256 of each file of external data, by its name as the model has it; with `url` all of them."),
    ] = field(default_factory=dict)
    axes: Annotated[
        dict[str, str],
        Doc(
            "Other names of dynamic axes, by their name, or by input and place (`mask.1`): "
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
    metrics=("size", "nodes"),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the model to `context.result`."""
    from orun.stages._graph.io import external_files, load, load_graph, save, weigh
    from orun.stages._graph.order import sort_nodes
    from orun.stages._graph.plain import complete_outputs, fill, part_weights, tell_apart

    path = _fetched(context, params) if params.path is None else context.root / params.path
    if params.path is not None and params.digest is not None:
        _check_digest(context, path, params.digest)
    named = external_files(load_graph(path))
    require_known("data", params.data, named)
    model = load(path)
    for name, digest in params.data.items():
        _check_digest(context, path.parent / name, digest)
    if parted := part_weights(model):
        context.log.info("%d weights are no longer inputs too, as models before IR version 4 must have them", parted)
    if filled := fill(model):
        context.log.info("%d sparse weights are stored in full, as other tools read them", filled)
    if renamed := tell_apart(model):
        context.log.info("%d nodes have got names of their own: ONNX Runtime takes no two of one name", renamed)
    _require_shapes(context, model)
    light = load_graph(path)
    with suppress(ValueError):  # of a circle the checker tells which nodes are in it
        sort_nodes(model.graph)
        sort_nodes(light.graph)
    complete_outputs(model, light)
    _name_axes(context, model, params.axes)
    _declare(model, params)
    save(model, context.result, external=bool(named))
    return weigh(context.result)


def _require_shapes(context: Context, model: ModelProto) -> None:
    """Refuse inputs of which not even the number of axes is known: nothing can be made up for them."""
    for value in model.graph.input:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            raise StageFailed(
                context.stage,
                f"input {value.name!r} of the model has no shape",
                hint="write one into the file, with names for dynamic axes: onnx.helper.make_tensor_value_info",
            )


def _name_axes(context: Context, model: ModelProto, names: Mapping[str, str]) -> None:
    """Give dynamic axes other names."""
    from orun.stages._graph.signature import axis_names

    inputs = {value.name: axis_names(value) for value in model.graph.input}
    require_known("axes", names, [name for axes in inputs.values() for name in axes if isinstance(name, str)])
    if "" in names.values():
        raise StageFailed(context.stage, "axes: a name is empty", hint="give one, or a sum such as `past + sequence`")
    for value in (*model.graph.input, *model.graph.output):
        axes = zip(value.type.tensor_type.shape.dim, axis_names(value), strict=True)
        for axis, name in axes:
            if isinstance(name, str) and name in names:
                axis.dim_param = names[name]
    if names:
        del model.graph.value_info[:]  # they are for the axes as they were called


def _declare(model: ModelProto, params: Params) -> None:
    """Lay the declared input domain over the one that the file carries; refuse one that no input can be within."""
    from orun.stages._graph.feeds import assign_sizes
    from orun.stages._graph.input_domain import InputDomain, declared, read_domain, write_domain
    from orun.stages._graph.io import input_names
    from orun.stages._graph.signature import inputs_of, sizes_of

    carried = read_domain(model)
    require_known("inputs", params.inputs, input_names(model))
    sizes = {axis: tuple(one) for axis, one in params.dims.items()}
    domain = InputDomain({**carried.inputs, **declared(params.inputs)}, {**carried.sizes, **sizes})
    write_domain(model, domain)
    if domain != InputDomain():
        assign_sizes(inputs_of(model), {**sizes_of(model), **sizes})


def _fetched(context: Context, params: Params) -> Path:
    """The model in the working folder, with its external data beside it."""
    from urllib.parse import urljoin, urlsplit

    from orun.stages.download import download

    url = str(params.url)
    if params.digest is None:
        raise StageFailed(
            context.stage,
            f"{url} has no `digest`",
            why="what lies there can change, and then the result would",
            hint="write its SHA-256 into the pipeline: sha256sum FILE",
        )
    for name in params.data:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise StageFailed(context.stage, f"data: {name!r} lies outside the folder of the model")
    path = Path("fetched", PurePosixPath(urlsplit(url).path).name or "model.onnx")
    download(url, path, params.digest, context.progress)
    for name, digest in params.data.items():
        download(urljoin(url, name), path.parent / name, digest, context.progress)
    return path


def _check_digest(context: Context, path: Path, digest: str) -> None:
    import hashlib

    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest.lower():
        raise StageFailed(
            context.stage,
            f"{os.path.relpath(path, context.root)} is not the file that its digest names",
            why=f"SHA-256 is {found}\nexpected {digest}",
            hint="check where the file comes from; write the new digest into the pipeline if it is right",
        )
