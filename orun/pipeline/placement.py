"""Other machines: the labels that a stage's machine must have (`runs_on`), and ignored files that travel (`ship`)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from orun.fs.observed_state import find_project
from orun.pipeline.instances import Instance
from orun.pipeline.nodes import List, Map, Node, Scalar
from orun.pipeline.nodes import Path as NodePath
from orun.pipeline.problems import Problems
from orun.pipeline.values import localize

RUNS_ON, SHIP = "runs_on", "ship"
Labels = Mapping[str, str]


def read_target_labels(targets: Map, unsound: Collection[NodePath]) -> dict[str, Labels]:
    """Return the labels under `runs_on` of each target that has some."""
    nodes = {name: entry.value for name, entry in targets.entries.items() if ("targets", name, RUNS_ON) not in unsound}
    return {name: labels for name, node in nodes.items() if (labels := _read_labels(node))}


def merge_labels(
    instance: Instance, targets: Collection[str], of_targets: Mapping[str, Labels], problems: Problems
) -> Labels:
    """Return the labels that the machine of a stage must have: its own, and those of its targets."""
    own = _read_labels(instance.node)
    labels: dict[str, str] = {}
    sources: dict[str, str] = {}
    for target in targets:
        for name, text in of_targets.get(target, {}).items():
            if labels.setdefault(name, text) != text and name not in own:
                first = sources[name]
                problems.add(
                    instance.key,
                    f"the targets of {instance.id!r} want different machines: {first!r} {name}={labels[name]}, "
                    f"{target!r} {name}={text}",
                    expected=f"one machine for both targets: `{RUNS_ON}: {{{name}: ...}}` of the stage decides",
                )
            sources.setdefault(name, target)
    return labels | own


def _read_labels(node: Node) -> dict[str, str]:
    entries = node.map(RUNS_ON).entries if isinstance(node, Map) else {}
    return {name: entry.value.text for name, entry in entries.items() if isinstance(entry.value, Scalar)}


def read_shipped(tree: Map, root: Path, unsound: Collection[NodePath], problems: Problems) -> tuple[str, ...]:
    """Return the paths under `ship`, relative to the pipeline's folder; note each that is not in the project."""
    listed = tree.get(SHIP)
    if not isinstance(listed, List):
        return ()
    project = Path(os.path.realpath(find_project(root)))
    paths: dict[str, None] = {}
    for number, item in enumerate(listed.items):
        if (SHIP, number) in unsound or not isinstance(item, Scalar):
            continue
        path = localize(item, root)
        if not os.path.lexists(root / path):
            problems.add(
                item.span, f"there is no file or folder {item.text!r}", expected="a path relative to this file"
            )
        elif not Path(os.path.realpath(root / path)).is_relative_to(project):
            problems.add(
                item.span,
                f"{item.text!r} is outside of the project",
                expected="a file or folder of the project: nothing else reaches other machines",
            )
        paths[Path(os.path.normpath(path)).as_posix()] = None
    return tuple(paths)
