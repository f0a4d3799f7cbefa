"""Probabilities of classifiers with several labels an example, as one array `[n, labels, classes]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orun.stages._sklearn.plain import Estimator, last_step

if TYPE_CHECKING:
    from onnx import ModelProto


def has_several_labels(estimator: Estimator) -> bool:
    """Return whether a classifier has probabilities of several labels, all of the same number of classes."""
    classes = getattr(last_step(estimator), "classes_", None)
    return isinstance(classes, list) and len({len(group) for group in classes}) == 1


def put_examples_first(model: ModelProto) -> None:
    """Let the second output have the axis of the examples first.

    skl2onnx yields a sequence of arrays `[n, classes]`, or an array `[labels, n, classes]`.
    """
    from onnx import helper

    from orun.stages._graph.names import make_unique

    graph, output = model.graph, model.graph.output[1]
    used = {name for node in graph.node for name in (*node.input, *node.output)}
    inner = make_unique(output.name, used)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [inner if name == output.name else name for name in names]
    if output.type.HasField("sequence_type"):
        element = output.type.sequence_type.elem_type.tensor_type.elem_type
        node = helper.make_node("ConcatFromSequence", [inner], [output.name], axis=1, new_axis=1)
    else:
        element = output.type.tensor_type.elem_type
        node = helper.make_node("Transpose", [inner], [output.name], perm=[1, 0, 2])
    graph.node.append(node)
    output.CopyFrom(helper.make_tensor_value_info(output.name, element, [None, None, None]))
