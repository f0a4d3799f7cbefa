"""orun bisect on the command line; what it finds is tested with its parts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import CommandLine


def runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "artifacts" / "runs").iterdir())


def test_the_change_is_marked_and_named(orun: CommandLine, project: Path) -> None:
    assert orun("words.yaml", "-q").code == 0
    assert orun("words.yaml", "-q", "--set", "stages.write.with.text=one").code == 1
    good, bad = runs(project)
    outcome = orun("bisect", good, bad)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"count words min 3 fails: good in {good}, bad in {bad}",
        "",
        '  * write.text: "one two three" -> "one"',
        "",
        'count words min 3 fails because of write.text: "one two three" -> "one" (2 partial builds)',
    ]
    document = json.loads(orun("bisect", good, bad, "--json").out)
    assert document["causes"] == [['write.text: "one two three" -> "one"']]
    again = json.loads(orun("bisect", "last~1", "last", "--json").out)  # the partial builds since do not count
    assert (again["good"], again["bad"]) == (good, bad)
    assert orun("store", "gc", "--dry-run").err == ""


def test_a_run_that_is_not_there(orun: CommandLine, project: Path) -> None:
    orun("words.yaml", "-q")
    (run,) = runs(project)
    outcome = orun("bisect", "nothing", "nowhere")
    assert (outcome.code, outcome.err) == (
        2,
        f"error: there is no run 'nothing'\n  {run}\n  hint: see all of them: ls {project}/artifacts/runs\n",
    )


def test_a_run_that_was_killed(orun: CommandLine, project: Path) -> None:
    orun("words.yaml", "-q")
    (project / "artifacts" / "runs" / "20261122-120000-000000-words").mkdir()
    outcome = orun("bisect", "last", "20261122-120000-0")
    assert outcome.code == 2
    assert outcome.err == (
        "error: the run 20261122-120000-000000-words has no record: it goes on, or was killed\n"
        "  hint: name one that has ended: last is the last of them, last~1 the one before\n"
    )


def test_a_run_that_looked_into_another(orun: CommandLine, project: Path) -> None:
    assert orun("words.yaml", "-q").code == 0
    assert orun("words.yaml", "-q", "--set", "stages.write.with.text=one").code == 1
    orun("bisect", "last~1", "last")
    build = runs(project)[-1]
    assert build.endswith(".bisect")
    outcome = orun("bisect", "last", build)
    assert outcome.code == 2
    assert outcome.err == (
        f"error: the run {build} is not the run of a pipeline file\n"
        "  `orun bisect` made it to investigate another run\n"
        "  hint: name a run of the pipeline: last is the newest, last~1 the one before\n"
    )
