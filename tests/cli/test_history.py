"""orun history."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from orun import api
from orun.fs.bounded_reads import read_bounded
from orun.store import checksummed_json

from .conftest import CommandLine, write_project


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after three runs: two that measured, and one that found everything up to date."""
    folder = tmp_path_factory.mktemp("measured")
    write_project(folder)
    for text in ("one two three", "one two three four", "one two three four"):
        api.run(folder / "words.yaml", set={"stages.write.with.text": text}, store=folder / "artifacts")
    return folder


@pytest.fixture
def measured(project: Path, built: Path) -> Path:
    """The working folder: a copy of that project."""
    shutil.copytree(built, project, symlinks=True, dirs_exist_ok=True)
    return project


@pytest.mark.usefixtures("measured")
def test_what_was_measured_is_kept_once(orun: CommandLine) -> None:
    series = json.loads(orun("history", "--json").out)["series"]
    assert {f"{item['stage']}.{item['metric']}": [p["value"] for p in item["points"]] for item in series} == {
        "count.words": [3.0, 4.0],
        "write.length": [13.0, 18.0],
    }
    (change,) = series[0]["changes"]
    assert (change["index"], change["before"], change["after"]) == (1, 3.0, 4.0)
    assert change["run"] == series[0]["points"][1]["run"]


@pytest.mark.usefixtures("measured")
def test_overview_and_detail(orun: CommandLine) -> None:
    lines = orun("history").out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["pipeline", "metric"],
        ["words", "count.words"],
        ["words", "write.length"],
    ]
    assert re.search(r"▁█ +4  (just now|\d+ minutes? ago)  3 -> 4 \(\+33\.3 %\)$", lines[1])
    first, second, third, *_ = orun("history", "words").out.splitlines()
    listed = [line.split() for line in orun("history", "words", "--last", "1").out.splitlines()[-2:]]
    assert (listed[0][0], listed[1][2]) == ("measured", "4")  # below the titles the newest alone
    assert first.startswith("words count.words on ")
    assert first.endswith(": 2 measurements")
    assert second == "▁█"
    assert "3 -> 4 (+33.3 %) in run " in third


def values(orun: CommandLine) -> dict[str, list[float]]:
    """What the history has of the numbers of words."""
    series = json.loads(orun("history", "words", "--json").out)["series"]
    return {item["stage"]: [point["value"] for point in item["points"]] for item in series}


def test_the_past_of_a_stage_goes_on_under_its_new_name(measured: Path, orun: CommandLine) -> None:
    file = measured / "words.yaml"
    four = ("--set", "stages.write.with.text=one two three four")
    file.write_text(file.read_text().replace("count:", "total:"))
    assert orun("words.yaml", *four).code == 0
    assert values(orun) == {"count": [3.0, 4.0], "total": [3.0, 4.0]}
    assert orun("words.yaml", "--set", "stages.write.with.text=a b c d e").code == 0
    assert orun("words.yaml", *four).code == 0
    assert values(orun) == {"count": [3.0, 4.0], "total": [3.0, 4.0, 5.0, 4.0]}


def test_a_value_that_comes_back_from_the_store_is_the_latest_again(measured: Path, orun: CommandLine) -> None:
    """After an edit that was reverted: at its first run, once, and after `--mend` as well."""
    file = measured / "words.yaml"
    file.write_text(file.read_text())
    for _ in range(3):
        assert "2 cached" in orun("words.yaml").out.splitlines()[-1]
    assert values(orun) == {"count": [3.0, 4.0, 3.0]}
    before = orun("history", "--csv", "-").out
    history = measured / "artifacts" / "history.sqlite"
    history.unlink()
    assert orun("history", "--mend").out == "artifacts/history.sqlite: 6 measurements added from the records of runs\n"
    assert orun("history", "--csv", "-").out == before


def test_a_stage_beside_one_that_measures_the_same_has_no_past(measured: Path, orun: CommandLine) -> None:
    file = measured / "words.yaml"
    file.write_text(file.read_text() + "  again: {uses: ./words.py:count, needs: write}\n")
    assert orun("words.yaml", "--set", "stages.write.with.text=one two three four").code == 0
    assert values(orun) == {"count": [3.0, 4.0]}


def test_one_pipeline_of_several(measured: Path, orun: CommandLine) -> None:
    (measured / "other.yaml").write_text("extends: words.yaml\nname: other\n")
    assert orun("other.yaml", "--set", "stages.write.with.text=a b c d e").code == 0
    series = json.loads(orun("history", "words", "--pipeline", "other", "--json").out)["series"]
    assert [(item["pipeline"], [p["value"] for p in item["points"]]) for item in series] == [("other", [5.0])]
    assert [point["pipeline"] for point in json.loads(orun("history", "words", "--json").out)["series"]] == [
        "other",
        "words",
    ]
    shown = orun("history", "--pipeline", "gone")
    assert (shown.code, shown.err.splitlines()[0]) == (2, "error: nothing of gone was measured yet")


def test_csv(measured: Path, orun: CommandLine) -> None:
    assert orun("history", "count.words", "--csv", "words.csv").code == 0
    with (measured / "words.csv").open(newline="") as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["3.0", "4.0"]


def test_only_one_form_at_a_time(orun: CommandLine) -> None:
    both = orun("history", "--csv", "-", "--mlflow", "http://127.0.0.1:9")
    assert (both.code, both.out) == (2, "")
    assert both.err == (
        "error: --csv, --mlflow and --json are one instead of the other\n  hint: orun history --csv FILE\n"
    )


@pytest.mark.usefixtures("measured")
def test_a_metric_that_is_not_there(orun: CommandLine) -> None:
    assert orun("history", "count.wrods").err == (
        "error: no measurement of 'count.wrods'\n  did you mean count.words?\n  hint: orun history\n"
    )


@pytest.mark.parametrize(("name", "pipeline"), [("./words.yaml", "words"), ("other.yml", "NAME")])
@pytest.mark.usefixtures("measured")
def test_a_file_in_place_of_a_metric(orun: CommandLine, name: str, pipeline: str) -> None:
    """Every other verb takes the file first."""
    assert orun("history", name).err == (
        f"error: no measurement of '{name}'\n  the argument is a metric, not a file\n"
        f"  hint: orun history --pipeline {pipeline}\n"
    )


def test_nothing_yet(project: Path, orun: CommandLine) -> None:
    outcome = orun("history", "--pipeline", "words")
    looked_in = project / "artifacts" / "history.sqlite"
    assert outcome.code == 2
    assert outcome.err == f"error: nothing of words was measured yet\n  looked in {looked_in}\n  hint: orun FILE\n"


@pytest.mark.usefixtures("project")
def test_a_shared_file(
    orun: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("shared") / "h.sqlite"
    monkeypatch.setenv("ORUN_HISTORY", str(shared))
    for store in ("one", "two"):
        assert orun("run", "words.yaml", "--store", store).code == 0
    (series,) = json.loads(orun("history", "count.words", "--json").out)["series"]
    assert len(series["points"]) == 2


def test_a_history_that_cannot_be_written_fails_no_release(project: Path, orun: CommandLine) -> None:
    (project / "artifacts").mkdir()
    (project / "artifacts/history.sqlite").write_bytes(b"no database" * 100)
    outcome = orun("run", "words.yaml")
    assert outcome.code == 0
    assert (
        f"the history {project}/artifacts/history.sqlite cannot be used (file is not a database): "
        "the measurements of this run are not in it; put it aside, and have a new one made of what runs have measured: "
        "orun history --mend --store artifacts"
    ) in outcome.out


def test_a_damaged_history_is_made_anew_of_what_runs_have_measured(measured: Path, orun: CommandLine) -> None:
    before = orun("history").out
    history = measured / "artifacts" / "history.sqlite"
    history.write_bytes(b"no database" * 100)
    assert orun("history").err == (
        f"error: the history {history} cannot be used\n  file is not a database\n"
        "  hint: put it aside, and have a new one made of what runs have measured: "
        "orun history --mend --store artifacts\n"
    )
    lines = orun("history", "--mend", "--store", "artifacts").out.splitlines()
    assert lines == [
        "artifacts/history.sqlite was damaged, and is artifacts/history.sqlite.damaged now",
        "artifacts/history.sqlite: 4 measurements added from the records of runs",
    ]
    assert orun("history").out == before
    assert (measured / "artifacts/history.sqlite.damaged").read_bytes() == b"no database" * 100
    assert json.loads(orun("history", "--mend", "--json").out) == {"file": str(history), "damaged": None, "added": 0}


def test_a_file_of_the_user_that_is_no_history_stays_where_it_is(
    measured: Path, orun: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in measured.iterdir() if path.is_file()}
    monkeypatch.setenv("ORUN_HISTORY", "words.yaml")
    for arguments in (("--mend",), ()):
        outcome = orun("history", *arguments)
        assert (outcome.code, outcome.out, outcome.err) == (
            3,
            "",
            (
                "error: the history words.yaml cannot be used\n  file is not a database\n"
                "  hint: name another file in $ORUN_HISTORY\n"
            ),
        )
    assert {path.name: path.read_bytes() for path in measured.iterdir() if path.is_file()} == before


def test_a_shared_history_whose_pages_are_damaged_is_made_anew(
    measured: Path, orun: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = (measured / "artifacts" / "history.sqlite").rename(measured / "shared.db")
    content = shared.read_bytes()
    shared.write_bytes(content[: len(content) // 2])
    monkeypatch.setenv("ORUN_HISTORY", "shared.db")
    assert orun("history", "--mend").out.splitlines() == [
        "shared.db was damaged, and is shared.db.damaged now",
        "shared.db: 4 measurements added from the records of runs",
    ]


def test_a_torn_history_is_damaged_and_put_beside_the_one_before(measured: Path, orun: CommandLine) -> None:
    history = measured / "artifacts" / "history.sqlite"
    history.with_name("history.sqlite.damaged").touch()
    content = history.read_bytes()
    history.write_bytes(content[: len(content) // 2])
    document = json.loads(orun("history", "--mend", "--json").out)
    assert document == {"file": str(history), "damaged": f"{history}.damaged1", "added": 4}


def test_of_a_run_whose_record_cannot_be_read_the_history_is_not_called_whole(
    measured: Path, orun: CommandLine
) -> None:
    """A disk that failed for a moment left what the run had measured out of the new history without a word."""
    (measured / "artifacts" / "history.sqlite").unlink()
    record = max((measured / "artifacts" / "runs").glob("*/record.json"))

    def fail(path: Path, limit: int) -> bytes:
        if path.samefile(record):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read_bounded(path, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksummed_json, "read_bounded", fail)
        outcome = orun("history", "--mend")
    assert (outcome.code, outcome.err) == (
        3,
        (
            f"error: cannot read {record}: the disk reports an error\n  {record}: Input/output error\n"
            "  hint: Look for its cause: dmesg\n"
        ),
    )
    assert orun("history", "--mend").out == "artifacts/history.sqlite: 4 measurements added from the records of runs\n"
