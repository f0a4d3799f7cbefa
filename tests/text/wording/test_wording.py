"""Facts and words: each fact has words, each code is documented, and no code takes words apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

import orun
from orun.core.component_kinds import ComponentKind
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import CHANGED, ReasonCode
from orun.text.wording import advice, baseline_comparisons, caveats, findings, reasons
from orun.text.wording.components import NAMES, name_component

PACKAGE = Path(orun.__file__).parent
PAGE = PACKAGE.parent / "docs" / "reference" / "reasons.md"
ROOMS = ("planning", "gates", "noop", "history", "blame", "report", "runner", "cli")
SPEAKING = {"cli", "scaffold", "report", "blame"}  # rooms that make sentences
RENDERERS = (reasons.RENDERERS, findings.RENDERERS, baseline_comparisons.METHODS, advice.RENDERERS, caveats.RENDERERS)
CUTS = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit", "replace",
    "find", "rfind", "index", "rindex",
}  # fmt: skip
PATTERN_METHODS = {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
WORDS = {"problem", "why", "hint", "note", "sentence", "advice", "stopped"}  # names of texts for people
ERRORS = {"error", "failure", "exception", "refused"}
TWO_WORDS = re.compile(r"\w \w|\w $|^ \w|^; $")
# Files that take texts apart, and whose texts these are.
TEXTS = {
    "cli/completion.py": "the shell's script by click",
    "cli/usage.py": "click",
    "cluster/connection.py": "Ray",
    "cluster/shared_ray.py": "the log of Ray's process",
    "core/run_record.py": "an outcome, which is two words",
    "environment/entry_points.py": "frames of the interpreter",
    "environment/hosts.py": "names of facts about a GPU",
    "environment/install_commands.py": "the linker",
    "environment/physical_memory.py": "the kernel",
    "environment/providers.py": "the process that opens a session",
    "environment/startup.py": "lines of a .pth file",
    "environment/venv_builder.py": "uv and pip",
    "executors/tracing/child_modules.py": "lines of a .pth file",
    "fs/observed_state.py": "states in stored keys",
    "gates/baseline_file.py": "msgspec",
    "measure/accuracy/custom.py": "NumPy",
    "measure/latency/cold_start.py": "the kernel",
    "measure/session.py": "ONNX Runtime",
    "pipeline/indentation.py": "PyYAML",
    "pipeline/problems.py": "names of Unicode characters",
    "pipeline/punctuation.py": "PyYAML",
    "pipeline/syntax.py": "PyYAML",
    "pipeline/validate.py": "what editors show for the schema",
    "report/failures.py": "the log of a stage",
    "scaffold/goal.py": "the user's answer",
    "stages/_graph/io.py": "web pages",
    "stages/_sklearn/check.py": "ONNX Runtime",
    "stages/_sklearn/export.py": "skl2onnx",
    "stages/quantize/_calibration.py": "NumPy",
    "stages/quantize/_integers.py": "ONNX Runtime",
    "stages/release/_server_lock.py": "pip",
    "text/library_messages.py": "TensorFlow",
}


def test_each_code_has_words() -> None:
    known = {code for renderers in RENDERERS for code in renderers} | {ReasonCode.ACCEPTED_BY}
    assert known == set(ReasonCode)


def test_each_kind_of_component_has_a_name_and_a_code() -> None:
    assert NAMES.keys() == CHANGED.keys() == set(ComponentKind)
    assert len({name_component(kind, "x", "y") for kind in ComponentKind}) == len(ComponentKind)


def test_each_code_is_documented_once() -> None:
    page = PAGE.read_text(encoding="utf-8")
    facts, kinds = page.split("## Kinds of components")
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", facts, re.MULTILINE)) == sorted(ReasonCode)
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", kinds, re.MULTILINE)) == sorted(ComponentKind)


def test_a_code_of_a_later_version_is_shown() -> None:
    later = Reason("moon-full", {"phase": "full"})
    assert reasons.describe_reason(later) == "moon-full full"
    assert findings.describe_finding(later) == "moon-full full"
    assert reasons.describe_reason(
        build_reason(ReasonCode.COMPONENT_CHANGED, kind="moon", subject="x", old="1", new="2")
    ) == ("moon x: 1 -> 2")


def trees(pattern: str, *places: str) -> Iterator[tuple[str, ast.Module]]:
    """Parse the files in which a regular expression is found, of rooms and files of the package."""
    for place in places:
        root = PACKAGE / place
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            text = path.read_text(encoding="utf-8")
            if re.search(pattern, text):
                yield path.relative_to(PACKAGE).as_posix(), ast.parse(text)


def test_only_reports_make_sentences() -> None:
    """A card and a bundle show the sentences that their provenance holds; the runner reports an agent's refusal."""
    speaking = {
        name if name.startswith("planning/") else name.split("/")[0]
        for name, tree in trees(r"text\.wording", *(path.name for path in PACKAGE.iterdir() if path.is_dir()))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("orun.text.wording")
    }
    assert speaking - SPEAKING == {"text", "runner", "planning/provenance.py"}


def test_reasons_have_codes_of_the_enumeration() -> None:
    """No code is written out beside the enumeration."""
    calls = [
        (f"{name}:{node.lineno}", node.args[0])
        for name, tree in trees(r"\b(build_r|R)eason\(", *ROOMS, "api.py", "remote", "eventlog")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("build_reason", "Reason")
    ]
    assert len(calls) > 50
    assert [place for place, code in calls if isinstance(code, ast.Constant)] == []


def test_no_code_takes_a_sentence_apart() -> None:
    """Facts are data: a text of orun's own is not read again, whoever made it."""
    readers = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if any(_readings(path))}
    assert readers == TEXTS.keys()


@pytest.mark.parametrize(
    "code",
    [
        'note.removeprefix(FEWER)\nFEWER = "with few of them"',
        'text.split("; ")',
        'text.partition(" such as ")',
        're.search("no row", error.why)',
        "PATTERN.search(str(error))",
        '"row" in failure.problem',
        '"with few of them" in text',
        'FEWER not in text\nFEWER: str = "with few of them"',
        'hint.index("row")',
        "for line in error.why.splitlines():\n    PATTERN.match(line)",
        'any(PATTERN.match(line.strip()) for line in error.hint.split("\\n"))',
    ],
)
def test_code_that_takes_a_sentence_apart_is_found(tmp_path: Path, code: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert any(_readings(path))


@pytest.mark.parametrize(
    "code",
    [
        'names.split(", ")',
        'path.removesuffix(".py")',
        'error.why.partition("\\n")',
        "error.why.splitlines()",
        '"no baseline" in {verdict.outcome for verdict in verdicts}',
    ],
)
def test_other_texts_may_be_taken_apart(tmp_path: Path, code: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert not any(_readings(path))


def _readings(path: Path) -> Iterator[ast.AST]:
    """Yield where a file looks for two words in a text, or for anything in the words of an error or a finding."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    constants = _constants(nodes)
    lines = {name for node in nodes for name in _lines_of_words(node)}
    for node in nodes:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            texts, place = [node.left], node.comparators[0]
            is_text = not isinstance(place, (ast.Set, ast.SetComp, ast.List, ast.ListComp, ast.Tuple, ast.Dict))
            if _is_words(place, lines) or (is_text and _has_two_words(texts, constants)):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CUTS and (
                _has_two_words(node.args[:1], constants)
                or (_is_words(node.func.value, lines) and not _is_line_end(node.args[:1]))
            ):
                yield node
            if node.func.attr in PATTERN_METHODS and any(_is_words(text, lines) for text in node.args):
                yield node


def _constants(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """Return the constants of a file by name, those that it imports from orun too."""
    constants: dict[str, ast.expr] = {}
    for node in nodes[0].body if isinstance(nodes[0], ast.Module) else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            constants[node.target.id] = node.value
    for inner in nodes:
        if isinstance(inner, ast.ImportFrom) and inner.module and inner.module.startswith("orun."):
            file = PACKAGE.parent / f"{inner.module.replace('.', '/')}.py"
            names = {alias.name: alias.asname or alias.name for alias in inner.names if alias.name.isupper()}
            if names and file.exists():
                theirs = _constants_of_file(file)
                constants |= {own: theirs[name] for name, own in names.items() if name in theirs}
    return constants


@cache
def _constants_of_file(path: Path) -> dict[str, ast.expr]:
    return _constants(list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))))


def _has_two_words(nodes: Sequence[ast.expr], constants: Mapping[str, ast.expr]) -> bool:
    """Return whether an expression has a text of two words or the mark between two sentences, or a name of one."""
    inside = [node for top in nodes for node in ast.walk(top)]
    inside += [node for name in inside if isinstance(name, ast.Name) for node in _walk_constant(name, constants)]
    texts = [node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return any(TWO_WORDS.search(text) for text in texts)


def _walk_constant(name: ast.Name, constants: Mapping[str, ast.expr]) -> Iterator[ast.AST]:
    return ast.walk(constants[name.id]) if name.id in constants else iter(())


def _lines_of_words(node: ast.AST) -> Iterator[str]:
    """Yield the variable of a loop over the lines of an error or a finding."""
    if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
        inside = [each for each in ast.walk(node.iter) if isinstance(each, (ast.Attribute, ast.Name))]
        if any(_is_words(each, ()) for each in inside):
            yield node.target.id


def _is_words(node: ast.expr, lines: Collection[str]) -> bool:
    """Return whether an expression is the words of an error or a finding, or one of their lines."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # as in `why.strip()`
        node = node.func.value
    if isinstance(node, ast.Attribute):
        return node.attr in WORDS
    if isinstance(node, ast.Name):
        return node.id in WORDS or node.id in lines
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        return any(isinstance(text, ast.Name) and text.id in ERRORS for text in node.args)
    return False


def _is_line_end(arguments: Sequence[ast.expr]) -> bool:
    return [argument.value for argument in arguments if isinstance(argument, ast.Constant)] == ["\n"]
