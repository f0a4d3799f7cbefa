"""Variables and targets that nothing in the file uses, which are often typos.

Those of an extended file do not count: they may serve other files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orun.pipeline.model import Stage
from orun.pipeline.nodes import Map, Span
from orun.pipeline.targets import DEFAULT
from orun.text.suggestions import find_closest


def list_unused(tree: Map, file: str, variables: Collection[str], stages: Collection[Stage]) -> tuple[str, ...]:
    """Return a sentence for each unused variable and target."""
    named = {target.name for stage in stages for target in stage.targets}
    return (
        *_describe(tree.map("vars"), file, "variable", variables),
        *_describe(tree.map("targets"), file, "target", named, {DEFAULT: _explain_unnamed(stages)}),
    )


def _describe(
    declared: Map, file: str, sort: str, used: Collection[str], known: Mapping[str, str] | None = None
) -> Iterator[str]:
    for name, entry in declared.entries.items():
        if name in used or entry.key.file != file or _is_anchored(entry.key, name):
            continue
        # Only in another case: NPU would be close to CPU.
        alike = [candidate for candidate in known or () if candidate != name and candidate == name.lower()]
        meant = find_closest(name, sorted(used)) or next(iter(alike), "")
        why = (known or {}).get(name) or (f"did you mean {meant}?" if meant else "")
        yield f"line {entry.key.line}: nothing uses {sort} {name!r}" + (f"; {why}" if why else "")


def _is_anchored(key: Span, name: str) -> bool:
    """Return whether YAML's own aliases may use a value: it has an anchor (`&`)."""
    return key.source[key.column - 1 + len(name) :].lstrip("\"' :").startswith("&")


def _explain_unnamed(stages: Collection[Stage]) -> str:
    """Return an explanation if stages without `target` may have been meant to use a target."""
    plain = [stage.id for stage in stages if stage.params.get("target", "") is None]
    return f"{plain[0]} names no target and runs without its options: `target: {DEFAULT}`" if plain else ""
