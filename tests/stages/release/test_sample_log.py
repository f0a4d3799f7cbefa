"""The log of a server's requests: what a line holds, and that it keeps on with forks, rotation and full disks."""

from __future__ import annotations

import json
import logging
import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from orun.stages.release._server import sample_log
from orun.stages.release._server.sample_log import SampleLog, compute_statistics, summarize

Array = NDArray[Any]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def request(length: int = 4, rows: int = 1) -> tuple[dict[str, Array], dict[str, Array]]:
    ids = np.tile(np.arange(length), (rows, 1))
    return {"ids": ids}, {"logits": np.tile(np.array([0.5, 2.0, 1.0], np.float32), (rows, 1))}


def test_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_790_000_000.12345)
    log = SampleLog(tmp_path / "log.jsonl", 1.0, 0, model="abc")
    log.record(*request(), 0.0123456)
    (line,) = read(tmp_path / "log.jsonl")
    assert len(line.pop("worker")) == 12
    assert line == {
        "sample_log": 1,
        "time": 1_790_000_000.123,
        "request": 1,
        "seconds": 0.0123,
        "model": "abc",
        "rows": 1,
        "inputs": {
            "ids": {
                "type": "int64", "shape": [1, 4], "size": 4.0, "mean": 1.5, "std": 1.12, "min": 0.0, "max": 3.0,
                "zeros": 0.25, "distinct": 4.0, "common": 0.25,
            }
        },
        "outputs": {
            "logits": {
                "type": "float32", "shape": [1, 3], "size": 3.0, "mean": 1.17, "std": 0.624, "min": 0.5, "max": 2.0,
                "zeros": 0.0, "missing": 0.0, "top": 1.0, "lead": 1.0,
            }
        },
    }  # fmt: skip


def test_a_share_of_the_requests_is_logged(tmp_path: Path) -> None:
    log = SampleLog(tmp_path / "log.jsonl", 0.1, 0)
    for _ in range(1000):
        log.record(*request(), 0.0)
    numbers = [line["request"] for line in read(tmp_path / "log.jsonl")]
    assert 60 < len(numbers) < 140
    assert numbers == sorted(set(numbers))
    with pytest.raises(ValueError, match=r"^the share of requests to log must be from 0 to 1, not 3$"):
        SampleLog(tmp_path / "log.jsonl", 3, 0)


NAN = float("nan")
NUMBERS = {"size": 2.0, "mean": 1.5, "std": 0.5, "min": 1.0, "max": 2.0, "zeros": 0.0}
NONE = dict.fromkeys(("mean", "std", "min", "max", "zeros"))


@pytest.mark.parametrize(
    ("array", "is_output", "expected"),
    [
        (np.array([1.0, NAN, 2.0, np.inf], np.float32), False, NUMBERS | {"size": 4.0, "missing": 0.5}),
        (np.array([NAN]), False, NONE | {"size": 1.0, "missing": 1.0}),
        (np.zeros((1, 0), np.float32), False, NONE | {"size": 0.0, "missing": None}),
        (np.zeros((1, 0), np.int64), True, NONE | {"size": 0.0, "distinct": 0.0, "common": None}),
        (np.array([1, 2], ml_dtypes.bfloat16), False, NUMBERS | {"missing": 0.0}),
        (np.array([1, 2], np.float16), False, NUMBERS | {"missing": 0.0}),
        (np.array([[1, 2]], np.uint8), True, NUMBERS | {"distinct": 2.0, "common": 0.5, "top": 1.0, "lead": 1.0}),
        (np.array(["a", "bc"], object), False, NUMBERS | {"distinct": 2.0, "common": 0.5}),
        (np.array([1e308, 1e308, -1e308]), False, {
            "size": 3.0, "mean": None, "std": None, "min": -1e308, "max": 1e308, "zeros": 0.0, "missing": 0.0,
        }),
    ],
)  # fmt: skip
def test_statistics_of_odd_arrays(array: Array, is_output: bool, expected: dict[str, float | None]) -> None:
    assert compute_statistics(array, is_output=is_output) == expected


def test_labels_have_a_code() -> None:
    codes = [compute_statistics(np.array([label], object), is_output=True)["top"] for label in ("cat", "dog", "cat")]
    assert codes[0] == codes[2] != codes[1]


def test_a_large_output_is_compared_in_part() -> None:
    values = np.zeros((1, 300, 1000), np.float32)
    values[..., 7] = 1
    assert compute_statistics(values, is_output=True)["top"] == 7


def test_a_request_of_several_rows_is_summarised_by_one_of_them() -> None:
    inputs = {"x": np.repeat(np.arange(8.0), 3).reshape(8, 3)}
    outputs = {"y": np.arange(8.0)}
    summary = summarize(inputs, outputs, random.Random(0))
    assert summary["rows"] == 8
    row = summary["inputs"]["x"]
    assert (row["shape"], row["std"]) == ([1, 3], 0)
    assert summary["outputs"]["y"]["mean"] == row["mean"]


def test_arrays_without_a_common_axis_are_one_row() -> None:
    summary = summarize({"x": np.zeros((4, 3))}, {"y": np.zeros((2, 3)), "map": {"a": 1}}, random.Random(0))  # type: ignore[dict-item]
    assert (summary["rows"], summary["inputs"]["x"]["shape"], list(summary["outputs"])) == (1, [4, 3], ["y"])


def test_arrays_of_personal_data_stay_out(tmp_path: Path) -> None:
    log = SampleLog(tmp_path / "log.jsonl", 1.0, 0, without=["ids"])
    log.record(*request(), 0.0)
    assert read(tmp_path / "log.jsonl")[0]["inputs"] == {}


def test_a_renamed_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = SampleLog(path, 1.0, 0)
    log.record(*request(), 0.0)
    path.rename(tmp_path / "log.jsonl.1")
    log.record(*request(), 0.0)
    log.close()
    log.record(*request(), 0.0)
    assert [line["request"] for line in read(path)] == [2, 3]
    assert [line["request"] for line in read(tmp_path / "log.jsonl.1")] == [1]


def test_a_file_that_is_full_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log.jsonl"
    log = SampleLog(path, 1.0, 0, largest=600)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.record(*request(), 0.0)
    assert [line["request"] for line in read(path)] == [1]
    assert caplog.messages == [
        f"cannot write to {path}: it has reached 600 bytes, and must be rotated; requests go on unlogged"
    ]


def test_a_file_that_cannot_be_opened_is_known_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "log.jsonl"
    log = SampleLog(path, 1.0, 0)
    with pytest.raises(FileNotFoundError):
        log.open()
    path.parent.mkdir()
    log.open()
    assert read(path) == []
    log.record(*request(), 0.0)
    assert [line["request"] for line in read(path)] == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_line_that_was_cut_takes_no_other_with_it(tmp_path: Path) -> None:
    log = SampleLog(tmp_path / "log.jsonl", 1.0, 0)
    log.record(*request(), 0.1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "log.jsonl").stat().st_size + 30, hard))  # the disk is full
    try:
        log.record(*request(), 0.2)
        log.record(*request(), 0.3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.record(*request(), 0.4)
    log.record(*request(), 0.5)
    first, cut, *rest = (tmp_path / "log.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["seconds"] for line in (first, *rest)] == [0.1, 0.4, 0.5]
    assert len(cut) == 30


def test_processes_share_a_file(tmp_path: Path) -> None:
    """In a process of its own, without orun on its path: the file is all that a server has."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(sample_log.__file__).parent)!r})
import os, pathlib, numpy as np, sample_log
log = sample_log.SampleLog(pathlib.Path("log.jsonl"), 1.0, 0)
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        for _ in range(50):
            log.record({{"x": np.zeros(3)}}, {{"y": np.zeros(3)}}, 0.1)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
assert not [name for name in sys.modules if name.partition(".")[0] == "orun"]
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)
    lines = read(tmp_path / "log.jsonl")
    assert len({(line["worker"], line["request"]) for line in lines}) == len(lines) == 150
    assert len({line["worker"] for line in lines}) == 3
