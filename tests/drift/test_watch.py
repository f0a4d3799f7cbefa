"""`orun.watch` over logs of a real model: verdicts, references that are learnt, state, periods, and logs that go on."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import orun
from orun.drift import sample_log
from orun.drift.release import load_release
from orun.errors import UsageError

from .conftest import Array, Serve, shift_times

STATISTICS = [
    *(f"inputs.x.{name}" for name in ("max", "mean", "min", "missing", "size", "std", "zeros")),
    *(f"outputs.y.{name}" for name in ("lead", "max", "mean", "min", "missing", "size", "std", "top", "zeros")),
    "latency",
]


def broken(x: Array) -> Array:
    return x * 255


def with_missing(x: Array) -> Array:
    return np.where(np.arange(x.shape[1]) == 0, np.float32(np.nan), x)


def test_a_log_without_drift(release: Path, serve: Serve) -> None:
    result = orun.watch(serve(700), release)
    assert [item.name for item in result.statistics] == STATISTICS
    assert {item.verdict for item in result.statistics} == {"as at release"}
    assert (result.records, result.exit_code, result.drifted, dict(result.left_out)) == (700, 0, (), {})
    assert all(0.01 < item.p <= 1 for item in result.statistics)


def test_inputs_that_are_scaled_otherwise(release: Path, serve: Serve) -> None:
    serve(200)
    path = serve(20, broken)
    shift_times(path)
    result = orun.watch(path, release)
    assert result.exit_code == 1
    names = [item.name for item in result.drifted]
    assert {"inputs.x.std", "inputs.x.max", "inputs.x.min", "outputs.y.std", "outputs.y.lead"} <= set(names)
    assert not set(names) & {"inputs.x.size", "inputs.x.missing", "latency"}
    spread = next(item for item in result.drifted if item.name == "inputs.x.std")
    assert spread.since == pytest.approx(200 * 3600, abs=2 * 3600)
    assert spread.detected is not None
    assert (spread.since or 0) <= spread.detected < 212 * 3600
    assert (spread.before or 0) < 1 < (spread.now or 0)


def test_missing_values_in_the_input_and_the_output(release: Path, serve: Serve) -> None:
    serve(100)
    result = orun.watch(serve(20, with_missing), release)
    drifted = {item.name: item.now for item in result.drifted}
    assert drifted["inputs.x.missing"] == 0
    assert "outputs.y.missing" in drifted
    assert "outputs.y.mean" in drifted  # which no record has any more


def test_requests_of_several_rows_are_as_the_release_s_rows(release: Path, serve: Serve) -> None:
    result = orun.watch(serve(300, rows=16), release)
    assert result.drifted == ()
    assert result.statistics[-1].verdict == "not logged"  # the latency of 16 rows is another one


def test_the_latency_is_learnt_from_the_log(release: Path, serve: Serve) -> None:
    path = serve(150)
    result = orun.watch(path, release, learn={"latency": 200})
    assert (result.statistics[-1].verdict, result.statistics[-1].before) == ("learning", None)
    lines = [json.loads(line) for line in serve(150).read_text().splitlines()]
    for line in lines[250:]:
        line["seconds"] *= 3
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (drifted,) = orun.watch(path, release, learn={"latency": 200}).drifted
    assert (drifted.name, drifted.learnt) == ("latency", 200)
    assert (drifted.now or 0) > 2 * (drifted.before or 0) > 0


def test_a_reference_that_is_learnt_whole(release: Path, serve: Serve) -> None:
    path = serve(300, broken)
    assert orun.watch(path, release).drifted
    assert orun.watch(path, release, learn={"*": 150}).drifted == ()


def test_a_statistic_to_learn_that_is_not_there(release: Path, serve: Serve) -> None:
    for pattern, why in (
        ("inputs.z.*", "did you mean inputs.x.*?"),
        ("quantile", f"expected one of {', '.join(STATISTICS)}"),
    ):
        with pytest.raises(UsageError) as caught:
            orun.watch(serve(1), release, learn={pattern: 5})
        assert str(caught.value) == f"{release} has no statistic {pattern}\n  {why}"
    with pytest.raises(UsageError) as caught:
        orun.watch(serve(1), release, learn={"latency": 0})
    assert str(caught.value) == f"the latency of {release} was not measured\n  hint: --learn latency=500"


def test_looking_twice_is_looking_once(release: Path, serve: Serve, tmp_path: Path) -> None:
    """A test that goes on from its state comes to the same figures as one of the whole log."""
    state = tmp_path / "watch.state"
    path = serve(130)
    first = orun.watch(path, release, state=state)
    again = orun.watch(path, release, state=state)
    assert again.statistics == first.statistics
    assert again.left_out == {"read before": 130}
    path.rename(tmp_path / "requests.jsonl.1")
    serve(170)
    nightly = orun.watch([tmp_path / "requests.jsonl.1", path], release, state=state)
    assert nightly.left_out == {"read before": 130}
    at_once = orun.watch([tmp_path / "requests.jsonl.1", path], release)
    assert (nightly.records, at_once.records) == (300, 300)
    for statistic, other in zip(nightly.statistics, at_once.statistics, strict=True):
        assert (statistic.name, statistic.verdict) == (other.name, other.verdict)
        assert statistic.p == pytest.approx(other.p)


def test_drift_stays_found(release: Path, serve: Serve, tmp_path: Path) -> None:
    state = tmp_path / "watch.state"
    assert orun.watch(serve(20, broken), release, state=state).exit_code == 1
    assert orun.watch(serve(700), release, state=state).exit_code == 1


def test_a_state_of_another_test(release: Path, serve: Serve, tmp_path: Path) -> None:
    state = tmp_path / "watch.state"
    path = serve(5)
    orun.watch(path, release, state=state)
    with pytest.raises(UsageError) as caught:
        orun.watch(path, release, state=state, alpha=0.05)
    assert str(caught.value) == (
        f"the state {state} is of another test\n  its alpha was 0.01, and is 0.05 now\n"
        f"  hint: to begin a new test: rm {state}"
    )
    state.write_bytes(state.read_bytes()[:200])
    with pytest.raises(UsageError, match=rf"^the state .* is damaged\n.*\n  hint: to begin a new test: rm {state}$"):
        orun.watch(path, release, state=state)
    archive = tmp_path / "archive.npz"
    np.savez_compressed(archive, weights=np.zeros(3))
    for content in (b"", b"PK\x03\x04", archive.read_bytes(), (release / "model.onnx").read_bytes()):
        state.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            orun.watch(path, release, state=state)
        assert str(caught.value) == (
            f"{state} is not the state of a test\n  hint: name another file: --state watch.state"
        )
        assert state.read_bytes() == content


def test_only_the_file_of_the_state_is_written(
    release: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file `w.state.part` of the user was removed, the target of such a link replaced, and a pipe waited for."""
    monkeypatch.chdir(tmp_path)
    log = serve(5)
    code, part, link = tmp_path / "code.py", tmp_path / "w.state.part", tmp_path / "link.state"
    code.write_text("kept\n")
    part.symlink_to("code.py")
    link.symlink_to("new/w.state")
    orun.watch(log, release, state="w.state")
    orun.watch(log, release, state="link.state")
    assert (code.read_text(), part.readlink(), link.readlink()) == ("kept\n", Path("code.py"), Path("new/w.state"))
    assert orun.watch(log, release, state="new/w.state").left_out == {"read before": 5}
    os.mkfifo(tmp_path / "pipe")
    for name, message in {
        "pipe": "cannot read the state pipe\n  Not a regular file",
        "code.py/w.state": "cannot read the state code.py/w.state\n  Not a directory",
        "artifacts/objects/w.state": "artifacts/objects/w.state cannot be written\n"
        "  only orun writes to artifacts/objects\n  hint: name another file",
    }.items():
        with pytest.raises(UsageError) as caught:
            orun.watch(log, release, state=name)
        assert str(caught.value) == message


def test_no_log(release: Path) -> None:
    with pytest.raises(UsageError) as caught:
        orun.watch([], release)
    assert str(caught.value) == "no log was named\n  hint: name the sampled log of a server: requests.jsonl"


def test_one_request_of_each_period(release: Path, serve: Serve, tmp_path: Path) -> None:
    path = serve(240)
    shift_times(path)
    result = orun.watch(path, release, per=86400)
    assert result.records == 9  # the tenth day goes on
    state = tmp_path / "watch.state"
    lines = path.read_text().splitlines(keepends=True)
    for part in (lines[:100], lines[100:]):
        path.write_text("".join(part))
        resumed = orun.watch(path, release, per=86400, state=state)
    assert resumed.statistics == result.statistics


def test_a_log_that_is_followed_until_it_drifts(
    release: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sample_log, "PAUSE", 0.01)
    path = serve(50)
    results: list[orun.WatchResult] = []
    watching = threading.Thread(target=lambda: results.append(orun.watch(path, release, follow=True)), daemon=True)
    watching.start()
    time.sleep(0.1)
    path.rename(tmp_path / "requests.jsonl.1")
    serve(30, broken)
    watching.join(60)
    assert len(results) == 1
    assert results[0].drifted[0].name.startswith("inputs.x.")


def test_a_log_that_is_rotated_is_read_to_its_end_and_the_new_one_from_its_first_line(
    release: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sample_log, "PAUSE", 0)
    path = tmp_path / "my logs" / "log.jsonl"
    path.parent.mkdir()
    path.write_text(GOOD)
    position = sample_log.Position()
    samples = sample_log.read_samples(str(path), load_release(release), position, follow=True)
    assert [item is None for item in itertools.islice(samples, 2)] == [False, True]
    with path.open("a") as old:
        old.write(NEXT)
    path.rename(path.with_name("log.jsonl.1"))
    path.write_text(GOOD.replace('"request":1', '"request":3') + "{}\n")
    assert next(samples)
    assert position.last == {"a": 2}
    assert next(samples)
    assert position.last == {"a": 3}
    with pytest.raises(UsageError) as caught:
        next(samples)
    assert str(caught.value) == (
        f"{path}:2: the line is no record of a sampled log\n  each line is the JSON object of a request\n"
        f"  hint: to leave it out: sed -i 2d '{path}'"
    )


def test_a_compressed_log(release: Path, serve: Serve, tmp_path: Path) -> None:
    packed = tmp_path / "requests.jsonl.gz"
    packed.write_bytes(gzip.compress(serve(10).read_bytes()))
    assert orun.watch(packed, release).records == 10
    content = packed.read_bytes()
    for damaged in (b"{}", content[:-20], content[:200] + b"\0" * 100 + content[300:]):
        packed.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"^cannot read the log .*requests\.jsonl\.gz\n  "):
            orun.watch(packed, release)


def test_a_compressed_log_that_is_followed_is_read_once(
    release: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sample_log, "PAUSE", 0)
    packed = tmp_path / "requests.jsonl.gz"
    packed.write_bytes(gzip.compress(serve(10).read_bytes()))
    position = sample_log.Position()
    samples = sample_log.read_samples(str(packed), load_release(release), position, follow=True)
    assert [item is None for item in itertools.islice(samples, 13)] == [False] * 10 + [True] * 3
    assert dict(position.left_out) == {}


def test_lines_of_another_model_are_left_out(release: Path, serve: Serve) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    model = next(file["sha256"] for file in manifest["files"] if file["path"] == "model.onnx")
    serve(3, model="0" * 64)
    result = orun.watch(serve(4, model=model), release)
    assert (result.records, result.left_out) == (4, {"of another model": 3})


def test_a_log_of_another_model(release: Path, serve: Serve) -> None:
    path = serve(3, model="0" * 64)
    with pytest.raises(UsageError) as caught:
        orun.watch(path, release)
    assert str(caught.value) == (
        f"there is no record in {path}\n  left out 3 lines: of another model\n"
        "  hint: name the bundle that the server runs: --release FOLDER"
    )


def test_records_that_come_out_of_order(release: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(GOOD + NEXT.replace('"time":5', '"time":4'))
    result = orun.watch(path, release)
    assert (result.records, result.first, result.last) == (2, 4, 5)


def test_an_array_that_is_not_logged(release: Path, serve: Serve) -> None:
    result = orun.watch(serve(10, without=["x"]), release)
    absent = [item.name for item in result.statistics if item.verdict == "not logged"]
    assert absent == [name for name in STATISTICS if name.startswith("inputs.")]


def test_an_empty_log(release: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    with pytest.raises(UsageError) as caught:
        orun.watch(path, release)
    assert str(caught.value) == (
        f"there is no record in {path}\n  hint: is the server's share of requests to log above 0?"
    )
    with pytest.raises(UsageError, match=r"^cannot read the log .*/none\.jsonl\n  No such file or directory$"):
        orun.watch(tmp_path / "none.jsonl", release)


GOOD = (
    '{"sample_log":1,"time":5,"worker":"a","request":1,"seconds":0.1,"rows":1,"inputs":{"x":{"type":"float32",'
    '"shape":[1,8],"size":8,"mean":0}},"outputs":{"y":{"type":"float32","shape":[1,3],"size":3,"mean":0}}}\n'
)
NEXT = GOOD.replace('"request":1', '"request":2')


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (NEXT[:50] + "\n", "the line is no JSON\n  Input data was truncated"),
        (NEXT[:50] + NEXT, "the line is no JSON\n  JSON is malformed: object keys must be strings (byte 50)"),
        ("[1]\n", "the line is no record of a sampled log\n  each line is the JSON object of a request"),
        (
            '{"event": "run_started"}\n',
            "the line is no record of a sampled log\n  each line is the JSON object of a request",
        ),
        (NEXT.replace('log":1', 'log":7'), "the line has format 7\n  this orun knows 1"),
        (NEXT.replace('"time":5,', ""), "the line is damaged\n  it has no 'time'"),
        (
            NEXT.replace('"mean":0', '"mean":NaN'),
            "the line is no JSON\n  JSON is malformed: invalid character (byte 135)",
        ),
        (
            NEXT.replace('"mean":0', '"mean":1e999'),
            "the line is no JSON\n  Number out of range - at `$[...][...][...]`",
        ),
        (NEXT.replace('"mean":0', '"mean":"0"'), "the line is damaged\n  inputs.x.mean is no number"),
        (NEXT.replace('"seconds":0.1', '"seconds":[]'), "the line is damaged\n  latency is no number"),
        *(
            (NEXT.replace('"time":5', f'"time":{seconds}'), "the line is damaged\n  time is not in seconds since 1970")
            for seconds in ("1e300", "-1", "1764200000000")
        ),
        (
            NEXT.replace('"x":{"type":"float32"', '"x":{"type":"int64"'),
            "the line is of another model: among its inputs is x (int64)\n  RELEASE has x (float32)",
        ),
        (
            NEXT.replace('"y":', '"probabilities":'),
            "the line is of another model: among its outputs is probabilities (float32)\n  RELEASE has y (float32)",
        ),
    ],
)
def test_a_line_that_is_no_record(release: Path, tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(GOOD + line)
    with pytest.raises(UsageError) as caught:
        orun.watch(path, release)
    expected = f"{path}:2: {problem.replace('RELEASE', str(release))}\n  hint: to leave it out: sed -i 2d {path}"
    assert str(caught.value) == expected


def test_a_line_that_is_being_written(release: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(GOOD + NEXT[:100])
    result = orun.watch(path, release)
    assert (result.records, result.left_out) == (1, {"incomplete, as it is being written": 1})


def test_a_line_without_an_end(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_log, "LONGEST", 1 << 20)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"x" * (3 << 20))
    with pytest.raises(UsageError, match=r"log\.jsonl:1: the line is too long\n  a line has at most 1 MiB"):
        orun.watch(path, release)


def test_a_release_without_a_reference(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        orun.watch(serve(1), tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} has no reference to compare with\n  no reference.json in it\n"
        "  hint: set `data:` in the stage of release/bundle or release/server, and build it again"
    )


def test_a_reference_that_was_changed(release: Path, serve: Serve, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "manifest.json").write_bytes((release / "manifest.json").read_bytes())
    (copy / "reference.json").write_bytes((release / "reference.json").read_bytes() + b" ")
    with pytest.raises(UsageError) as caught:
        orun.watch(serve(1), copy)
    assert str(caught.value) == f"the reference of {copy} does not match its manifest\n  hint: orun verify {copy}"
