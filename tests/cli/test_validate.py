"""orun validate and orun graph: what is known of a file without running anything."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from .conftest import CommandLine

BAD = "stages:\n  write: {uses: ./words.py:write, wiht: {text: a}}\n"
MESSAGE = """\
bad.yaml:2:35: error: 'wiht' is not a key of a stage
    2 |   write: {uses: ./words.py:write, wiht: {text: a}}
      |                                   ^^^^
"""


def test_a_group_of_gates_counts_once_as_in_a_run(orun: CommandLine, project: Path) -> None:
    gates = "      any: [{words: {min: 5}}, {words: {max: 9}}]\n"
    (project / "words.yaml").write_text((project / "words.yaml").read_text() + gates)
    assert orun("validate", "words.yaml").out == "words.yaml: good, 2 stages, 2 gates\n"
    assert ", 2 gates passed, " in orun("words.yaml").out.splitlines()[-1]


def test_good_and_bad_files(orun: CommandLine, project: Path) -> None:
    (project / "bad.yaml").write_text(BAD)
    shown = orun("validate", "words.yaml", "bad.yaml")
    assert (shown.code, shown.out) == (2, "words.yaml: good, 2 stages, 1 gate\n")
    assert shown.err.startswith(MESSAGE)
    assert shown.err.splitlines()[3] == "  did you mean: with"


@pytest.mark.parametrize("verb", ["run", "validate", "plan"])
def test_mistakes_are_annotations_in_github_actions(
    orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (project / "bad.yaml").write_text(BAD)
    shown = orun(verb, "bad.yaml")
    annotation, mistake = shown.err.split("\n", 1)
    place = "file=bad.yaml,line=2,col=35,title=pipeline file"
    assert annotation.startswith(
        f"::error {place}::'wiht' is not a key of a stage%0Adid you mean: with%0Aexpected: one of "
    )
    assert (shown.code, shown.out) == (2, "")
    assert mistake.startswith(MESSAGE)


def test_json(orun: CommandLine, project: Path) -> None:
    (project / "bad.yaml").write_text(BAD)
    good, bad = orun("validate", "words.yaml", "--json"), orun("validate", "bad.yaml", "words.yaml", "--json")
    assert (good.code, json.loads(good.out)) == (0, {"valid": True, "problems": [], "notes": []})
    document = json.loads(bad.out)
    assert (bad.code, bad.err, document["valid"]) == (2, "", False)
    (problem,) = document["problems"]
    assert problem["position"] == {"file": str(project / "bad.yaml"), "line": 2, "column": 35}
    assert problem["suggestion"] == "with"


def test_what_nothing_uses_is_noted(orun: CommandLine, project: Path) -> None:
    text = (project / "words.yaml").read_text()
    (project / "spare.yaml").write_text(f"vars: {{spare: 1}}\n{text}")
    shown = orun("validate", "spare.yaml")
    note = "spare.yaml:1:8: nothing uses variable 'spare'"
    assert (shown.code, shown.out, shown.err) == (0, f"spare.yaml: good, 2 stages, 1 gate\nnote: {note}\n", "")
    assert json.loads(orun("validate", "spare.yaml", "--json").out)["notes"] == [note]
    assert f"warning: {note}" in orun("run", "spare.yaml").out


def test_a_file_that_is_not_there(orun: CommandLine, project: Path) -> None:
    del project
    shown = orun("validate", "wrods.yaml")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: cannot read the pipeline file wrods.yaml: No such file or directory\n"
        "  did you mean words.yaml?\n"
        "  hint: orun validate words.yaml\n"
    )


def test_a_file_that_is_not_there_among_several(orun: CommandLine, project: Path) -> None:
    (project / "bad.yaml").write_text("stages: {write: {uses: ./words.py:wriet}}\n")
    shown = orun("validate", "words.yaml", "bad.yaml", "wrods.yaml")
    assert (shown.code, shown.out) == (2, "words.yaml: good, 2 stages, 1 gate\n")
    assert shown.err == (
        """\
bad.yaml:1:24: error: words.py has no function 'wriet'
    1 | stages: {write: {uses: ./words.py:wriet}}
      |                        ^^^^^^^^^^^^^^^^
  did you mean: write
  expected: write or count

wrods.yaml:1:1: error: cannot read the pipeline file wrods.yaml: No such file or directory; did you mean words.yaml?
  hint: orun validate words.yaml
"""
    )
    document = json.loads(orun("validate", "bad.yaml", "wrods.yaml", "--json").out)
    assert (document["valid"], len(document["problems"])) == (False, 2)


def test_the_graph_as_text(orun: CommandLine, project: Path) -> None:
    del project
    assert orun("graph", "words.yaml").out == ("write  ./words.py:write\ncount  ./words.py:count  <- text: write\n")


def test_the_graph_as_pictures_and_data(orun: CommandLine, project: Path) -> None:
    del project
    assert orun("graph", "words.yaml", "--format", "mermaid").out.startswith("flowchart LR\n")
    assert orun("graph", "words.yaml", "--format", "dot").out.startswith("digraph {\n")
    assert json.loads(orun("graph", "words.yaml", "--json").out) == {
        "pipeline": "words",
        "stages": [
            {"stage": "write", "uses": "./words.py:write", "needs": {}, "after": [], "guards": []},
            {"stage": "count", "uses": "./words.py:count", "needs": {"text": "write"}, "after": [], "guards": []},
        ],
    }


def test_a_graph_is_written_as_the_suffix_of_its_file_says(
    orun: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert orun("graph", "words.yaml", "-o", "graph.svg").out == "wrote graph.svg\n"
    assert (project / "graph.svg").read_text().startswith("<svg ")
    assert opened == []
    for name in ("graph.svg", "graph.html"):
        assert orun("graph", "words.yaml", "-o", name, "--open").out == f"wrote {name}\n"
    assert opened == [(project / name).as_uri() for name in ("graph.svg", "graph.html")]
    assert (project / "graph.html").read_text().startswith("<!DOCTYPE html>\n")
    assert orun("graph", "words.yaml", "-o", "graph.mmd").code == 0
    assert (project / "graph.mmd").read_text().startswith("flowchart LR\n")
    assert orun("graph", "words.yaml", "-o", "graph.mmd", "--open").err == (
        "error: a browser shows no graph as mermaid\n  hint: orun graph FILE --format svg --open\n"
    )
    assert orun("graph", "words.yaml", "-o", "graph.txt").code == 0
    assert (project / "graph.txt").read_text() == orun("graph", "words.yaml").out


def test_a_graph_is_not_written_as_what_it_cannot_be(orun: CommandLine, project: Path) -> None:
    refused = orun("graph", "words.yaml", "-o", "graph.png")
    assert refused.code == 2
    assert refused.err == (
        "error: a graph cannot be drawn as .png\n"
        "  expected one of .svg, .html, .dot, .mmd, .txt\n"
        "  hint: orun graph FILE -o graph.svg; or say what to write there: --format text\n"
    )
    assert not (project / "graph.png").exists()
    assert orun("graph", "words.yaml", "-o", "graph.md", "--format", "mermaid").code == 0
    assert (project / "graph.md").read_text().startswith("flowchart LR\n")


def test_data_of_a_graph_is_written_to_a_file_and_is_no_picture(orun: CommandLine, project: Path) -> None:
    assert orun("graph", "words.yaml", "--json", "-o", "graph.json").out == "wrote graph.json\n"
    assert (project / "graph.json").read_text() == orun("graph", "words.yaml", "--json").out
    for word in ("--open", "--format=svg"):
        error = json.loads(orun("graph", "words.yaml", "--json", word).out)["error"]
        assert error["problem"] == f"--json and {word.partition('=')[0]} contradict each other"


@pytest.mark.usefixtures("project")
def test_a_graph_is_drawn_as_a_picture(orun: CommandLine) -> None:
    svg = ET.fromstring(orun("graph", "words.yaml", "--format", "svg").out)  # noqa: S314 - our own
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["write", "./words.py:write", "count", "./words.py:count"]
