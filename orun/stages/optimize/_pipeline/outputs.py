"""Outputs that need no code: the best labels of a classifier, the boxes of a detector."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.stages.params import Doc, Range, Ratio

if TYPE_CHECKING:
    from orun.stages.optimize._pipeline.draft import Draft

LABELS, SCORES, BOXES, CLASSES, IMAGES = "labels", "scores", "boxes", "classes", "images"
CORNERS = 4  # numbers of a box
SPLITTING = 18  # operator set from which Split is told the number of its outputs


@dataclass(frozen=True)
class Labels:
    """The best classes of a classifier."""

    output: Annotated[str | None, Doc("Output with a score for each class, `[batch, classes]`; the only one.")] = None
    names: Annotated[
        list[str], Doc("Names of the classes, in the order of the scores; their numbers when left out.")
    ] = field(default_factory=list)
    softmax: Annotated[bool, Doc("Turn scores into probabilities first.")] = True
    top: Annotated[int, Doc("Number of classes, the best first."), Range(1)] = 5


@dataclass(frozen=True)
class Boxes:
    """The boxes of a detector, without those that overlap a better one of the same class."""

    output: Annotated[
        str | None,
        Doc(
            "Output `[batch, 4 + classes, boxes]`, as YOLO 8 to 11 have it: centre, width and height of each box, then"
            " a score for each class; the only one."
        ),
    ] = None
    score: Annotated[Ratio, Doc("Least score of a box."), Range(0, 1)] = Ratio(0.25)
    overlap: Annotated[Ratio, Doc("Overlap (IoU) with a better box, above which a box is left out."), Range(0, 1)] = (
        Ratio(0.45)
    )
    most: Annotated[int, Doc("Boxes of a class in an image at most."), Range(1)] = 300


def add_labels(draft: Draft, labels: Labels) -> None:
    """Let the model yield `labels` and `scores`, `[batch, top]`, in the place of an output.

    Raises:
        StageFailed: when the output holds no scores, or not as many as there are names.
    """
    import numpy as np
    from onnx import TensorProto, helper

    from orun.stages._graph.signature import name_axes

    output = draft.require_output(labels.output)
    tensor = output.type.tensor_type
    axes = name_axes(output)
    if len(axes) != 2 or tensor.elem_type not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):  # noqa: PLR2004
        raise draft.context.failed(f"output {output.name!r} has no scores `[batch, classes]` to take labels from")
    classes = axes[1] if isinstance(axes[1], int) else None
    if classes is not None and labels.names and len(labels.names) != classes:
        raise draft.context.failed(
            f"`names` has {len(labels.names)} names, and output {output.name!r} has {classes} scores"
        )
    if (most := classes or len(labels.names)) and labels.top > most:
        raise draft.context.failed(f"`top` is {labels.top}, and there are {most} classes", hint=f"`top: {most}`")
    nodes = draft.begin_step(LABELS)
    values = draft.take_output(output.name, nodes)
    if labels.softmax:
        values = nodes.add("Softmax", values, axis=-1)
    indices = f"{LABELS}/indices" if labels.names else LABELS
    nodes.add("TopK", values, nodes.add_constant(np.array([labels.top], np.int64)), outputs=[SCORES, indices], axis=-1)
    if labels.names:
        names = nodes.add("Constant", value_strings=[name.encode() for name in labels.names])
        nodes.add("Gather", names, indices, outputs=[LABELS])
    kind = TensorProto.STRING if labels.names else TensorProto.INT64
    new = [
        helper.make_tensor_value_info(LABELS, kind, [axes[0], labels.top]),
        helper.make_tensor_value_info(SCORES, tensor.elem_type, [axes[0], labels.top]),
    ]
    draft.replace_output(output.name, new, nodes)


def add_boxes(draft: Draft, boxes: Boxes) -> None:
    """Let the model yield `boxes`, `scores`, `classes` and `images`, a row for each box, in the place of an output.

    Raises:
        StageFailed: when the output holds no boxes.
    """
    import numpy as np
    from onnx import TensorProto, helper

    output = draft.require_output(boxes.output)
    tensor = output.type.tensor_type
    if len(tensor.shape.dim) != 3 or tensor.elem_type != TensorProto.FLOAT:  # noqa: PLR2004 - batch, values, boxes
        raise draft.context.failed(f"output {output.name!r} has no boxes `[batch, 4 + classes, boxes]` of float32")
    nodes = draft.begin_step(BOXES, SPLITTING)
    start, corners, end, axis = (
        nodes.add_constant(np.array([number], np.int64)) for number in (0, CORNERS, np.iinfo(np.int64).max, 1)
    )
    values = draft.take_output(output.name, nodes)
    centred = nodes.add("Transpose", nodes.add("Slice", values, start, corners, axis), perm=[0, 2, 1])
    scores = nodes.add("Slice", values, corners, end, axis)
    limits = (np.array([boxes.most], np.int64), np.array([boxes.overlap], np.float32))
    chosen = nodes.add(
        "NonMaxSuppression",
        centred,
        scores,
        *(nodes.add_constant(limit) for limit in (*limits, np.array([boxes.score], np.float32))),
        center_point_box=1,
    )
    image_class, column = (
        nodes.add_constant(np.array([0, 1, 2], np.int64)),
        nodes.add_constant(np.array([0, 2], np.int64)),
    )
    nodes.add("GatherND", scores, nodes.add("Gather", chosen, image_class, axis=1), outputs=[SCORES])
    centres = nodes.add("GatherND", centred, nodes.add("Gather", chosen, column, axis=1))
    middle, size = f"{BOXES}/middle", f"{BOXES}/size"
    nodes.add("Split", centres, outputs=[middle, size], axis=1, num_outputs=2)
    half = nodes.add("Mul", size, nodes.add_constant(np.array(0.5, np.float32)))
    nodes.add("Concat", nodes.add("Sub", middle, half), nodes.add("Add", middle, half), outputs=[BOXES], axis=1)
    for name, place in ((CLASSES, 1), (IMAGES, 0)):
        nodes.add("Gather", chosen, nodes.add_constant(np.array(place, np.int64)), outputs=[name], axis=1)
    count = "found"
    new = [
        helper.make_tensor_value_info(BOXES, TensorProto.FLOAT, [count, CORNERS]),
        helper.make_tensor_value_info(SCORES, TensorProto.FLOAT, [count]),
        helper.make_tensor_value_info(CLASSES, TensorProto.INT64, [count]),
        helper.make_tensor_value_info(IMAGES, TensorProto.INT64, [count]),
    ]
    draft.replace_output(output.name, new, nodes)
