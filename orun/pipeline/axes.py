"""Checks of axes: impossible sizes, and sizes for axes that no input of the model has.

The axes of a model are known if a stage declares the inputs that it exports, and only built-in kinds follow it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from orun.core.dynamic_axes import is_made_up, list_free
from orun.pipeline.instances import Instance
from orun.pipeline.model import Stage
from orun.pipeline.nodes import Entry, List, Map, Node, Path, Scalar
from orun.pipeline.problems import Problems
from orun.stages.kind import Kind
from orun.stages.params import Param

DECLARED, SHAPE = "inputs", "shape"  # parameter that declares inputs, and its field for the axes of an input
SIZES = ("dims", "shape", "fix")  # parameters that give sizes to axes by name
NAMELESS = ("", "?", "None")  # placeholders of other tools
UNNAMED = "an axis of any size has a name of its own: `shape: [batch, 3]`; axes of one name have one size"


def require_axes(
    instances: Iterable[Instance], stages: Mapping[str, Stage], unsound: Collection[Path], problems: Problems
) -> None:
    """Note each size below 0, and each axis that is given sizes although no input of the model has it."""
    broken = {path[1] for path in unsound if path[:1] == ("stages",) and path[2:3] == ("with",)}
    by_id = {instance.id: instance for instance in instances if instance.id not in broken}
    for instance in by_id.values():
        if instance.kind is None or instance.kind.origin != "built-in":
            continue
        _check_shapes(instance, problems)
        for name in SIZES:
            sizes = instance.node.map("with").get(name)
            if isinstance(sizes, Map):
                _check_sizes(instance, sizes, stages, by_id, problems)


def _check_shapes(instance: Instance, problems: Problems) -> None:
    """Check the sizes in declared inputs; placeholders of other tools for a dynamic axis are no names."""
    for name, axis in _iter_axes(instance):
        number = axis.value
        nameless = axis.text in NAMELESS
        if nameless or (isinstance(number, (int, float)) and number < 0):
            problems.add(
                axis.span,
                f"input {name!r} has an axis {'without a name' if nameless else f'of size {axis.text}'}",
                expected="a size from 0 on, or the name of a dynamic axis",
                hint=UNNAMED,
            )


def _check_sizes(
    instance: Instance, sizes: Map, stages: Mapping[str, Stage], by_id: Mapping[str, Instance], problems: Problems
) -> None:
    source = _find_declaring(instance, stages, by_id)
    known: Collection[str] = ()
    if source is not None:
        known = list_free([axis.text] for _, axis in _iter_axes(source) if isinstance(axis.value, str))
    model = "the model" if source is instance else f"the model that {source.id!r} exports" if source else ""
    for axis, entry in sizes.entries.items():
        if source is not None and axis not in known and not (_may_have_more(source) and is_made_up(axis)):
            problems.add_unknown(entry.key, f"no input of {model} has a dynamic axis {axis!r}", axis, known)
        _check_each(axis, entry, problems)


def _check_each(axis: str, entry: Entry, problems: Problems) -> None:
    if isinstance(entry.value, List) and not entry.value.items:
        problems.add(entry.key, f"the dynamic axis {axis!r} has no size", expected="sizes from 0 on")
    for size in _iter_sizes(entry.value):
        if isinstance(size.value, (int, float)) and size.value < 0:
            problems.add(size.span, f"the dynamic axis {axis!r} cannot be {size.text}", expected="a size from 0 on")


def _iter_sizes(node: Node) -> Iterator[Scalar]:
    items = node.items if isinstance(node, List) else (node,)
    yield from (item for item in items if isinstance(item, Scalar))


def _find_declaring(instance: Instance, stages: Mapping[str, Stage], by_id: Mapping[str, Instance]) -> Instance | None:
    """Return the stage that declares the inputs of a stage's model; None if no stage does."""
    source: Instance | None = instance
    while source and source.kind and not _find_shape(source.kind):
        if source is not instance and (source.kind.origin != "built-in" or source.kind.spec.interface != "same"):
            return None  # a custom stage may rename the axes
        stage = stages.get(source.id)
        source = by_id.get(next(iter(stage.needs.values()), "")) if stage else None
    return source if source and source.kind else None


def _find_shape(kind: Kind) -> Param | None:
    """Return the parameter for the axes of a declared input; None if the kind has none."""
    declared = next((param.type for param in kind.params if param.name == DECLARED), None)
    fields = declared.items[0].fields if declared and declared.name == "map" else ()
    return next((field for field in fields if field.name == SHAPE), None)


def _may_have_more(source: Instance) -> bool:
    """Return whether the model may have axes that the file does not name, because `shape` is optional."""
    shape = _find_shape(source.kind) if source.kind else None
    return shape is None or not shape.required


def _iter_axes(instance: Instance) -> Iterator[tuple[str, Scalar]]:
    """Yield each axis of the declared inputs of a stage, with the input's name."""
    if instance.kind and _find_shape(instance.kind):
        for name, entry in instance.node.map("with").map(DECLARED).entries.items():
            shape = entry.value.get(SHAPE) if isinstance(entry.value, Map) else None
            yield from ((name, axis) for axis in _iter_sizes(shape)) if isinstance(shape, List) else ()
