"""Variables and targets that nothing in the file uses, which are often typos.

Those of an extended file do not count: they may serve other files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from orun.pipeline.model import Stage
from orun.pipeline.nodes import Map, Span
from orun.pipeline.problems import Problems
from orun.pipeline.targets import DEFAULT
from orun.text.suggestions import find_closest


def note_unused(
    tree: Map, file: str, variables: Collection[str], stages: Collection[Stage], problems: Problems
) -> None:
    """Note each unused variable and target."""
    named = {target.name for stage in stages for target in stage.targets}
    _note(tree.map("vars"), file, "variable", variables, problems)
    _note(tree.map("targets"), file, "target", named, problems, {DEFAULT: _explain_unnamed(stages)})


def _note(
    declared: Map,
    file: str,
    sort: str,
    used: Collection[str],
    problems: Problems,
    known: Mapping[str, str] | None = None,
) -> None:
    for name, entry in declared.entries.items():
        if name in used or entry.key.file != file or _is_anchored(entry.key, name):
            continue
        # Only in another case: NPU would be close to CPU.
        alike = [candidate for candidate in known or () if candidate != name and candidate == name.lower()]
        meant = find_closest(name, sorted(used)) or next(iter(alike), "")
        why = (known or {}).get(name, "")
        problems.add_note(entry.key, f"nothing uses {sort} {name!r}", suggestion="" if why else meant, hint=why)


def _is_anchored(key: Span, name: str) -> bool:
    """Return whether YAML's own aliases may use a value: it has an anchor (`&`)."""
    return key.source[key.column - 1 + len(name) :].lstrip("\"' :").startswith("&")


def _explain_unnamed(stages: Collection[Stage]) -> str:
    """Return an explanation if stages without `target` may have been meant to use a target."""
    plain = [stage.id for stage in stages if stage.params.get("target", "") is None]
    return f"{plain[0]} names no target and runs without its options: `target: {DEFAULT}`" if plain else ""
