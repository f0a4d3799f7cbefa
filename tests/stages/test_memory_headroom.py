"""Memory for a large model is checked before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.errors import StageFailed
from orun.stages import memory_headroom
from orun.stages.contract import Context
from orun.stages.params import build
from orun.stages.registry import import_kind
from tests.stages.support import make_context

GIB = 2**30


def context(folder: Path, kind: str, weights: int, *ports: str) -> Context:
    """Return the context of a stage on sparse models of that size."""
    for port in ports:
        (folder / port).mkdir()
        (folder / port / "model.onnx").touch()
        with (folder / port / "model.onnx.data").open("wb") as file:
            file.truncate(weights)
    return make_context(folder, stage=kind, inputs={port: folder / port for port in ports})


@pytest.mark.parametrize(
    ("kind", "ports", "takes", "weighs", "times"),
    [
        ("optimize/transformer", ["model"], "3 TB", "1 TB", "3"),
        ("quantize/debug", ["model", "reference"], "3.4 TB", "2 TB", "1.7"),
        ("quantize/dynamic", ["model"], "3.2 TB", "1 TB", "3.2"),
        ("quantize/static", ["model"], "3.2 TB", "1 TB", "3.2"),
    ],
)
def test_a_kind_refuses_what_does_not_fit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    ports: list[str],
    takes: str,
    weighs: str,
    times: str,
) -> None:
    monkeypatch.setattr(memory_headroom, "measure_free_memory", lambda: 8 * 10**9)
    module = import_kind(kind)
    with pytest.raises(StageFailed) as caught:
        module.run(context(tmp_path, kind, 10**12, *ports), build(module.Params, {}))
    assert str(caught.value) == (
        f"the model takes {takes} of memory here, and 8 GB are free\n"
        f"  its weights are {weighs}, and the stage needs up to {times} times as much at once\n"
        "  hint: free some memory, raise the limit of the container, or run this stage on a larger machine"
    )


def test_what_fits_or_is_small_is_let_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = context(tmp_path, "quantize/dynamic", 2 * GIB, "model")
    monkeypatch.setattr(memory_headroom, "measure_free_memory", lambda: 8 * GIB)
    memory_headroom.require_memory(stage, 4.0)
    monkeypatch.setattr(memory_headroom, "measure_free_memory", lambda: 0)
    memory_headroom.require_memory(stage, 4.0, weights=memory_headroom.LARGE - 1)
    with pytest.raises(StageFailed):
        memory_headroom.require_memory(stage, 4.0, weights=memory_headroom.LARGE)


def test_free_memory_is_that_of_the_machine_or_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orun.environment.physical_memory import measure_memory

    assert 0 < memory_headroom.measure_free_memory() <= measure_memory()
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemAvailable:  7 kB\n")
    monkeypatch.setattr(memory_headroom, "MEMINFO", meminfo)
    assert memory_headroom.measure_free_memory() == 7 * 1024
    monkeypatch.setattr(memory_headroom, "MEMINFO", tmp_path / "nowhere")
    assert memory_headroom.measure_free_memory() == measure_memory()
