"""Facts and words: each fact has words, each code is documented, and no code takes words apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import orun
from orun.core.component_kinds import ComponentKind
from orun.core.reason import Reason, reason
from orun.core.reason_codes import CHANGED, ReasonCode
from orun.text.wording import advice, baseline_comparisons, caveats, findings, reasons
from orun.text.wording.components import NAMES, component_name

PACKAGE = Path(orun.__file__).parent
PAGE = PACKAGE.parent / "docs" / "reference" / "reasons.md"
ROOMS = ("planning", "gates", "noop", "history", "blame", "report", "runner", "cli")
SPEAKING = {"cli", "scaffold", "report", "blame"}  # rooms that make sentences
RENDERERS = (reasons.RENDERERS, findings.RENDERERS, baseline_comparisons.METHODS, advice.RENDERERS, caveats.RENDERERS)
CUTS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "replace"}


def test_each_code_has_words() -> None:
    known = {code for renderers in RENDERERS for code in renderers} | {ReasonCode.ACCEPTED_BY}
    assert known == set(ReasonCode)


def test_each_kind_of_component_has_a_name_and_a_code() -> None:
    assert NAMES.keys() == CHANGED.keys() == set(ComponentKind)
    assert len({component_name(kind, "x", "y") for kind in ComponentKind}) == len(ComponentKind)


def test_each_code_is_documented_once() -> None:
    page = PAGE.read_text(encoding="utf-8")
    facts, kinds = page.split("## Kinds of components")
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", facts, re.MULTILINE)) == sorted(ReasonCode)
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", kinds, re.MULTILINE)) == sorted(ComponentKind)


def test_a_code_of_a_later_version_is_shown() -> None:
    later = Reason("moon-full", {"phase": "full"})
    assert reasons.sentence(later) == "moon-full full"
    assert findings.finding(later) == "moon-full full"
    assert reasons.sentence(reason(ReasonCode.COMPONENT_CHANGED, kind="moon", subject="x", old="1", new="2")) == (
        "moon x: 1 -> 2"
    )


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
        for name, tree in trees(r"\b[rR]eason\(", *ROOMS, "api.py", "remote", "eventlog")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("reason", "Reason")
    ]
    assert len(calls) > 50
    assert [place for place, code in calls if isinstance(code, ast.Constant)] == []


def test_no_code_takes_a_sentence_apart() -> None:
    """A cut by a text of two words is one through a sentence. Those of click are no sentences of ours."""
    cuts = {
        name
        for name, tree in trees(rf"\.({'|'.join(CUTS)})\(", *ROOMS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTS
        for text in ast.walk(ast.Tuple(elts=node.args[:1], ctx=ast.Load()))
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search(r"\w \w|\w $|^ \w", text.value)
    }
    assert cuts == {"cli/usage.py"}
