"""Notes on a dataset that does not suit the outputs of a model well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from orun.measure.accuracy.names import FIDELITY
from orun.stages._data.source import Examples, Source
from orun.stages.contract import Context

if TYPE_CHECKING:
    from orun.measure.accuracy.request import Request
    from orun.measure.dataset import Dataset

MASK = "attention_mask"


def note_misfits(context: Context, request: Request, examples: Examples | None, dataset: Dataset) -> None:
    """Note classes that are not as many as the model's scores, and padding that fidelity metrics count.

    Args:
        context: of the stage that judges the model.
        request: what it measures.
        examples: the dataset as declared; None if it is made up.
        dataset: the examples.
    """
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import axes_of

    graph = load_graph(context.model()).graph
    outputs = {value.name: axes_of(value) for value in graph.output}
    judged = {name: outputs[name] for name in request.outputs or outputs}
    if isinstance(examples, Source) and request.task and not request.postprocess:
        _note_classes(context, examples, next(iter(judged.values())), request.class_axis)
    masks = [axes_of(value) for value in graph.input if value.name == MASK]
    if examples is not None and masks and any(metric in FIDELITY for metric in request.metrics):
        _note_padding(context, examples, dataset, masks[0], judged)


def _note_classes(context: Context, source: Source, axes: Sequence[int | str], axis: int) -> None:
    """Note classes that are not as many as the model's scores: labels may be numbered otherwise."""
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
        if len(classes) in (0, scores):
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
