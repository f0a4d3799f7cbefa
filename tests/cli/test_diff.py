"""orun diff: two runs of a real pipeline, named in every way."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from orun import __version__, api
from orun.core.run_record import BY_INIT
from orun.core.serialization import replace
from orun.fs.digests import digest_bytes
from orun.history.run_diff import compare
from orun.store import Store
from tests.git import commit, git
from tests.report.support import BLOCKED, PASSED, SPEEDUP

from .conftest import CODE, PIPELINE, CommandLine, steady


def run(orun: CommandLine, text: str) -> dict[str, Any]:
    shown = orun("words.yaml", "--json", "--set", f"stages.write.with.text={text}")
    document: dict[str, Any] = json.loads(shown.out)
    return document


def plain(text: str) -> str:
    """A report without digests, run ids and the width of columns."""
    return re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", steady(text))


def differences(orun: CommandLine, *arguments: str) -> dict[str, Any]:
    shown = orun("diff", *arguments, "--json")
    assert shown.code == 0, shown.out
    document: dict[str, Any] = json.loads(shown.out)
    return document


def test_what_was_changed_and_what_came_of_it(orun: CommandLine, project: Path) -> None:
    del project
    run(orun, "one two three")
    run(orun, "a b")
    shown = orun("diff")
    assert (shown.code, shown.err) == (0, "")
    assert plain(shown.out) == (
        """\
configuration  old  new
--set stages.write.with.text  one two three  a b

stage  rests on  old  new
write  parameter text  "one two three"  "a b"
count  input text  DIGEST  DIGEST

stage  result  old  new
write  artifact  DIGEST  DIGEST
write  size  13 B  3 B

stage  metric  old  new  change
write  length  13  3  -76.9 %
count  words  3  2  -33.3 %

gate  old  new
count words min  3: passed  3: failed

RUN-words differs from RUN-words: 2 stages, 1 gate
"""
    )
    write, count = differences(orun)["stages"]
    assert write["metrics"] == [{"name": "length", "unit": "", "old": 13, "new": 3, "ratio": 3 / 13}]
    assert write["outcome"] == ["built", "built"]
    assert (write["size"], len(write["tree"][0]), len(write["key"][1])) == ([13, 3], 64, 64)
    trees = {"old": write["tree"][0], "new": write["tree"][1]}
    assert count["inputs"] == [{"name": "input text", "kind": "input", "subject": "text", "owner": "", **trees}]
    assert write["tree"][0][:16] in orun("diff", "-v").out


def test_a_run_that_repeats_another_does_not_differ_from_it(orun: CommandLine, project: Path, tmp_path: Path) -> None:
    first, second = run(orun, "a b c"), run(orun, "a b c")
    assert second["repeats"] == first["run"]
    assert orun("diff").out == f"{second['run']} does not differ from {first['run']}\n"
    lone = tmp_path / "lone.json"
    shutil.copy(project / "artifacts" / "runs" / second["run"] / "record.json", lone)
    shown = orun("diff", "last~1", str(lone))
    assert steady(shown.out) == (
        "note: the dependencies of the stages of RUN-words are not known: it repeats RUN-words, which is not stored\n\n"
        "RUN-words does not differ from RUN-words\n"
    )


def test_of_a_stage_that_failed_only_what_it_declares_is_compared(orun: CommandLine, project: Path) -> None:
    """Everything that it had read in the other run stood there as gone."""
    (project / "helper.py").write_text("WORDS = 3\n")
    (project / "words.py").write_text(f"import helper\n{CODE}")
    run(orun, "one two three")
    run(orun, "boom")
    shown = plain(orun("diff").out)
    assert shown.split("\n\n")[1] == (
        'stage  rests on  old  new\nwrite  parameter text  "one two three"  "boom"\ncount  input text  DIGEST  DIGEST'
    )
    note = "note: count failed in one of the runs, so what it read is not compared, only what it declares\n"
    assert f"\n\n{note}\nRUN-words differs from RUN-words: 2 stages, 1 gate\n" in shown


def test_every_way_to_name_a_run(orun: CommandLine, project: Path, tmp_path: Path) -> None:
    first, second = run(orun, "one two three"), run(orun, "a b")
    wanted = differences(orun, "last~1", "last")
    assert (wanted["old"], wanted["new"]) == (first["run"], second["run"])
    folders = [project / "artifacts" / "runs" / run["run"] for run in (first, second)]
    printed = tmp_path / "printed.json"
    printed.write_text(json.dumps(first))
    assert differences(orun, first["run"], second["run"][:-6]) == wanted
    assert differences(orun, str(folders[0] / "record.json"), str(folders[1] / "events.jsonl")) == wanted
    assert differences(orun, str(printed)) == wanted
    assert differences(orun, "last", "last~1")["old"] == second["run"]


def test_runs_are_counted_of_the_same_pipeline(orun: CommandLine, project: Path) -> None:
    (project / "other.yaml").write_text("extends: words.yaml\nname: other\n")
    first = run(orun, "one two three")
    assert orun("other.yaml").code == 0
    second = run(orun, "a b")
    difference = differences(orun)
    assert (difference["old"], difference["new"]) == (first["run"], second["run"])
    shown = orun("diff", "last~2", "last")
    assert (shown.code, shown.err.splitlines()) == (
        2,
        [
            "error: there is no last~2",
            "  the store has 2 runs of words",
            "  hint: to run it again: orun words.yaml",
        ],
    )


def test_what_a_blocked_stage_would_rest_on_is_not_listed_as_gone() -> None:
    built = replace(PASSED["release"], stage=BLOCKED.stage, inputs={"kind": "release/bundle", "seed": "0"})
    difference = compare(replace(PASSED, stages=(built,)), replace(PASSED, stages=(BLOCKED,)))
    assert [(stage.outcome, stage.inputs) for stage in difference.stages] == [(("built", "blocked"), ())]


def test_a_stage_that_ended_differently_and_has_nothing_differs() -> None:
    blocked = replace(PASSED, stages=(BLOCKED,))
    skipped = replace(blocked, stages=(replace(BLOCKED, outcome="skipped"),))
    (difference,) = compare(blocked, skipped).stages
    assert (difference.stage, difference.outcome) == ("release", ("blocked", "skipped"))
    assert compare(blocked, blocked).same


def test_the_same_condition_twice_is_two_gates() -> None:
    """Alone and in a group, of which one is judged otherwise."""
    old = replace(PASSED, verdicts=(SPEEDUP, replace(SPEEDUP, depth=1)))
    new = replace(PASSED, verdicts=(SPEEDUP, replace(SPEEDUP, depth=1, outcome="failed")))
    (change,) = compare(old, new).gates
    assert (change.name, change.old, change.new) == ("latency speedup min (2)", "1.5: passed", "1.5: failed")


def test_code_that_was_read_and_a_threshold(orun: CommandLine, project: Path) -> None:
    (project / "helper.py").write_text("MARK = '!'\n")
    (project / "words.py").write_text(CODE.replace("import time\n", "import time\n\nimport helper\n"))
    orun("words.yaml")
    (project / "helper.py").write_text("MARK = '?'\n")
    (project / "words.yaml").write_text(PIPELINE.replace("min: 3", "min: 2"))
    orun("words.yaml")
    assert plain(orun("diff").out) == (
        """\
configuration  old  new
content of words.yaml  DIGEST  DIGEST

stage  rests on  old  new
write  read helper.py  DIGEST  DIGEST
count  read helper.py  DIGEST  DIGEST

gate  old  new
count words min  3: passed  2: passed

RUN-words differs from RUN-words: 2 stages, 1 gate
"""
    )


def test_the_commits_and_what_was_not_committed(orun: CommandLine, project: Path) -> None:
    git(project, "init", "-q")
    old = commit(project, "first")
    orun("words.yaml")
    (project / "words.yaml").write_text(PIPELINE.replace("min: 3", "min: 2"))
    orun("words.yaml")
    new = commit(project, "second")
    (project / "words.py").write_text(CODE + "\n")
    orun("words.yaml")
    dirty, clean = ({"commit": old, "edited": edited, "orun": __version__} for edited in (["words.yaml"], []))
    assert differences(orun, "last~2", "last~1")["origins"] == [clean, dirty]
    assert plain(orun("diff", "last~2", "last~1").out).startswith(
        f"""\
run  commit  not as in the commit  orun
RUN-words  {old[:10]}  nothing  {__version__}
RUN-words  {old[:10]}  words.yaml  {__version__}

configuration  old  new
content of words.yaml  DIGEST  DIGEST
"""
    )
    last = plain(orun("diff").out).splitlines()
    assert last[1:3] == [
        f"RUN-words  {old[:10]}  words.yaml  {__version__}",
        f"RUN-words  {new[:10]}  words.py  {__version__}",
    ]
    assert json.loads(orun("words.yaml", "--json").out)["repeats"]
    assert differences(orun)["origins"] == [
        {"commit": new, "edited": ["words.py"], "orun": __version__},
        {"commit": None, "edited": None, "orun": __version__},
    ]
    shown = plain(orun("diff").out).splitlines()
    assert shown[2:] == [f"RUN-words  -  -  {__version__}", "", "RUN-words does not differ from RUN-words"]


def test_another_version_of_orun(orun: CommandLine, project: Path, tmp_path: Path) -> None:
    del project
    printed = tmp_path / "printed.json"
    printed.write_text(json.dumps(run(orun, "a b c") | {"orun": "0.0.1"}))
    assert plain(orun("diff", str(printed), "last").out) == (
        f"""\
run  commit  not as in the commit  orun
RUN-words  -  -  0.0.1
RUN-words  -  -  {__version__}

RUN-words does not differ from RUN-words
"""
    )


def test_a_stage_that_fails_and_one_that_is_new(orun: CommandLine, project: Path) -> None:
    run(orun, "a b c")
    (project / "words.yaml").write_text(PIPELINE.replace("  count:", "  more:\n    uses: ./words.py:write\n  count:"))
    run(orun, "boom")
    difference = {stage["stage"]: stage for stage in differences(orun)["stages"]}
    assert difference["count"]["outcome"] == ["built", "failed"]
    assert difference["count"]["tree"][1] is None
    assert difference["more"]["outcome"] == [None, "built"]
    assert "count  outcome   built" in orun("diff").out


def test_a_stage_of_one_run_alone_is_one_line_and_so_is_one_that_was_renamed(orun: CommandLine, project: Path) -> None:
    run(orun, "a b c")
    renamed = PIPELINE.replace("  write:", "  author:").replace("text: write", "text: author")
    (project / "words.yaml").write_text(renamed + "  more: {uses: ./words.py:write}\n")
    orun("words.yaml", "--set", "stages.author.with.text=a b c")
    assert plain(orun("diff").out) == (
        """\
configuration  old  new
--set stages.author.with.text  -  a b c
content of words.yaml  DIGEST  DIGEST
--set stages.write.with.text  a b c  -

stage  result  old  new
author  name  write  author
more  outcome  -  built

RUN-words differs from RUN-words: 3 stages, 0 gates
"""
    )


def test_a_file_that_was_not_there_says_so(orun: CommandLine, project: Path) -> None:
    tried = "try:\n    import helper\nexcept ImportError:\n    pass\n"
    (project / "words.py").write_text(CODE.replace("import time\n", f"import time\n\n{tried}"))
    orun("words.yaml")
    (project / "helper.py").write_text("MARK = '?'\n")
    orun("words.yaml")
    assert "write  read helper.py  not there  DIGEST\n" in plain(orun("diff").out)


def test_a_store_without_runs(orun: CommandLine, project: Path) -> None:
    with Store.open(project / "artifacts"):
        pass
    assert orun("diff").err == (
        "error: there is no last~1\n  the store has no run that has ended\n"
        "  hint: orun FILE, or where the store is: --store DIR\n"
    )


@pytest.mark.usefixtures("project")
def test_runs_by_which_init_measures_are_not_counted(orun: CommandLine) -> None:
    """Right after `orun init`, its own runs were compared."""
    measuring = replace(api.load("words.yaml"), run_suffix=BY_INIT)
    for _ in range(2):
        assert api.run(measuring).run.endswith("-words.init")
    assert orun("diff").err == (
        "error: there is no last~1\n  the store has no run that has ended, besides those of orun init\n"
        "  hint: orun FILE, or where the store is: --store DIR\n"
    )
    orun("words.yaml")
    assert orun("diff").err == (
        "error: there is no last~1\n  the store has 1 run of words, besides those of orun init\n"
        "  hint: to run it again: orun words.yaml\n"
    )
    assert orun("report").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("last~7",),
            "error: there is no last~7\n  the store has 1 run of words\n  hint: to run it again: orun words.yaml\n",
        ),
        (
            ("words.py", "last"),
            (
                "error: words.py is not a run that this orun can read\n"
                "  JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
                "  hint: a run's record.json or events.jsonl, or the output of: orun FILE --json\n"
            ),
        ),
        (
            ("words.yaml",),
            (
                "error: words.yaml is a pipeline file, not a run\n"
                "  expected the beginning of a run's id; last, or last~1 for the run before it; or a record of a run\n"
                "  hint: without it, the last runs are meant\n"
            ),
        ),
    ],
)
def test_what_is_no_run(orun: CommandLine, project: Path, arguments: tuple[str, ...], message: str) -> None:
    del project
    run(orun, "a b c")
    shown = orun("diff", *arguments)
    assert (shown.code, shown.out, shown.err) == (2, "", message)


def test_a_record_that_was_changed_is_refused(orun: CommandLine, project: Path) -> None:
    record = project / "artifacts" / "runs" / run(orun, "a b c")["run"] / "record.json"
    record.write_bytes(record.read_bytes().replace(b'"built"', b'"caked"'))
    shown = orun("diff", str(record), str(record))
    assert shown.err == (
        f"error: {record} is not a run that this orun can read\n"
        "  ChecksumError: the record is not what was written\n"
        "  hint: a run's record.json or events.jsonl, or the output of: orun FILE --json\n"
    )


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"a": ' * 200_000, b"[" * 70 + b"]" * 70], ids=("lists", "objects", "70")
)
@pytest.mark.parametrize("name", ["record.json", "events.jsonl"])
def test_a_file_that_is_nested_too_deep(orun: CommandLine, project: Path, name: str, content: bytes) -> None:
    (project / name).write_bytes(content)
    shown = orun("diff", name, name)
    assert (shown.code, shown.err) == (
        2,
        (
            f"error: {name} is not a run that this orun can read\n"
            "  ValueError: its lists and objects are nested too deep\n"
            "  hint: a run's record.json or events.jsonl, or the output of: orun FILE --json\n"
        ),
    )


def test_a_checksummed_record_that_is_nested_too_deep(orun: CommandLine, project: Path) -> None:
    """Its seal fits: whoever wrote it has computed it, too."""
    record = project / "artifacts" / "runs" / run(orun, "a b c")["run"] / "record.json"
    body = b"[" * 200_000
    record.write_bytes(b'{"seal":"%b","record":%b}\n' % (digest_bytes(body).encode(), body))
    shown = orun("diff", record.parent.name, "last")
    assert (shown.code, shown.err) == (
        3,
        (
            f"error: the record {record} was damaged\n"
            "  its lists and objects are nested too deep\n"
            f"  hint: Remove it; results do not depend on it: rm {record}\n"
        ),
    )
