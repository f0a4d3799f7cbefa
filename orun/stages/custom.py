"""Reader of kinds that are the user's functions, `./file.py:function`, from their source without running it."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orun.core.metrics import Quantity
from orun.core.source_location import Problem
from orun.core.targets import StageClass
from orun.errors import PipelineError
from orun.fs.bounded_reads import explain_unreachable
from orun.stages.annotations import ALLOWED, Unreadable, read_annotation
from orun.stages.codefile import CodeFile, CodeFiles, Function
from orun.stages.contract import Artifact, Port, Spec
from orun.stages.kind import Kind
from orun.stages.params import REQUIRED, Param, ParamType, convert_type, find_doc
from orun.text.suggestions import Unknown, find_closest, find_similar_path, format_choices
from orun.text.units import parse_duration, parse_ratio, parse_size

DECORATOR = "stage"
ARTIFACTS: tuple[str, ...] = typing.get_args(Artifact)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "output": ARTIFACTS,
    "interface": ("same", "changed"),
    "stage_class": typing.get_args(StageClass),
}
NAMES = ("tools", "metrics")  # arguments with lists of names
FLAGS = ("deterministic", "baseline", "releases")
ARGUMENTS = ("inputs", *CHOICES, *NAMES, *FLAGS)
UNITS: Mapping[str, Callable[[str | float], float]] = {
    "duration": parse_duration,
    "size": parse_size,
    "ratio": parse_ratio,
}
PLAIN: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}


def read(uses: str, root: Path, files: CodeFiles) -> Kind:
    """Return the kind that a function declares.

    Raises:
        Unknown: when there is no such file or function.
        PipelineError: when the file or the declaration is wrong; locations are in that file.
    """
    name, _, function = uses.rpartition(":")
    try:
        file = files.get(root / name)
    except OSError as error:
        raise Unknown(
            explain_unreachable(root / name, name, "code file"),
            expected="the path of a Python file, relative to the pipeline file",
            suggestion=f"{meant}:{function}" if (meant := find_similar_path(root / name, name, (".py",))) else "",
        ) from error
    file.require(function)
    node = file.find_function(function)
    if node is None:
        raise Unknown(
            f"{function!r} in {name} is not defined by `def`",
            expected="a function that is defined in that file, so that its parameters can be read without running it",
        )
    return _Declaration(file, node).parse_kind(uses)


class _Declaration:
    """Reader of one function, which collects all its errors."""

    def __init__(self, file: CodeFile, node: Function) -> None:
        self.file = file
        self.node = node
        self.problems: list[Problem] = []

    def parse_kind(self, uses: str) -> Kind:
        doc = inspect.cleandoc(
            ast.get_docstring(self.node) or f"The function {self.node.name} of {self.file.path.name}."
        )
        spec = self._build_spec()
        params = self._parse_params(_parse_docs(doc))
        if self.problems:
            raise PipelineError(self.problems)
        return Kind(uses, "file", uses, doc, params, spec, lambda _params: spec.metrics)

    def _add_problem(self, node: ast.AST, message: str, expected: str = "", suggestion: str = "") -> None:
        self.problems.append(self.file.build_problem(node, message, expected=expected, suggestion=suggestion))

    def _parse_params(self, docs: Mapping[str, str]) -> tuple[Param, ...]:
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        if not positional:
            self._add_problem(
                self.node, f"{self.node.name} takes no context", "def f(context, *, parameter: type = default)"
            )
        for argument in (*positional[1:], arguments.vararg, arguments.kwarg):
            if argument:
                self._add_problem(
                    argument,
                    f"{argument.arg!r} of {self.node.name} is not a keyword-only argument, so it is no parameter",
                    "parameters after a `*`: def f(context, *, parameter: type = default)",
                )
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return tuple(param for arg, default in pairs if (param := self._parse_param(arg, default, docs)))

    def _parse_param(self, argument: ast.arg, default: ast.expr | None, docs: Mapping[str, str]) -> Param | None:
        if argument.annotation is None:
            self._add_problem(argument, f"the parameter {argument.arg!r} of {self.node.name} has no type", ALLOWED)
            return None
        try:
            hint = read_annotation(argument.annotation)
        except Unreadable as error:
            self._add_problem(error.node, f"the parameter {argument.arg!r}: {error.message}", ALLOWED)
            return None
        kind, doc = convert_type(hint), find_doc(hint) or docs.get(argument.arg, "")
        return Param(argument.arg, kind, REQUIRED if default is None else self._parse_default(default, kind), doc)

    def _parse_default(self, node: ast.expr, kind: ParamType) -> Any:
        value = self._parse_literal(node)
        if value is None:
            if not kind.optional and isinstance(node, ast.Constant):
                self._add_problem(
                    node, "None is the default of a parameter that cannot be None", "`| None` in its type"
                )
            return None
        if parse := UNITS.get(kind.name):
            try:
                return parse(value)
            except ValueError as error:
                self._add_problem(node, str(error))
                return None
        if kind.name in PLAIN and type(value) not in PLAIN[kind.name]:
            self._add_problem(node, f"{ast.unparse(node)} is not of the type {kind.name}")
        if kind.name == "literal" and value not in kind.choices:
            self._add_problem(
                node,
                f"{ast.unparse(node)} is not among the values of its type",
                format_choices(map(repr, kind.choices)),
            )
        return value

    def _parse_literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            self._add_problem(
                node, f"{ast.unparse(node)} is not a literal", "a literal: the file is read without being run"
            )
            return None

    def _build_spec(self) -> Spec:
        values = ((keyword.arg, self._parse_argument(keyword)) for keyword in self._list_keywords())
        arguments = {name: value for name, value in values if value is not None}
        ports = arguments.get("inputs", {"model": "onnx"})
        return Spec(
            inputs={name: Port((kind,), "") for name, kind in ports.items()},
            output=arguments.get("output", "onnx"),
            tools=tuple(arguments.get("tools", ())),
            interface=arguments.get("interface", "same"),
            stage_class=arguments.get("stage_class", "portable"),
            deterministic=arguments.get("deterministic", True),
            baseline=arguments.get("baseline", False),
            releases=arguments.get("releases", False),
            metrics=dict.fromkeys(arguments["metrics"], Quantity()) if "metrics" in arguments else None,
        )

    def _list_keywords(self) -> list[ast.keyword]:
        for decorator in self.node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = ast.unparse(call.func if call else decorator).rpartition(".")[2]
            if name == DECORATOR:
                if call and call.args:
                    self._add_problem(call.args[0], f"@{DECORATOR} takes arguments by name", format_choices(ARGUMENTS))
                return call.keywords if call else []
        return []

    def _parse_argument(self, keyword: ast.keyword) -> Any:
        """Return the value of an argument of the decorator; None when it is wrong."""
        if keyword.arg not in ARGUMENTS:
            near = find_closest(keyword.arg or "", ARGUMENTS)
            self._add_problem(keyword, f"@{DECORATOR} has no argument {keyword.arg!r}", format_choices(ARGUMENTS), near)
            return None
        value = self._parse_literal(keyword.value)
        if value is None:
            return None
        if choices := CHOICES.get(keyword.arg):
            return self._check_argument(keyword, value, value in choices, format_choices(choices))
        if keyword.arg in FLAGS:
            return self._check_argument(keyword, value, isinstance(value, bool), "True or False")
        if keyword.arg in NAMES:
            good = isinstance(value, list | tuple | set) and all(isinstance(name, str) for name in value)
            return self._check_argument(keyword, value, good, "a list of names")
        good = isinstance(value, dict) and all(kind in ARTIFACTS for kind in value.values())
        return self._check_argument(keyword, value, good, f"a mapping of inputs to {format_choices(ARTIFACTS)}")

    def _check_argument(self, keyword: ast.keyword, value: Any, good: bool, expected: str) -> Any:
        if good:
            return value
        self._add_problem(keyword.value, f"{keyword.arg} of @{DECORATOR} cannot be {value!r}", expected)
        return None


def _parse_docs(doc: str) -> dict[str, str]:
    """Return the description of each argument in the `Args:` section of a docstring."""
    _, _, section = doc.partition("\nArgs:\n")
    docs: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line.strip() and not line.startswith(" "):
            break  # the next section
        if entry := re.match(r" {2,4}(\w+)(?: \([^)]*\))?: *(.*)", line):
            name = entry[1]
            docs[name] = entry[2]
        elif name and line.strip():
            docs[name] += f" {line.strip()}"
    return docs
