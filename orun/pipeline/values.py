"""Parameters of a stage as plain values, with the files that they name."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.errors import PipelineError
from orun.fs.bounded_reads import explain_unreachable, is_special
from orun.pipeline.forms import UNLIMITED
from orun.pipeline.fragments import describe_type, to_plain_default
from orun.pipeline.model import Reference
from orun.pipeline.nodes import List, Map, Node, Scalar
from orun.pipeline.nodes import Path as NodePath
from orun.pipeline.problems import Problems
from orun.pipeline.type_matching import are_same, choose_element, find_member
from orun.stages.codefile import CodeFiles
from orun.stages.custom import UNITS
from orun.stages.params import Param, ParamType
from orun.text.suggestions import Unknown, find_closest, find_similar_path, format_choices

# data.py::test, data.test, data:test()
FUNCTION = re.compile(r"(?P<file>.+?)(\.py)?(?:::?|\.)(?P<name>[A-Za-z_]\w*)(\(\))?")
A_TARGET = "name one: `targets: {NAME: {providers: [CUDAExecutionProvider, CPUExecutionProvider]}}`"
A_HUB_ID = re.compile(r"(?P<id>(?P<owner>\w[\w.-]*/)?\w[\w.-]*)(@\w+)?")
FILES = (".bin", ".ckpt", ".h5", ".keras", ".onnx", ".pb", ".pkl", ".pt", ".pt2", ".pth", ".py", ".safetensors")
HUB = "hub"  # parameter for a model on a hub, if the kind has it
AS_IT_IS = "a path is taken as it stands, without `~` and variables of the shell; ${vars.NAME} is a value of `vars`"


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Context in which values are checked."""

    root: Path  # the folder of the pipeline file
    targets: Collection[str]
    labels: Mapping[str, Mapping[str, str]]  # that the machines of a target must have, by its name
    code: CodeFiles  # the code files that were looked into
    unsound: Collection[NodePath]  # paths of nodes whose mistakes are already reported
    problems: Problems


class Values:
    """Conversion of the nodes of a stage to values."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.references: list[Reference] = []  # the files that the values name
        self.valid = True  # whether every value is
        self._hub = False  # whether the kind takes models of a hub

    def parse_fields(self, params: Sequence[Param], node: Map, path: NodePath, name: str = "") -> dict[str, Any]:
        """Return every parameter with its value in a mapping that has passed the schema, or its default.

        The name of a parameter that has fields ends in a dot.
        """
        values: dict[str, Any] = {}
        if not name:
            self._hub = any(param.name == HUB for param in params)
        for param in params:
            value = node.get(param.name)
            if value is not None:
                values[param.name] = self.convert(param.type, value, (*path, param.name), f"{name}{param.name}")
            elif param.required:
                self.valid = False
            else:
                values[param.name] = self._choose_default(param, name)
        return values

    def _choose_default(self, param: Param, name: str) -> Any:
        """Return a default; a default that names a file is a reference too."""
        default = to_plain_default(param.default)
        if default and param.type.name in ("code", "path"):
            file, _, function = default.rpartition(":") if param.type.name == "code" else (default, "", "")
            self.references.append(Reference(f"{name}{param.name}", file, function))
        return default

    def convert(self, kind: ParamType, node: Node, path: NodePath, name: str) -> Any:
        """Return a value; None for a wrong one."""
        if path in self.surroundings.unsound or (isinstance(node, Scalar) and node.broken):
            self.valid = False
            return None
        if isinstance(node, Scalar) and node.value is None:
            return None
        member = find_member(kind, node)
        if member is None:  # refused by the schema: a mapping without a required key
            self.valid = False
            return None
        if isinstance(node, List):
            item = choose_element(member)
            return [
                self.convert(item, part, (*path, number), f"{name}[{number}]") for number, part in enumerate(node.items)
            ]
        if isinstance(node, Map):
            return self._parse_mapping(member, node, path, name)
        if (
            member.name == "path"
            and node.text.endswith(".py")
            and any(alternative.name == "code" for alternative in kind.items)
        ):
            return self._note_whole_file(node)
        return self._parse_scalar(member, node, name)

    def _note_whole_file(self, node: Scalar) -> None:
        """Note a code file in place of a function in it."""
        try:
            names = self.surroundings.code.get(
                self.surroundings.root / localize(node, self.surroundings.root)
            ).list_functions()
        except (OSError, PipelineError):
            names = ()
        here = [f"{node.text}:{name}" for name in names if not name.startswith("_")]
        self._note_wrong(
            node,
            f"{node.text!r} is a file of code, and what is wanted is a function in it",
            format_choices(here) or f"{node.text}:FUNCTION",
            here[0] if len(here) == 1 else "",
        )

    def _parse_mapping(self, kind: ParamType, node: Map, path: NodePath, name: str) -> dict[str, Any]:
        if kind.name == "object":
            return self.parse_fields(kind.fields, node, path, f"{name}.")
        item = choose_element(kind)
        return {
            key: self.convert(item, entry.value, (*path, key), f"{name}.{key}") for key, entry in node.entries.items()
        }

    def _parse_scalar(self, kind: ParamType, node: Scalar, name: str) -> Any:
        if kind.name in UNITS:
            return self._parse_quantity(kind, node, name)
        if kind.name == "code":
            return self._parse_code(node, name)
        if kind.name == "path":
            return self._parse_path(node, name)
        if kind.name == "target" and node.text not in self.surroundings.targets:
            targets = self.surroundings.targets
            near = find_closest(node.text, targets)
            self._note_wrong(
                node, f"there is no target {node.text!r}", format_choices(targets), near, "" if near else A_TARGET
            )
        if kind.name in ("str", "target"):
            return node.text
        if kind.name == "literal":
            return next(choice for choice in kind.choices if are_same(choice, node.value))
        if kind.name in ("int", "float") and isinstance(node.value, (int, float)):
            return int(node.value) if kind.name == "int" else float(node.value)
        return node.value

    def _parse_quantity(self, kind: ParamType, node: Scalar, name: str) -> float | None:
        message = f"{name.rpartition('.')[2]!r} cannot be {node.text!r}"
        try:
            number = UNITS[kind.name](node.text)
        except ValueError:
            self._note_wrong(node, f"{message}: it is too large", describe_type(kind))
            return None
        low, high = kind.range.low, kind.range.high
        if (low is not None and number < low) or (high is not None and number > high):
            unlimited = number == 0 and kind.optional and name.rpartition(".")[2] == "timeout"
            self._note_wrong(node, message, describe_type(kind), hint=UNLIMITED if unlimited else "")
            return None
        return number

    def _parse_path(self, node: Scalar, name: str) -> str:
        written = localize(node, self.surroundings.root)
        path = self.surroundings.root / written
        if not _exists(path):
            near = self._guess_path(node.text) or find_similar_path(path, node.text)
            self._note_wrong(
                node,
                explain_unreachable(path, node.text, "file or folder"),
                "a path relative to the pipeline file",
                near,
                self._advise_missing(node, path, name, near),
            )
        elif is_special(path):
            self._note_wrong(node, f"{node.text!r} is a pipe, a socket or a device", "a file or a folder")
        self.references.append(Reference(name, written))
        return written

    def _advise_missing(self, node: Scalar, path: Path, name: str, near: str) -> str:
        """Return a hint for a missing path that looks like something else: a shell variable, a model on a hub."""
        if node.text.startswith(("~", "$", "{")):
            return AS_IT_IS
        called = A_HUB_ID.fullmatch(node.text)
        if not node.text.isprintable():
            return "within double quotes a \\ begins an escape: write / between folders"
        if called and not near and path.suffix not in FILES and not (called["owner"] and _exists(path.parent)):
            if name == "model" and self._hub:
                return f"a model on the Hugging Face hub goes by its whole commit: `hub: {called['id']}@COMMIT`"
            if name.endswith(".tokenizer"):
                return f"save it first: AutoTokenizer.from_pretrained({node.text!r}).save_pretrained('tokenizer')"
        return ""

    def _guess_path(self, written: str) -> str:
        """Return the existing path or function for a notation of other tools, such as `data.py::test`."""
        if (called := FUNCTION.fullmatch(written)) and self._defines(f"{called['file']}.py", called["name"]):
            return f"{called['file']}.py:{called['name']}"
        slashed = written.replace("\\", "/")
        return slashed if _exists(self.surroundings.root / slashed) else ""

    def _defines(self, file: str, function: str) -> bool:
        try:
            self.surroundings.code.get(self.surroundings.root / file).require(function)
        except (OSError, Unknown, PipelineError):
            return False
        return True

    def _parse_code(self, node: Scalar, name: str) -> str:
        written = localize(node, self.surroundings.root)
        file, _, function = written.rpartition(":")
        path = self.surroundings.root / file
        try:
            self.surroundings.code.get(path).require(function)
        except OSError:
            path_text = node.text.rpartition(":")[0]
            near = find_similar_path(path, path_text)
            self._note_wrong(
                node,
                explain_unreachable(path, path_text, "code file"),
                "the path of a Python file, relative to the pipeline file",
                f"{near}:{function}" if near.endswith(".py") else "",
            )
        except Unknown as error:
            self._note_wrong(node, error.problem, error.expected, error.suggestion)
        except PipelineError as error:
            self.surroundings.problems.extend(error.problems)
            self.valid = False
        self.references.append(Reference(name, file, function))
        return written

    def _note_wrong(self, node: Scalar, message: str, expected: str, suggestion: str = "", hint: str = "") -> None:
        self.valid = False
        self.surroundings.problems.add(node.span, message, expected=expected, suggestion=suggestion, hint=hint)


def localize(node: Scalar, root: Path) -> str:
    """Return a path (or `path:function`) relative to `root`; it is relative to the file that wrote it."""
    folder = Path(node.file).parent if Path(node.file).is_absolute() else root
    if folder == root or Path(node.text).is_absolute():
        return node.text
    return Path(os.path.relpath(folder / node.text, root)).as_posix()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, or a folder that is not accessible
        return False
