"""Expansion of matrices: a stage of the graph for each combination, with the stages that it needs.

A stage that needs the bare name of a stage with a matrix is expanded along the same axes. Inputs that share an axis are
joined on it. `needs: int8[per_channel=true]` names a single stage.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

from orun.core.serialization import replace
from orun.pipeline.declarations import MAX_STAGES, Declarations, DeclaredStage
from orun.pipeline.expressions import Expressions
from orun.pipeline.instances import Axes, Instance, Link, agree
from orun.pipeline.nodes import MAX_SIZE, Entry, Map, Scalar
from orun.pipeline.problems import Problems
from orun.stages.kind import Kind
from orun.text.suggestions import find_closest, format_choices


class Expansion:
    """Expansion of the file's stages to the stages of the graph."""

    def __init__(
        self,
        stages: Map,
        expressions: Expressions,
        kind_of: Callable[[Scalar], Kind | None],
        problems: Problems,
    ) -> None:
        self.names = stages.entries
        self.declarations = Declarations(stages, expressions, problems)
        self.expressions = expressions
        self.kind_of = kind_of
        self.problems = problems
        self._size = 0  # number of values in the stages
        self._by_id: dict[str, Instance] = {}
        self._by_base: dict[str, list[Instance]] = {}

    def list_instances(self) -> list[Instance]:
        """Return every stage of the graph, in file order."""
        for stage in self.declarations.sort_stages():
            self._expand(stage)
        return [instance for name in self.names for instance in self._by_base.get(name, ())]

    def _expand(self, stage: DeclaredStage) -> None:
        rows_by_sources: dict[tuple[str, ...], list[tuple[Axes, Axes, tuple[Link, ...]]]] = {}
        number = 0
        for own, needed in stage.combinations:
            rows: list[tuple[Axes, tuple[Link, ...]]] = [({}, ())]
            for link in needed:
                joined = (
                    row for inherited, links_so_far in rows for row in self._join(own, inherited, links_so_far, link)
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

    def _join(
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
        fitting = [candidate for candidate in candidates if agree(fixed, candidate.axes)]
        if not fitting:
            wanted = ", ".join(f"{axis}={value.text}" for axis, value in fixed.items() if axis in candidates[0].axes)
            self.problems.add(
                link.span,
                f"there is no {link.stage!r} with {wanted}",
                expected=format_choices(candidate.id for candidate in candidates),
                hint="a stage that needs a matrix by its bare name is made once for each instance; name one to choose",
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
            self.problems.add_unknown(link.span, f"there is no stage {link.stage!r}", link.stage, ids)

    def _add(self, stage: DeclaredStage, own: Axes, axes: Axes, needed: tuple[Link, ...]) -> None:
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

    def _with_axes(self, stage: DeclaredStage, node: Map, kind: Kind, own: Axes) -> Map:
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
                    suggestion=find_closest(axis, parameters),
                )
            elif axis in written.entries:
                self.problems.add(
                    written.entries[axis].key, f"{axis!r} is set here and by the matrix", expected="one of the two"
                )
            else:
                entries[axis] = Entry(keys[axis].key, value)
        key = node.entries["with"].key if "with" in node.entries else stage.key
        return node.with_entries({**node.entries, "with": Entry(key, written.with_entries(entries))})
