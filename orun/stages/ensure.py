"""Checks of a stage's output against the promises of its kind, in the stage's own process."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orun.errors import OutputRefused, UsageError
from orun.measure.session_settings import FILE_NAME as SETTINGS
from orun.stages._graph import io as onnx_io
from orun.stages.contract import MODEL, Spec

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

LONGEST = 3000  # bytes of a folder's path; the system allows about 4096, and artifacts move to other folders
SHOWN = 60  # characters of such a path in a message
Shape = tuple[int | None, ...]  # None for a dynamic dimension
Value = tuple[str, str, Shape]  # name, type, shape


def check_output(stage: str, spec: Spec, output: Path, inputs: Mapping[str, Path]) -> None:
    """Check the output folder of a stage.

    It holds only regular files and folders, and is not empty unless the artifact is `metrics`. An `onnx` artifact is a
    model that loads and passes the checker, with its external data and no other file. It has the inputs and outputs of
    the primary input unless its kind changes them.

    Raises:
        OutputRefused: when a promise is broken.
    """
    names = _list_names(stage, output)
    if not names and spec.output != "metrics":
        why = f"its kind yields {spec.output}, so that it must fill its output folder"
        hint = 'a function that yields only metrics declares it: @stage(output="metrics")'
        if spec.output == "onnx":
            hint = f"save the model to context.result; {hint}"
        raise OutputRefused(stage, f"{stage} left nothing", why=why, hint=hint)
    if spec.output == "onnx":
        model = _check_model(stage, output, names)
        primary = inputs.get(next(iter(spec.inputs), ""))
        if spec.interface == "same" and primary and (primary / MODEL).is_file():
            check_interface(stage, onnx_io.load_graph(primary / MODEL), model)


def _list_names(stage: str, output: Path) -> list[str]:
    """Return the names of all files; refuse entries other than files and folders, and names that are not Unicode."""
    if not _is_folder(output):
        raise OutputRefused(stage, f"{stage} left no output folder", why="something removed it while the stage ran")
    names, folders = [], [str(output)]
    while folders:
        if len(os.fsencode(folders[-1])) > LONGEST:
            why = f"{folders[-1][len(str(output)) + 1 :][:SHOWN]}...: a path of more than {LONGEST} bytes"
            raise OutputRefused(stage, f"{stage} left folders in folders that are too deep", why=why)
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                name = entry.path[len(str(output)) + 1 :]
                if not entry.is_file(follow_symlinks=False):
                    kind = "a link" if entry.is_symlink() else "a socket, a pipe or a device"
                    why = f"{name}: an artifact holds only files and folders"
                    raise OutputRefused(stage, f"{stage} left {kind}", why=why)
                if (shown := os.fsencode(name).decode(errors="replace")) != name:
                    raise OutputRefused(stage, f"{stage} left a file whose name is not Unicode", why=shown)
                names.append(name)
    return sorted(names)


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _check_model(stage: str, output: Path, names: list[str]) -> ModelProto:
    if MODEL not in names:
        raise OutputRefused(
            stage,
            f"{stage} left no {MODEL}",
            why=f"its folder holds {', '.join(names)}",
            hint="Save the model to context.result",
        )
    try:
        model = onnx_io.load_graph(output / MODEL)
    except UsageError as error:
        raise OutputRefused(stage, f"{stage} left a bad model: {error.problem}", why=error.why) from error
    _check_external(stage, output, model, names)
    _check_validity(stage, output / MODEL)
    return model


def _check_external(stage: str, output: Path, model: ModelProto, names: list[str]) -> None:
    """Require all external data that the model names, and no other file but its session settings."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    named = {MODEL, SETTINGS}
    for tensor in onnx_io.iter_tensors(model):
        if uses_external_data(tensor):
            data = ExternalDataInfo(tensor)
            size = (output / data.location).stat().st_size
            end = (data.offset or 0) + (data.length or 0)
            named.add((output / data.location).resolve().relative_to(output.resolve()).as_posix())
            if end > size:
                why = f"tensor {tensor.name!r} ends at byte {end} of {data.location}, which has {size}"
                raise OutputRefused(stage, f"{stage} left a model whose external data is cut short", why=why)
    if surplus := [name for name in names if name not in named]:
        raise OutputRefused(
            stage,
            f"{stage} left files that its model does not name",
            why=f"{', '.join(surplus)}: an onnx artifact is {MODEL} and the external data that its tensors name",
            hint="Write temporary files to the working folder, and other artifacts in their own stage",
        )


def _check_validity(stage: str, path: Path) -> None:
    """Require that the model passes the checker."""
    from onnx import checker

    from orun.stages._graph.validity import check

    try:
        check(path)
    except checker.ValidationError as error:
        message = f"{stage} left a model that the ONNX checker refuses"
        raise OutputRefused(stage, message, why=str(error).strip(), hint=_advise_upgrade(path)) from error


def _advise_upgrade(path: Path) -> str:
    """Return what to do about a model of a later ONNX than the installed one; empty if it is of none."""
    import onnx

    from orun.stages._graph.domains import find_standard_opset

    model = onnx_io.load_graph(path)
    versions = (
        ("IR version", model.ir_version, onnx.IR_VERSION),
        ("operator set", find_standard_opset(model), onnx.defs.onnx_opset_version()),
    )
    newer = [
        f"its {version} is {own}, and onnx {onnx.__version__} knows {known}"
        for version, own, known in versions
        if own > known
    ]
    return f"{', '.join(newer)}: upgrade onnx, or export the model for that version" if newer else ""


def check_interface(
    stage: str,
    before: ModelProto,
    after: ModelProto,
    hint: str = "A kind that does so on purpose declares it: interface='changed'",
) -> None:
    """Require the same names, order, types and shapes of inputs and outputs.

    A dynamic dimension of an output may become fixed, because shape inference finds sizes that an exporter left open.

    Raises:
        OutputRefused: when something differs.
    """
    differences = []
    for kind, old, new in (
        ("input", _list_inputs(before), _list_inputs(after)),
        ("output", _list_outputs(before), _list_outputs(after)),
    ):
        if [value[0] for value in old] != [value[0] for value in new]:
            differences.append(f"{kind}s: {_list_values(old)} -> {_list_values(new)}")
            continue
        for (name, old_type, old_shape), (_, new_type, new_shape) in zip(old, new, strict=True):
            if old_type != new_type:
                differences.append(f"{kind} {name!r}: {old_type} -> {new_type}")
            elif not _agree(old_shape, new_shape, narrowing=kind == "output"):
                differences.append(f"{kind} {name!r}: shape {_show_shape(old_shape)} -> {_show_shape(new_shape)}")
    if differences:
        raise OutputRefused(
            stage,
            f"{stage} changed the inputs or outputs of the model",
            why="\n".join(differences),
            hint=hint,
        )


def _list_inputs(model: ModelProto) -> list[Value]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [_describe_value(value) for value in model.graph.input if value.name not in stored]


def _list_outputs(model: ModelProto) -> list[Value]:
    return [_describe_value(value) for value in model.graph.output]


def _describe_value(value: ValueInfoProto) -> Value:
    from onnx import TensorProto

    kind = value.type.WhichOneof("value") or "unknown"
    if kind != "tensor_type":
        return value.name, kind.removesuffix("_type"), ()
    tensor = value.type.tensor_type
    shape = tuple(
        axis.dim_value if axis.HasField("dim_value") and axis.dim_value >= 0 else None for axis in tensor.shape.dim
    )
    return value.name, TensorProto.DataType.Name(tensor.elem_type).lower(), shape


def _agree(old: Shape, new: Shape, *, narrowing: bool) -> bool:
    if len(old) != len(new):
        return False
    return all(a == b or (narrowing and a is None) for a, b in zip(old, new, strict=True))


def _list_values(values: list[Value]) -> str:
    return ", ".join(name for name, _, _ in values) or "none"


def _show_shape(shape: Shape) -> str:
    return f"[{', '.join('?' if axis is None else str(axis) for axis in shape)}]"
