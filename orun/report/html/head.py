"""Top of the page: how the run ended, what fails it, and what it was a run of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orun.fs.os_errors import quote
from orun.report.gates import iter_unjudged
from orun.report.html.source import Source
from orun.report.summary import choose_run_style, summarize_after_outcome
from orun.text.lists import join_few

SHOWN = 5  # edited files that are named


def view_head(source: Source) -> Mapping[str, Any]:
    """Return the verdict and the facts of the run."""
    result = source.result
    host = result.host
    machine = [host[name] for name in ("host", "cpu") if host.get(name)]
    machine += [f"{host['cores']} cores"] if "cores" in host else []
    return {
        "style": choose_run_style(result),
        "summary": "; ".join(summarize_after_outcome(result)),
        "failing": list(_list_failing(source)),
        "machine": ", ".join(machine),
        "edited": join_few([*map(quote, source.first.edited or ())], SHOWN),
    }


def _list_failing(source: Source) -> Iterator[tuple[str, str]]:
    """Yield id and name of each stage and gate that fails the run."""
    result = source.result
    yield from ((source.stages[stage.stage], stage.stage) for stage in result.stages if stage.failure)
    for number, verdict in enumerate(result.verdicts, 1):
        if verdict.fails:
            yield f"gate-{number}", verdict.title
    for number, (_, gate) in enumerate(iter_unjudged(result), 1):
        if gate.fails:
            yield f"unjudged-{number}", gate.title
