"""Loader of the dataset that a parameter names, with checks, and notes on what does not suit the model well."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orun.stages._data.source import Examples, Source, to_source
from orun.stages.contract import Context
from orun.stages.params import Code

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.accuracy.request import Request
    from orun.measure.dataset import Dataset, Values
    from orun.measure.dataset_origin import Origin

CODE = re.compile(r".+\.py:[A-Za-z_]\w*")
MASK = "attention_mask"


def load_dataset(
    context: Context, examples: Examples, inputs: Collection[str] = (), columns: Collection[str] = ()
) -> Dataset:
    """Load the dataset that a parameter names: the result of a function, or files.

    Args:
        context: of the stage.
        examples: `file.py:function`, a path, or a `Source`.
        inputs: names of inputs that it must have values for.
        columns: columns of a file that are inputs even if they are among its `fields`; those of the inputs and of the
            stage's model are, too.

    Raises:
        UsageError: when it is no dataset, or has no values for one of the inputs; when a file is wrong, naming file,
            column and row; when the first example does not fit the types and shapes of these inputs of the model; when
            an example has a length of 0 that the model does not survive.
    """
    from orun.measure.dataset import require_dataset
    from orun.stages._graph.fitting import require_steps
    from orun.stages._graph.io import list_input_names, load_graph

    model = load_graph(context.model()) if "model" in context.inputs else None
    if isinstance(examples, str) and CODE.fullmatch(examples):
        dataset = require_dataset(context.load(Code(examples), ())(), examples)
    else:
        from orun.stages._data.files import read
        from orun.stages._data.images import note_ignored_files

        source = to_source(examples)
        dataset = read(context.root, source, {*columns, *inputs, *(list_input_names(model) if model else ())})
        note_ignored_files(context, source)
    find_origin(context.root, examples).require_inputs(inputs, dataset.inputs)
    if model is None:
        return dataset
    require_steps(format_title(examples), model, dataset.inputs)
    dataset = _reshape_columns(model, dataset)
    _note_bounds(context, model, dataset)
    if inputs:
        _require_fitting(model, format_title(examples), dataset, inputs)
    return dataset


def _require_fitting(model: ModelProto, source: str, dataset: Dataset, names: Collection[str]) -> None:
    from orun.stages._graph.feeds import take_example
    from orun.stages._graph.fitting import require_fitting
    from orun.stages._graph.signature import build_inputs

    items = [item for item in build_inputs(model) if item.name in names]
    feed = take_example(dataset.inputs, 0, {item.name: len(item.shape) for item in items})
    require_fitting(f"an example of {source}", items, feed)


def _note_bounds(context: Context, model: ModelProto, dataset: Dataset) -> None:
    from orun.stages._graph.fitting import warn_of_bounds
    from orun.stages._graph.input_domain import read_domain

    for note in warn_of_bounds(read_domain(model).inputs, dataset.inputs):
        context.note(note)


def _reshape_columns(model: ModelProto, dataset: Dataset) -> Dataset:
    """Reshape values `[n]` to `[n, 1]` where the model needs it, as a converted estimator does for each column."""
    import numpy as np

    flat = {name for name, values in dataset.inputs.items() if isinstance(values, np.ndarray) and values.ndim == 1}
    shapes = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    columns = {name for name in flat & shapes.keys() if [axis.dim_value for axis in shapes[name]][1:] == [1]}
    inputs = {
        name: np.asarray(values)[:, None] if name in columns else values for name, values in dataset.inputs.items()
    }
    return replace(dataset, inputs=inputs) if columns else dataset


def find_origin(root: Path, examples: Examples) -> Origin:
    """Return where the examples of a parameter come from, for errors; `root` is the folder of the pipeline."""
    from orun.measure.dataset_origin import Origin

    name = format_title(examples)
    if isinstance(examples, str) and CODE.fullmatch(examples):
        return Origin(name)
    from orun.stages._data.files import list_columns

    source = to_source(examples)
    return Origin(
        name,
        is_folder=source.images is not None,
        tokenizer="" if source.text is None else str(source.text.tokenizer),
        list_columns=partial(list_columns, root / source.path, name),
    )


def format_title(examples: Examples) -> str:
    """Return the name of a dataset for messages."""
    return str(to_source(examples).path)


def find_constants(inputs: Mapping[str, Values]) -> dict[str, float]:
    """Return the inputs of real numbers that have the same value throughout all examples, with that value."""
    import numpy as np

    ranges = {}
    for name, values in inputs.items():
        parts = [values] if isinstance(values, np.ndarray) else values
        parts = [part for part in parts if part.dtype.kind == "f" and part.size]
        if sum(part.size for part in parts) > 1:
            ranges[name] = float(np.min([part.min() for part in parts])), float(np.max([part.max() for part in parts]))
    return {name: low for name, (low, high) in ranges.items() if low == high}


def note_constants(context: Context, dataset: Dataset, done: str) -> None:
    """Note inputs that are alike in all examples with which a model was `judged` or `calibrated`, as `done` says."""
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import is_alike, list_inputs

    constants = find_constants(dataset.inputs)
    if not constants:
        return
    model = load_graph(context.model())
    inputs = [value for value in list_inputs(model) if value.name in constants]
    if not inputs:
        return
    listed = ", ".join(f"{value.name} ({constants[value.name]:g})" for value in inputs)
    change, value = ("change", "those values") if len(inputs) > 1 else ("changes", "that value")
    examples = f"{len(dataset)} examples" if len(dataset) > 1 else "one example"
    note = f"{listed} never {change} in the {examples}, so the model is {done} at {value} alone"
    if states := [item.name for item in inputs if any(is_alike(item, output) for output in model.graph.output)]:
        note += (
            f". Outputs have the type and shape of {', '.join(states)}, as states have: take chunks from the middle of "
            "a run, with the states that the model had there"
        )
    context.note(note)


def note_misfits(context: Context, request: Request, examples: Examples | None, dataset: Dataset) -> None:
    """Note inputs that never change, labels that may be numbered otherwise than the scores, and padding that counts."""
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import name_axes

    if examples is not None:
        note_constants(context, dataset, "judged")
    graph = load_graph(context.model()).graph
    outputs = {value.name: name_axes(value) for value in graph.output}
    judged = {name: outputs[name] for name in request.outputs or outputs}
    if isinstance(examples, Source) and request.task and not request.postprocess:
        _note_classes(context, examples, next(iter(judged.values())), request.class_axis)
    masks = [name_axes(value) for value in graph.input if value.name == MASK]
    if examples is not None and masks and len(request.task) < len(request.metrics):
        _note_padding(context, examples, dataset, masks[0], judged)


def _note_classes(context: Context, source: Source, axes: Sequence[int | str], axis: int) -> None:
    """Note labels that may be numbered otherwise than the model's scores: in an assumed order, or not as many."""
    from orun.stages._data.images import list_class_folders

    scores = axes[axis] if len(axes) > max(axis, 1) else 1
    if source.annotations or not isinstance(scores, int) or scores == 1:
        return
    folder = context.root / source.path
    if source.classes:
        if (count := len(source.classes)) != scores:
            context.note(
                f"`classes` of {source.path} names {count} class{'es' if count > 1 else ''}, and the model has "
                f"{scores} scores. Labels number the names in their order, so a missing name shifts them: name all "
                "classes in the order of the scores"
            )
    elif folder.is_dir():
        classes, empty = list_class_folders(folder)
        if not classes or classes == [str(number) for number in range(scores)]:
            return
        if len(classes) == scores:
            context.note(
                f"labels number the {scores} class folders of {source.path} in order of names, from {classes[0]} to "
                f"{classes[-1]}. If the model's scores are in another order, name it: `classes: [...]`"
            )
            return
        emptiness = f" No images are in {', '.join(empty)}." if empty else ""
        folders = "1 class folder" if len(classes) == 1 else f"{len(classes)} class folders"
        context.note(
            f"{source.path} has {folders}, and the model has {scores} scores.{emptiness} "
            "Labels number the folders in order of names, so a missing folder shifts them: name all classes in the "
            "order of the scores, `classes: [...]`"
        )


def _note_padding(
    context: Context,
    examples: Examples,
    dataset: Dataset,
    mask: Sequence[int | str],
    outputs: Mapping[str, Sequence[int | str]],
) -> None:
    """Note outputs with a value for each position of a mask that leaves positions out."""
    import numpy as np

    positions = [*mask[1:2]]
    by_position = [name for name, axes in outputs.items() if axes[2:] and [*axes[1:2]] == positions]
    values = [np.asarray(value) for value in dataset.inputs.get(MASK, ())]
    padding = sum(int((value == 0).sum()) for value in values)
    if not by_position or not padding:
        return
    share = 100 * padding / sum(value.size for value in values)
    advice = "leave `pad` out" if isinstance(examples, Source) and examples.text else "leave the padding out"
    if isinstance(positions[0], int):  # the model takes no other length
        advice = "a metric of your own can leave them out"
    context.note(
        f"{share:.3g} % of the positions of {', '.join(by_position)} are padding, and metrics against the reference "
        f"count them: {advice}"
    )
