"""Expansion of matrices: a stage of the graph for each combination, with the stages that it needs.

A stage that needs the bare name of a stage with a matrix is expanded along the same axes. Inputs that share an axis are
joined on it. `needs: int8[per_channel=true]` names a single stage.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from orun.core.serialization import Record, replace
from orun.pipeline.expressions import MATRIX, Expressions, used_axes
from orun.pipeline.graph import ordered
from orun.pipeline.instances import Axes, Instance, Link, links
from orun.pipeline.nodes import MAX_SIZE, Entry, List, Map, Node, Scalar, Span, repeated, scalars
from orun.pipeline.problems import Problems, place
from orun.stages.kind import Kind
from orun.text.suggestions import closest, one_of

AXIS_VALUE = re.compile(r"[A-Za-z0-9_.+%-]+")  # part of a stage's id, and so of a folder's name
MAX_STAGES = 1000  # stages that a stage of the file may expand to
LOOP = 8  # stages of a loop that a message names
FILES = (".onnx", ".pt", ".pth", ".safetensors", ".joblib", ".pkl", ".npz", ".csv")
A_FILE = "a stage needs stages: a file is a parameter of one, as in `import: {uses: convert/onnx, with: {path: FILE}}`"


class _Declared(Record, frozen=True):
    """A stage of the file, with the combinations of its axes and their links.

    `used` are the axes that its expressions name.
    """

    name: str
    key: Span
    node: Map
    used: frozenset[str]
    combinations: Sequence[tuple[Axes, Sequence[Link]]]

    def edges(self) -> list[Link]:
        return [link for _, needed in self.combinations for link in needed]


class Expansion:
    """Expansion of the file's stages to the stages of the graph.

    Args:
        stages: the `stages` of the file.
        expressions: replaces `${...}`.
        kind_of: returns the kind of a `uses`; None for a wrong one, which it reports.
        problems: collects the mistakes.
    """

    def __init__(
        self,
        stages: Map,
        expressions: Expressions,
        kind_of: Callable[[Scalar], Kind | None],
        problems: Problems,
    ) -> None:
        self.names = stages.entries
        self.expressions = expressions
        self.kind_of = kind_of
        self.problems = problems
        self._size = 0  # number of values in the stages
        self._by_id: dict[str, Instance] = {}
        self._by_base: dict[str, list[Instance]] = {}

    def instances(self) -> list[Instance]:
        """Return every stage of the graph, in file order."""
        declared = {
            name: self._declare(name, entry.key, entry.value)
            for name, entry in self.names.items()
            if isinstance(entry.value, Map)
        }
        for name in self._order(declared):
            self._expand(declared[name])
        return [instance for name in self.names for instance in self._by_base.get(name, ())]

    def _declare(self, name: str, key: Span, node: Map) -> _Declared:
        axes = self._axes(node)
        combinations = []
        for values in itertools.product(*axes.values()):
            combination = dict(zip(axes, values, strict=True))
            needs = node.get("needs")
            resolved = self.expressions.substitute(needs, combination if axes else None) if needs else None
            self._tell_repeated(resolved)
            combinations.append((combination, [self._known(link) for link in links(resolved)]))
        return _Declared(name, key, node, frozenset(used_axes(scalars(node)) if axes else ()), combinations)

    def _tell_repeated(self, needs: Node | None) -> None:
        """Note stages that a list names twice, except when matrix values coincide."""
        items = needs.items if isinstance(needs, List) else ()
        for twice in repeated(item for item in items if not (isinstance(item, Scalar) and MATRIX in item.via)):
            self.problems.add(
                twice.span,
                f"{twice.text!r} is named twice",
                expected="each stage once",
                hint=f"to feed two inputs with it, name them: `needs: {{model: {twice.text}, ...}}`",
            )

    def _axes(self, node: Map) -> dict[str, tuple[Scalar, ...]]:
        """Return the axes of a stage's matrix; a malformed axis, already reported, gets a single broken value."""
        matrix = node.get("matrix")
        matrix = self.expressions.substitute(matrix) if matrix else None
        if not isinstance(matrix, Map):
            return {}
        axes = {axis: self._values(entry) for axis, entry in matrix.entries.items()}
        if math.prod(len(values) for values in axes.values()) > MAX_STAGES:
            self.problems.add(node.entries["matrix"].key, f"this matrix makes more than {MAX_STAGES} stages")
            return {}
        return axes

    def _values(self, entry: Entry) -> tuple[Scalar, ...]:
        items = entry.value.items if isinstance(entry.value, List) else ()
        if not items or not all(isinstance(item, Scalar) for item in items):
            return (Scalar(None, "", entry.key, "", broken=True),)
        return tuple(self._fitting(item) for item in items if isinstance(item, Scalar))

    def _fitting(self, value: Scalar) -> Scalar:
        if value.broken or AXIS_VALUE.fullmatch(value.text):
            return value
        self.problems.add(
            value.span,
            f"the value {value.text!r} of a matrix cannot be part of a stage's name",
            expected="letters, digits and _ . + - %",
        )
        return replace(value, broken=True)

    def _known(self, link: Link) -> Link:
        """Return the link; an unknown stage is noted and removed from it."""
        base = link.stage.partition("[")[0]
        if link.stage and link.stage not in self.names and base not in self.names:
            self.problems.add(
                link.span,
                f"there is no stage {link.stage!r}",
                expected=one_of(self.names),
                suggestion=_holder(link.stage, self.names) or closest(link.stage, self.names),
                hint=A_FILE if link.stage.endswith(FILES) else "",
            )
            return Link(link.port, "", link.span)
        return link

    def _order(self, declared: Mapping[str, _Declared]) -> list[str]:
        """Return the names of the stages in topological order; loops are reported and cut."""
        edges: dict[tuple[str, str], Span] = {}
        for stage in declared.values():
            for link in stage.edges():
                base = link.stage if link.stage in self.names else link.stage.partition("[")[0]
                if base in declared:
                    edges.setdefault((base, stage.name), link.span)
        order, loops = ordered(tuple(declared), tuple(edges))
        for loop in loops:
            self._tell(loop, edges)
        return order

    def _tell(self, loop: Sequence[str], edges: Mapping[tuple[str, str], Span]) -> None:
        steps = list(itertools.pairwise([*loop, loop[0]]))
        span = edges[steps[0][1], steps[0][0]]
        if len(loop) == 1:
            self.problems.add(span, f"the stage {loop[0]!r} needs itself")
            return
        names, number, more = [*loop, loop[0]], "", []
        if len(loop) > LOOP:
            names[LOOP // 2 : -LOOP // 2] = ["..."]
            number, more = f"{len(loop)} ", [f"... and {len(loop) - LOOP} more"]
        lines = [f"{stage} needs {needed} at {place(edges[needed, stage].position)}" for stage, needed in steps[:LOOP]]
        self.problems.add(
            span,
            f"these {number}stages need one another in a loop: {' -> '.join(names)}",
            hint="\n".join([*lines, *more]),
        )

    def _expand(self, stage: _Declared) -> None:
        rows_by_sources: dict[tuple[str, ...], list[tuple[Axes, Axes, tuple[Link, ...]]]] = {}
        number = 0
        for own, needed in stage.combinations:
            rows: list[tuple[Axes, tuple[Link, ...]]] = [({}, ())]
            for link in needed:
                joined = (
                    row for inherited, links_so_far in rows for row in self._joined(own, inherited, links_so_far, link)
                )
                rows = list(itertools.islice(joined, MAX_STAGES + 1))
            number += len(rows)
            if number > MAX_STAGES:
                self.problems.add(stage.key, f"with what it needs, this stands for more than {MAX_STAGES} stages")
                return
            for inherited, links_so_far in rows:  # stages with the same inputs stay together
                group = tuple(value.text for value in inherited.values())
                rows_by_sources.setdefault(group, []).append((own, {**inherited, **own}, links_so_far))
        for own, axes, links_so_far in itertools.chain.from_iterable(rows_by_sources.values()):
            self._add(stage, own, axes, links_so_far)

    def _joined(
        self, own: Axes, inherited: Axes, links_so_far: tuple[Link, ...], link: Link
    ) -> list[tuple[Axes, tuple[Link, ...]]]:
        """Return the combinations that a combination joins to when another input is connected."""
        if link.stage in self._by_base:
            candidates = self._by_base[link.stage]
        elif link.stage in self._by_id:
            return [(inherited, (*links_so_far, link))]
        else:  # an unknown or malformed stage, or a loop
            self._check_id(link)
            return [(inherited, (*links_so_far, Link(link.port, "", link.span)))]
        fixed = {**inherited, **own}
        fitting = [candidate for candidate in candidates if _agree(fixed, candidate.axes)]
        if not fitting:
            wanted = ", ".join(f"{axis}={value.text}" for axis, value in fixed.items() if axis in candidates[0].axes)
            self.problems.add(
                link.span,
                f"there is no {link.stage!r} with {wanted}",
                expected=one_of(candidate.id for candidate in candidates),
                hint="what needs a matrix by its bare name is made once for each of it; name the stages that are meant",
            )
        return [
            (
                {**inherited, **{axis: value for axis, value in candidate.axes.items() if axis not in own}},
                (*links_so_far, Link(link.port, candidate.id, link.span)),
            )
            for candidate in fitting
        ]

    def _check_id(self, link: Link) -> None:
        """Note the id of a stage of a matrix that does not exist."""
        base, bracket, _ = link.stage.partition("[")
        if bracket and base in self._by_base:
            ids = [instance.id for instance in self._by_base[base]]
            self.problems.add(
                link.span,
                f"there is no stage {link.stage!r}",
                expected=one_of(ids),
                suggestion=closest(link.stage, ids),
            )

    def _add(self, stage: _Declared, own: Axes, axes: Axes, needed: tuple[Link, ...]) -> None:
        valid = not any(value.broken for value in axes.values())
        suffix = ",".join(f"{axis}={value.text}" for axis, value in axes.items())
        name = f"{stage.name}[{suffix}]" if suffix and valid else stage.name
        if name in self._by_id:
            if valid:
                self.problems.add(
                    stage.node.entries["matrix"].key,
                    f"two stages would be called {name!r}",
                    expected="values that differ",
                )
            return
        node = stage.node
        if valid and axes:
            node = node.with_entries({key: entry for key, entry in node.entries.items() if key != "matrix"})
        node = cast("Map", self.expressions.substitute(node, axes or None))
        uses = node.get("uses")
        kind = self.kind_of(uses) if isinstance(uses, Scalar) else None
        if kind and isinstance(uses, Scalar):  # from here on, paths of custom kinds are relative to the pipeline file
            named = replace(uses, value=kind.name, text=kind.name)
            node = node.with_entries({**node.entries, "uses": Entry(node.entries["uses"].key, named)})
        if kind and own and valid:
            node = self._with_axes(stage, node, kind, own)
        self._size += node.size
        if self._size > MAX_SIZE:
            message = f"the stages hold more than {MAX_SIZE} values"
            self.problems.add(stage.key, f"with their matrices written out, {message}")
            self.problems.check()
        instance = Instance(name, stage.name, stage.key, node, kind, axes, needed)
        self._by_id[name] = instance
        self._by_base.setdefault(stage.name, []).append(instance)

    def _with_axes(self, stage: _Declared, node: Map, kind: Kind, own: Axes) -> Map:
        """Return the stage with the values of its axes as parameters."""
        parameters = [param.name for param in kind.params]
        keys = stage.node.map("matrix").entries
        written = node.map("with")
        entries = dict(written.entries)
        for axis, value in own.items():
            if axis in stage.used:
                continue
            if axis not in parameters:
                self.problems.add(
                    keys[axis].key,
                    f"the axis {axis!r} changes nothing: it is not a parameter of {kind.name},"
                    f" and the stage has no ${{matrix.{axis}}}",
                    suggestion=closest(axis, parameters),
                )
            elif axis in written.entries:
                self.problems.add(
                    written.entries[axis].key, f"{axis!r} is set here and by the matrix", expected="one of the two"
                )
            else:
                entries[axis] = Entry(keys[axis].key, value)
        key = node.entries["with"].key if "with" in node.entries else stage.key
        return node.with_entries({**node.entries, "with": Entry(key, written.with_entries(entries))})


def _agree(axes: Axes, candidate: Axes) -> bool:
    """Return whether both have the same values on their common axes."""
    return all(axes[axis].text == value.text for axis, value in candidate.items() if axis in axes)


def _holder(written: str, stages: Iterable[str]) -> str:
    """Return the stage in a path into its result: `export/model.onnx`, `export.outputs.model`."""
    return next((name for name in stages if written.startswith((f"{name}/", f"{name}."))), "")
