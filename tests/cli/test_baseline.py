"""orun baseline: accept, show, diff, drop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.store import Store
from orun.store.gc import Keep, collect
from orun.store.pins import list_pins
from tests.faults.projects import write_model

from .conftest import PIPELINE, CommandLine, steady

GATED = PIPELINE.replace("{min: 3}", "{max_regression: 10%}")


@pytest.fixture
def gated(project: Path) -> Path:
    """A project whose gate is against the baseline."""
    (project / "words.yaml").write_text(GATED)
    return project


def test_from_nothing_to_a_regression_that_is_accepted(orun: CommandLine, gated: Path) -> None:
    nothing = orun("baseline", "accept", "words.yaml")
    assert (nothing.code, nothing.err) == (2, "error: there is no run of words to accept\n  hint: orun words.yaml\n")
    assert orun("words.yaml").code == 0
    accepted = orun("baseline", "accept", "words.yaml")
    assert accepted.code == 0
    assert steady(accepted.out) == "accepted write, count of run RUN-words\ncommit words.baseline.json\n"
    assert orun("words.yaml").code == 0

    (gated / "words.yaml").write_text(GATED.replace("one two three", "one two"))
    worse = orun("words.yaml", "-q")
    assert worse.code == 1
    assert worse.out.splitlines()[1] == (
        "  hint: if the change is meant, accept it as the new baseline: orun baseline accept words.yaml"
    )
    assert orun("baseline", "diff", "words.yaml").out == (
        """\
stage  metric  accepted  now   change  model
write  length        13    7  -46.2 %
count  words          3    2  -33.3 %  new
"""
    )
    assert orun("baseline", "accept", "words.yaml").code == 0
    assert orun("words.yaml").code == 0


@pytest.mark.usefixtures("gated")
def test_the_hint_to_accept_carries_the_options_of_the_run(orun: CommandLine) -> None:
    options = ("--set", "stages.count.timeout=60s", "--store", "results")
    first = orun("words.yaml", *options)
    command = "orun baseline accept words.yaml --set stages.count.timeout=60s --store results"
    assert f"no baseline yet for `count`; to accept this release: `{command}`" in " ".join(first.out.split())
    accepted = orun(*command.split()[1:])
    assert (accepted.code, accepted.err) == (0, "")


def test_stages_with_gates_that_the_run_left_out_are_told(orun: CommandLine, gated: Path) -> None:
    after = "  again: {uses: ./words.py:count, needs: write, gate: {words: {max_regression: 10%}}}\n"
    after += "  last: {uses: ./words.py:count, needs: write, gate: {words: {min: 3}}}\n"
    (gated / "words.yaml").write_text(GATED + after)
    orun("words.yaml", "--to", "count")
    first = orun("baseline", "accept", "words.yaml")
    assert steady(first.out) == (
        "accepted write, count of run RUN-words\n"
        "warning: again, last: not measured by that run; nothing is accepted; "
        "to measure: orun words.yaml, then accept again\n"
        "commit words.baseline.json\n"
    )
    orun("words.yaml")
    outcome = orun("baseline", "accept", "words.yaml")
    assert steady(outcome.out) == "accepted write, count, again, last of run RUN-words\ncommit words.baseline.json\n"
    orun("words.yaml", "--to", "again")
    rest = orun("baseline", "accept", "words.yaml")
    assert steady(rest.out) == (
        "accepted write, again of run RUN-words\n"
        "warning: count, last: not measured by that run; what was accepted before stays; "
        "to measure: orun words.yaml, then accept again\n"
        "commit words.baseline.json\n"
    )


def test_what_a_failed_gate_kept_from_running_is_no_hindrance(orun: CommandLine, gated: Path) -> None:
    after = "  again: {uses: ./words.py:count, needs: [write, count]}\n"
    (gated / "words.yaml").write_text(GATED.replace("max_regression: 10%", "min: 4") + after)
    assert orun("words.yaml").code == 1
    shown = orun("baseline", "accept", "words.yaml", "--force", "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["stages"] == ["write", "count"]


def test_gates_that_fail_whatever_is_accepted_refuse_the_run(orun: CommandLine, gated: Path) -> None:
    """By a fixed limit, alone or in a group; not one against the baseline, nor the member of a group that passes."""
    groups = "      any: [{words: {min: 5}}, {words: {max: 9}}]\n      all: [{words: {min: 6}}]"
    gates = f"{{max_regression: 10%, min: 4}}\n{groups}"
    (gated / "words.yaml").write_text(GATED.replace("{max_regression: 10%}", gates))
    assert orun("words.yaml").code == 1
    refused = orun("baseline", "accept", "words.yaml")
    assert (refused.code, refused.out, refused.err) == (
        2,
        "",
        (
            "error: the last run of words.yaml fails whatever is accepted\n"
            "  count words min 4 is failed: words is 3, below the minimum of 4\n"
            "  count all of 1 is failed: failed: words min 6\n"
            "  hint: see to these gates, or accept it all the same: orun baseline accept words.yaml --force\n"
        ),
    )
    assert not (gated / "words.baseline.json").exists()
    accepted = orun("baseline", "accept", "words.yaml", "--force")
    assert accepted.code == 0
    assert steady(accepted.out) == (
        "accepted write, count of run RUN-words\n"
        "warning: count words min 4 is failed all the same: words is 3, below the minimum of 4\n"
        "warning: count all of 1 is failed all the same: failed: words min 6\n"
        "commit words.baseline.json\n"
    )
    shown = json.loads(orun("baseline", "accept", "words.yaml", "--json", "--force").out)
    assert [(verdict["metric"], verdict["rule"], verdict["outcome"]) for verdict in shown["failing"]] == [
        ("words", "min", "failed"),
        ("all of 1", "all", "failed"),
    ]


def test_what_is_not_up_to_date_has_no_figures_now(orun: CommandLine, gated: Path) -> None:
    """Neither after a stage that failed, nor of a run with other values."""
    assert orun("words.yaml").code == 0
    assert orun("baseline", "accept", "words.yaml").code == 0
    changed = ("--set", "stages.write.with.text=one two")
    assert orun("words.yaml", *changed).code == 1
    same = orun("baseline", "diff", "words.yaml").out.splitlines()
    assert same[1:] == ["write  length        13   13  +0.0 %", "count  words          3    3  +0.0 %"]
    worse = orun("baseline", "diff", "words.yaml", *changed).out.splitlines()
    assert worse[1:] == ["write  length        13    7  -46.2 %", "count  words          3    2  -33.3 %  new"]

    (gated / "words.yaml").write_text(GATED.replace("one two three", "boom"))
    assert orun("words.yaml").code == 3
    assert orun("baseline", "diff", "words.yaml").out == (
        """\
stage  metric  accepted  now   change
write  length        13    4  -69.2 %
count  words          3    -
note: no figures of count now; to see why: orun plan words.yaml
"""
    )
    [_, word_count] = json.loads(orun("baseline", "diff", "words.yaml", "--json").out)["differences"]
    assert (word_count["stage"], word_count["accepted"], word_count["current"]) == ("count", 3, None)


SKIPPING = """\
targets:
  here: {providers: [CPUExecutionProvider]}
  windows: {providers: [DmlExecutionProvider], missing: skip}
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  weigh: {uses: measure/size, needs: import, gate: {size: {max_regression: 5%}}}
  covered: {uses: check/coverage, needs: import, with: {target: TARGET}, gate: {coverage: {min: 90%}}}
  after: {uses: measure/size, needs: [import, covered]}
"""


@pytest.mark.usefixtures("probed_once")
def test_what_was_skipped_is_no_hindrance_and_what_would_be_now_is(orun: CommandLine, project: Path) -> None:
    """After the stage that was skipped, too; one that would be skipped now had ended in a bug of orun."""
    write_model(project)
    (project / "skipping.yaml").write_text(SKIPPING.replace("TARGET", "windows"))
    assert orun("skipping.yaml").code == 0
    accepted = orun("baseline", "accept", "skipping.yaml")
    assert (accepted.code, accepted.err) == (0, "")
    assert steady(accepted.out) == "accepted import, weigh of run RUN-skipping\ncommit skipping.baseline.json\n"
    (project / "skipping.yaml").write_text(SKIPPING.replace("TARGET", "here"))
    assert orun("skipping.yaml").code == 0
    (project / "skipping.yaml").write_text(SKIPPING.replace("TARGET", "windows"))
    refused = orun("baseline", "accept", "skipping.yaml")
    assert refused.code == 2
    assert refused.err.startswith(
        "error: what the last run has for covered is not up to date, so it cannot be accepted\n"
        "  target windows: DmlExecutionProvider does not load on this machine ("
    )


def test_a_failed_run_cannot_be_accepted(orun: CommandLine, gated: Path) -> None:
    (gated / "words.yaml").write_text(GATED.replace("one two three", "boom"))
    assert orun("words.yaml").code == 3
    shown = orun("baseline", "accept", "words.yaml")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: what the last run has for count is not up to date, so it cannot be accepted\n"
        "  it failed in the last run\n"
        "  hint: orun words.yaml\n"
    )


def test_the_last_run_must_be_of_the_file_as_it_is(orun: CommandLine, gated: Path) -> None:
    orun("words.yaml")
    orun("words.yaml", "--set", "stages.write.with.text=one two")
    other = orun("baseline", "accept", "words.yaml")
    assert (other.code, other.err) == (
        2,
        (
            "error: what the last run has for write is not up to date, so it cannot be accepted\n"
            '  parameter text: "one two" -> "one two three"\n'
            "  hint: orun words.yaml\n"
        ),
    )
    (gated / "words.yaml").write_text(GATED.replace("one two three", "four"))
    edited = orun("baseline", "accept", "words.yaml")
    assert (edited.code, edited.err) == (
        2,
        (
            "error: what the last run has for write is not up to date, so it cannot be accepted\n"
            '  parameter text: "one two" -> "four"\n'
            "  hint: orun words.yaml\n"
        ),
    )


@pytest.mark.usefixtures("gated")
def test_what_to_type_has_the_values_and_the_store(orun: CommandLine) -> None:
    options = ("--store", "there", "--set", "stages.write.with.text=one two")
    nothing = orun("baseline", "accept", "words.yaml", *options)
    orun("words.yaml", "--store", "there")
    other = orun("baseline", "accept", "words.yaml", *options)
    again = "  hint: orun words.yaml --set 'stages.write.with.text=one two' --store there\n"
    assert (nothing.code, nothing.err) == (2, f"error: there is no run of words to accept\n{again}")
    assert (other.code, other.err) == (
        2,
        (
            "error: what the last run has for write is not up to date, so it cannot be accepted\n"
            f'  parameter text: "one two three" -> "one two"\n{again}'
        ),
    )


def test_another_pipeline_of_the_same_name_in_the_store_is_not_accepted(orun: CommandLine, gated: Path) -> None:
    other = gated / "other"
    other.mkdir()
    (other / "words.py").write_text((gated / "words.py").read_text())
    (other / "words.yaml").write_text(GATED.replace("one two three", "one two"))
    store = ("--store", str(gated / "store"))
    run = json.loads(orun("words.yaml", "--json", *store).out)["run"]
    assert orun("other/words.yaml", *store).code == 0
    accepted = orun("baseline", "accept", "words.yaml", "--json", *store)
    assert accepted.code == 0
    assert json.loads(accepted.out)["run"] == run
    (gated / "moved").mkdir()
    (gated / "words.py").rename(gated / "moved" / "words.py")
    (gated / "words.yaml").rename(gated / "moved" / "words.yaml")  # as another checkout: the name must do
    (gated / "moved" / "words.yaml").write_text(GATED.replace("one two three", "one two"))
    assert orun("baseline", "accept", "moved/words.yaml", *store).code == 0


def test_the_baseline_of_a_file_that_was_renamed(orun: CommandLine, gated: Path) -> None:
    assert (orun("words.yaml").code, orun("baseline", "accept", "words.yaml").code) == (0, 0)
    (gated / "words.yaml").rename(gated / "moved.yaml")
    why = "words.baseline.json is of a pipeline file that is gone: if it was this one, rename it, too"
    assert f"no baseline yet for `count` ({why}); to accept" in " ".join(orun("moved.yaml").out.split())
    assert orun("baseline", "show", "moved.yaml").err == (
        f"error: nothing is accepted for moved.yaml\n  {why}\n  hint: orun baseline accept moved.yaml\n"
    )
    (gated / "words.baseline.json").rename(gated / "moved.baseline.json")
    assert orun("moved.yaml").out.splitlines()[-1].startswith("passed: ")


def test_show_and_drop(orun: CommandLine, gated: Path) -> None:
    for verb in ("show", "diff"):
        nothing = orun("baseline", verb, "words.yaml")
        assert (nothing.code, nothing.err) == (
            2,
            "error: nothing is accepted for words.yaml\n  hint: orun baseline accept words.yaml\n",
        )
    orun("words.yaml")
    orun("baseline", "accept", "words.yaml")
    shown = orun("baseline", "show", "words.yaml").out.splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [["count", "words", "3"], ["write", "length", "13"]]
    assert set(json.loads(orun("baseline", "show", "words.yaml", "--json").out)["stages"]) == {"count", "write"}

    assert orun("baseline", "drop", "words.yaml").out == "removed words.baseline.json\n"
    assert orun("baseline", "drop", "words.yaml").out == "there is no words.baseline.json\n"
    assert json.loads(orun("baseline", "drop", "words.yaml", "--json").out) == {
        "file": str(gated / "words.baseline.json"),
        "dropped": False,
    }


def test_accepted_models_are_kept_whatever_becomes_of_the_file(orun: CommandLine, gated: Path) -> None:
    store = gated / "artifacts"

    def pinned() -> dict[str, str]:
        with Store.open(store) as opened:
            return {pin.name: pin.tree for pin in list_pins(opened)}

    orun("words.yaml", "--store", str(store))
    shown = orun("baseline", "accept", "words.yaml", "--store", str(store), "--json")
    assert json.loads(shown.out)["pinned"] == ["baseline of words: count"]
    accepted = json.loads((gated / "words.baseline.json").read_text())["stages"]["count"]["model"]
    assert pinned() == {"baseline of words: count": accepted}

    (gated / "words.yaml").write_text(GATED.replace("one two three", "one two three four"))
    orun("words.yaml", "--store", str(store))
    (gated / "words.baseline.json").unlink()
    with Store.open(store) as opened:
        collect(opened, Keep(runs=1))
        assert not opened.check(accepted)

    orun("baseline", "accept", "words.yaml", "--store", str(store))
    assert pinned()["baseline of words: count"] != accepted
    orun("baseline", "drop", "words.yaml", "--store", str(store))
    assert pinned() == {}


def test_dropping_makes_no_store(orun: CommandLine, gated: Path) -> None:
    (gated / "words.baseline.json").write_text("{}")
    assert orun("baseline", "drop", "words.yaml", "--store", str(gated / "none")).code == 0
    assert not (gated / "none").exists()
