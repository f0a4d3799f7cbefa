"""orun watch: its table, its document, its exit codes, and the releases that it finds."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from tests.drift.conftest import Serve, make_release, release, serve, shift_times

from .conftest import CommandLine

__all__ = ["release", "serve"]  # fixtures


def test_no_drift(orun: CommandLine, release: Path, serve: Serve) -> None:
    path = serve(40)
    shift_times(path)
    shown = orun("watch", str(path), "--release", str(release))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (
        "note: latency: the first 500 records become the reference, 40 are there\n"
        "no drift: 17 statistics, 40 records from 1970-01-01 00:00 to 1970-01-02 15:00 UTC\n"
    )


def test_drift(orun: CommandLine, release: Path, serve: Serve) -> None:
    serve(40)
    path = serve(12, lambda x: np.where(x > 1, np.float32(np.nan), x))
    shift_times(path)
    shown = orun("watch", str(path), "--release", str(release))
    assert (shown.code, shown.err) == (1, "")
    header, first, *_, last = shown.out.splitlines()
    assert header.split() == ["statistic", "before", "lately", "since", "(UTC)", "p", "verdict"]
    assert first.split()[0] in ("inputs.x.missing", "inputs.x.max", "outputs.y.missing")
    assert first.endswith("drift")
    assert last.startswith("drift: ")
    assert last.endswith(" of 17 statistics, in 52 records from 1970-01-01 00:00 to 1970-01-03 03:00 UTC")
    document = json.loads(orun("watch", str(path), "--release", str(release), "--json").out)
    assert document["drift"] is True
    assert (document["records"], len(document["statistics"])) == (52, 17)
    missing = next(item for item in document["statistics"] if item["name"] == "inputs.x.missing")
    assert (missing["verdict"], missing["before"]) == ("drift", 0)
    assert 40 * 3600 <= missing["since"] <= missing["detected"] < 52 * 3600
    verbose = orun("watch", str(path), "--release", str(release), "-v").out
    assert sum(line.endswith(("drift", "as at release", "learning")) for line in verbose.splitlines()) == 17


def test_a_reference_from_the_log_is_noted(orun: CommandLine, release: Path, serve: Serve) -> None:
    path = str(serve(40))
    command = ("watch", path, "--release", str(release), "--learn")
    notes = [
        line for line in orun(*command, "inputs.*=10", "--learn", "latency=20", "-v").out.splitlines() if "note" in line
    ]
    assert notes[:2] == [
        "note: 7 statistics: compared with the first 10 records of the log, not with the release",
        "note: latency: compared with the first 20 records of the log, not with the release",
    ]
    assert "not with the release" not in orun(*command, "latency=20").out  # no table, no column


def test_the_standard_input(
    orun: CommandLine, release: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = serve(5)
    with path.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        shown = orun("watch", "-", "--release", str(release))
    assert (shown.code, shown.err) == (0, "")
    (tmp_path / "bad").write_text("?\n")
    with (tmp_path / "bad").open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        shown = orun("watch", "-", "--release", str(release))
    assert shown.code == 2
    assert shown.err == "error: <stdin>:1: the line is no JSON\n  JSON is malformed: invalid character (byte 0)\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--learn", "latency"], "--learn wants NAME=N, not 'latency'\n  hint: --learn latency=500"),
        (["--learn", "=5"], "--learn wants NAME=N, not '=5'\n  hint: --learn latency=500"),
        (["--alpha", "much"], "--alpha wants a proportion such as 5% or 0.05, not 'much'"),
        (["--alpha", "100%"], "alpha must be above 0 and below 1, not 1"),
        (["--per", "day"], "--per wants a duration such as 90s or 30min, not 'day'"),
    ],
)
def test_options_that_are_wrong(
    orun: CommandLine, release: Path, serve: Serve, options: list[str], message: str
) -> None:
    shown = orun("watch", str(serve(1)), "--release", str(release), *options)
    assert shown.code == 2
    assert shown.err.startswith(f"error: {message}")


PIPELINE = """\
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  release: {uses: release/bundle, needs: import, with: {data: examples.npz}}
  other: {uses: release/bundle, needs: import}
"""


def test_the_release_of_a_run(
    orun: CommandLine, release: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = make_release(tmp_path)
    Path("model.onnx").write_bytes((path / "model.onnx").read_bytes())
    Path("toy.yaml").write_text(PIPELINE)
    assert orun("watch", "log", "--release", "last").err == (
        "error: last is neither the folder of a release nor a run\n"
        "  there is no store at artifacts\n  hint: ls artifacts/out\n"
    )
    assert orun("toy.yaml").code == 0
    log = str(serve(5))
    assert orun("watch", log, "--release", "last").code == 0
    assert orun("watch", log, "--release", "artifacts/out/toy/release").code == 0
    shown = orun("watch", log, "--release", "artifacts/out/toy/other")
    assert shown.code == 2
    assert shown.err == (
        "error: artifacts/out/toy/other has no reference to compare with\n  no reference.json in it\n"
        "  hint: set `data:` in the stage of release/bundle or release/server, and build it again\n"
    )
    assert orun("watch", log, "--release", "lst").err == (
        "error: lst is neither the folder of a release nor a run\n  there is no run 'lst'\n  hint: ls artifacts/out\n"
    )
    Path("artifacts").rename("other")
    assert orun("watch", log, "--release", "lst", "--store", "other").err.endswith("  hint: ls other/out\n")
    Path("other").rename("artifacts")
    assert (release / "reference.json").read_bytes() == Path("artifacts/out/toy/release/reference.json").read_bytes()
