"""The top of the page: how the run ended, in one line, and what it was a run of."""

from __future__ import annotations

from collections.abc import Iterator

from orun.core.run_record import RunResult
from orun.report.figures import quoted
from orun.report.gates import unjudged
from orun.report.html.parts import MARKS, Section, code, moment, terms
from orun.report.html.source import Source
from orun.report.html.tags import Children, Markup, element, join
from orun.report.summary import style_of_run, summary_line
from orun.report.terminal import Terminal
from orun.text.suggestions import near
from orun.text.units import show

PLAIN = Terminal()
MOST = 12  # links to what fails the run
SHORT = 12  # characters of a commit that tell two apart for people


def head(source: Source) -> Markup:
    """The verdict and the facts of the run."""
    result = source.result
    style = style_of_run(result)
    _, _, rest = summary_line(result, PLAIN).partition(": ")
    mark = element("span", MARKS[style], class_="mark", aria_hidden="true") if MARKS[style] else ""
    return element(
        "header",
        element("p", "orun: report on a run", class_="quiet"),
        element("h1", element("bdi", result.pipeline)),
        element("p", mark, element("strong", result.outcome), ": ", rest, class_=f"verdict {style}"),
        _failing(source),
        terms(_facts(source), class_="terms facts"),
    )


def _failing(source: Source) -> Markup:
    """Links to what makes the run fail."""
    result = source.result
    gates = {f"gate-{number}": verdict.title for number, verdict in enumerate(result.verdicts, 1) if verdict.fails}
    gates |= {f"unjudged-{number}": gate.title for number, (_, gate) in enumerate(unjudged(result), 1) if gate.fails}
    failed = {source.stages[stage.stage]: stage.stage for stage in result.stages if stage.failure}
    links = [
        element("li", element("a", element("bdi", name), href=f"#{target}"))
        for target, name in [*failed.items(), *gates.items()]
    ]
    if not links:
        return Markup()
    more = [element("li", f"and {len(links) - MOST} more")] if len(links) > MOST else []
    return element("ul", links[:MOST], more, class_="failing", aria_label="What fails the run")


def contents(sections: list[Section]) -> Markup:
    """Links to the sections."""
    links = [element("li", element("a", section.title, href=f"#{section.ident}")) for section in sections]
    return element("nav", element("ul", links), aria_label="Sections")


def _facts(source: Source) -> Iterator[tuple[str, Children]]:
    result, first = source.result, source.first
    yield "when", moment(result.started_at)
    yield "took", show(result.seconds, "s")
    yield "exit code", str(result.exit_code)
    yield "file", code(near(result.file))
    yield "set", join(*[join(code(f"{name}={value}"), " ") for name, value in result.overrides.items()])
    yield "commit", _commit(first)
    yield "machine", ", ".join(part for part in _machine(result) if part)
    yield "orun", first.orun
    yield "run", code(result.run)
    if result.repeats:
        yield "repeats", join(code(result.repeats), ", whose results it found unchanged at a glance")


def _commit(result: RunResult) -> Markup:
    """The commit, and which files were not as in it."""
    if not result.commit:
        return Markup()
    commit = element("code", result.commit[:SHORT], title=result.commit)
    if result.edited is None:
        return join(commit, ", whether files were edited is not known")
    if not result.edited:
        return join(commit, ", no file edited")
    return join(commit, ", ", element("strong", "edited", class_="doubt"), ": ", ", ".join(map(quoted, result.edited)))


def _machine(result: RunResult) -> Iterator[str]:
    host = result.host
    yield host.get("host", "")
    yield host.get("cpu", "")
    yield f"{host['cores']} cores" if "cores" in host else ""
