"""Environments of a pipeline file, and the environment of each stage."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from orun.core.targets import Environment, Target
from orun.pipeline.files import add_missing
from orun.pipeline.nodes import Map, Node, Path, Scalar
from orun.pipeline.problems import Problems
from orun.pipeline.requirements import Requirements, explain_error
from orun.pipeline.values import localize

KEY = "environment"


@dataclass
class Environments:
    """The environments of a file by name."""

    problems: Problems
    known: dict[str, Environment] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # of the requirements files that were read, by path

    def read(self, declared: Map, root: FilePath, unsound: Collection[Path]) -> None:
        """Read the `environments` of a file, which has passed the schema."""
        for name, entry in declared.entries.items():
            if any(wrong[:2] == ("environments", name) for wrong in unsound) or not isinstance(entry.value, Map):
                self.known[name] = Environment(name, ())
                continue
            packages = entry.value.list_items("packages")
            requirements = Requirements([item.text for item in packages if isinstance(item, Scalar)])
            file = entry.value.get("requirements")
            if isinstance(file, Scalar):
                self._read_file(file, root, requirements)
            elif not entry.value.entries:
                self.problems.add(
                    entry.key,
                    f"environment {name!r} holds nothing",
                    expected="`packages`, a list such as [onnxruntime-openvino==1.24.1], or `requirements`, a file",
                )
            self.known[name] = Environment(name, tuple(requirements.lines), tuple(requirements.constraints))
            self.digests |= requirements.digests

    def _read_file(self, node: Scalar, root: FilePath, requirements: Requirements) -> None:
        path = root / localize(node, root)
        try:
            requirements.read(path)
        except (OSError, ValueError) as error:
            expected = "a requirements file, its path relative to the pipeline file"
            add_missing(self.problems, node, path, f"cannot read {node.text!r}: {explain_error(error)}", expected)
        self.problems.extend(requirements.problems)

    def choose(self, node: Map, target: Target | None, *, out_of_process: bool) -> Environment | None:
        """Return the environment of a stage's process: its own, else its target's unless models run out of process."""
        own = self.find(node.get(KEY))
        if out_of_process:
            return own
        wanted = target.environment if target else None
        if own and target and wanted and own.name != wanted.name:
            self.problems.add(
                node.entries[KEY].key,
                f"the stage is to run in environment {own.name!r}, and its target {target.name!r} in {wanted.name!r}",
                expected="the same for both, or none for the stage",
            )
        return own or wanted

    def find(self, node: Node | None) -> Environment | None:
        """Return the environment that a stage or target names; None for an unknown name."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or node.broken:
            return None
        if node.text not in self.known:
            otherwise = "an entry of `environments`, of which there are none"
            message = f"there is no environment {node.text!r}"
            self.problems.add_unknown(node.span, message, node.text, self.known, otherwise)
        return self.known.get(node.text)
