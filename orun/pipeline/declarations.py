"""Stages of the file with the combinations of their matrices and what each needs, before their expansion."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

from orun.core.serialization import Record, replace
from orun.pipeline.expressions import MATRIX, Expressions, list_used_axes
from orun.pipeline.fragments import NAME
from orun.pipeline.grammar import Limits
from orun.pipeline.graph import sort_topologically
from orun.pipeline.instances import Axes, Link, read_links
from orun.pipeline.nodes import Entry, List, Map, Node, Scalar, Span, find_repeated, list_scalars
from orun.pipeline.problems import Problems
from orun.pipeline.unknown_keys import names_stages, suggest_import
from orun.text.positions import format_position
from orun.text.suggestions import find_closest, format_choices

AXIS_VALUE = re.compile(r"[A-Za-z0-9_.+%-]+")  # part of a stage's id, and so of a folder's name
SEPARATOR = re.compile(r"[\s,;]+")  # between stages in a text that should be a list
MAX_STAGES = 1000  # stages that a stage of the file may expand to
SLASHES = (
    "of paths, name the part that differs: `path: models/${matrix.AXIS}.onnx`; of kinds, write a stage for each and "
    "choose among them: `needs: ${matrix.AXIS}`"
)
SHOWN = 8  # steps of a loop that a message shows at either end
KEYS = ("uses", "needs", "with", "gate", "matrix", "env", *(limit.name for limit in fields(Limits)))  # of a stage


class DeclaredStage(Record, frozen=True):
    """A stage of the file."""

    name: str
    key: Span  # position of its name
    node: Map
    used: frozenset[str]  # axes that its expressions name
    combinations: Sequence[tuple[Axes, Sequence[Link]]]  # values of its axes, with its `needs`

    def list_edges(self) -> list[Link]:
        """Return the entries of `needs` of all combinations."""
        return [link for _, needed in self.combinations for link in needed]


class Declarations:
    """Reader of the file's stages."""

    def __init__(self, stages: Map, expressions: Expressions, problems: Problems) -> None:
        self.names = stages.entries
        self.expressions = expressions
        self.problems = problems

    def sort_stages(self) -> list[DeclaredStage]:
        """Return the stages in topological order; loops are reported and cut."""
        declared = {
            name: self._declare(name, entry.key, entry.value)
            for name, entry in self.names.items()
            if isinstance(entry.value, Map)
        }
        edges: dict[tuple[str, str], Span] = {}
        for stage in declared.values():
            for link in stage.list_edges():
                base = link.stage if link.stage in self.names else link.stage.partition("[")[0]
                if base in declared:
                    edges.setdefault((base, stage.name), link.span)
        order, loops = sort_topologically(tuple(declared), tuple(edges))
        for loop in loops:
            self._report_loop(loop, edges)
        return [declared[name] for name in order]

    def _declare(self, name: str, key: Span, node: Map) -> DeclaredStage:
        axes = self._read_axes(node)
        written = node.get("needs")
        needs = written or self._find_misspelt_needs(node)
        combinations = []
        for values in itertools.product(*axes.values()):
            combination = dict(zip(axes, values, strict=True))
            resolved = self.expressions.substitute(needs, combination if axes else None) if needs else None
            self._report_repeated(resolved)
            known = [self._keep_known(link, resolved, is_reported=not written) for link in read_links(resolved)]
            combinations.append((combination, known))
        return DeclaredStage(
            name, key, node, frozenset(list_used_axes(list_scalars(node)) if axes else ()), combinations
        )

    def _find_misspelt_needs(self, stage: Map) -> Node | None:
        """Return the value of the key that was meant to be `needs`, so that no input is told to be missing too."""
        unknown = {key: entry.value for key, entry in stage.entries.items() if key not in KEYS}
        return next(
            (
                value
                for key, value in unknown.items()
                if names_stages(value, self.names) or find_closest(key, KEYS) == "needs"
            ),
            None,
        )

    def _report_repeated(self, needs: Node | None) -> None:
        """Note stages that a list names twice, except when matrix values coincide."""
        items = needs.items if isinstance(needs, List) else ()
        for twice in find_repeated(item for item in items if not (isinstance(item, Scalar) and MATRIX in item.via)):
            self.problems.add(
                twice.span,
                f"{twice.text!r} is named twice",
                expected="each stage once",
                hint=f"to feed two inputs with it, name them: `needs: {{model: {twice.text}, ...}}`",
            )

    def _read_axes(self, node: Map) -> dict[str, tuple[Scalar, ...]]:
        """Return the axes of a stage's matrix; a malformed axis, already reported, gets a single broken value."""
        matrix = node.get("matrix")
        matrix = self.expressions.substitute(matrix) if matrix else None
        if not isinstance(matrix, Map):
            return {}
        axes = {axis: self._read_values(entry) for axis, entry in matrix.entries.items()}
        if math.prod(len(values) for values in axes.values()) > MAX_STAGES:
            self.problems.add(node.entries["matrix"].key, f"this matrix makes more than {MAX_STAGES} stages")
            return {}
        return axes

    def _read_values(self, entry: Entry) -> tuple[Scalar, ...]:
        items = entry.value.items if isinstance(entry.value, List) else ()
        if not items or not all(isinstance(item, Scalar) for item in items):
            return (Scalar(None, "", entry.key, "", broken=True),)
        return tuple(self._validate_value(item) for item in items if isinstance(item, Scalar))

    def _validate_value(self, value: Scalar) -> Scalar:
        if value.broken or AXIS_VALUE.fullmatch(value.text):
            return value
        self.problems.add(
            value.span,
            f"the value {value.text!r} of a matrix cannot be part of a stage's name",
            expected="letters, digits and _ . + - %",
            hint=SLASHES if "/" in value.text else "",
        )
        return replace(value, broken=True)

    def _keep_known(self, link: Link, needs: Node | None, *, is_reported: bool) -> Link:
        """Return the link; an unknown stage is removed from it, and noted unless its place is reported already."""
        base = link.stage.partition("[")[0]
        if not link.stage or link.stage in self.names or base in self.names:
            return link
        if not is_reported:
            self._report_unknown(link, needs)
        return Link(link.port, "", link.span)

    def _report_unknown(self, link: Link, needs: Node | None) -> None:
        message, several = f"there is no stage {link.stage!r}", list(filter(None, SEPARATOR.split(link.stage)))
        if len(several) > 1 and all(name in self.names for name in several):
            self.problems.add(
                link.span,
                message,
                expected="one stage for the input" if isinstance(needs, Map) else "a list, with each stage as an item",
                suggestion=f"[{', '.join(several)}]" if isinstance(needs, Scalar) else "",
            )
            return
        near = next((name for name in self.names if link.stage.startswith((f"{name}/", f"{name}."))), "")
        near = near or find_closest(link.stage, self.names)
        if not near or re.fullmatch(NAME, near):  # else the schema refuses the name itself
            self.problems.add(
                link.span,
                message,
                expected=format_choices(self.names),
                suggestion=near,
                hint=suggest_import(link.stage),
            )

    def _report_loop(self, loop: Sequence[str], edges: Mapping[tuple[str, str], Span]) -> None:
        steps = list(itertools.pairwise([*loop, loop[0]]))
        span = edges[steps[0][1], steps[0][0]]
        if len(loop) == 1:
            self.problems.add(span, f"the stage {loop[0]!r} needs itself")
            return
        lines = [
            f"{stage} needs {needed} at {format_position(edges[needed, stage].position)}" for stage, needed in steps
        ]
        message = f"these stages need one another in a loop: {' -> '.join(_shorten([*loop, loop[0]]))}"
        self.problems.add(span, message, hint="\n".join(_shorten(lines)))


def _shorten(steps: Sequence[str]) -> Sequence[str]:
    """Return the first and last steps of a loop, with the number of those between them."""
    if len(steps) <= 2 * SHOWN:
        return steps
    return [*steps[:SHOWN], f"({len(steps) - 2 * SHOWN} more)", *steps[-SHOWN:]]
