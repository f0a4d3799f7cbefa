"""Conditions that changed since the baseline was accepted, which a comparison with it does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from orun.core.serialization import replace
from orun.gates.baseline_file import group_by_kind
from orun.gates.conditions import list_changes_since
from orun.gates.judge import judge
from orun.gates.measured import Ports
from orun.gates.regression import Terms
from orun.pipeline.model import Stage
from orun.planning.key_diff import list_key_changes
from orun.store.records import ImplicitDependencies
from orun.text.wording.caveats import describe_caveat
from tests.facts import components
from tests.facts import format_caveat as caveat_of
from tests.gates.support import HERE, PLACE, accepted, action, compared, gate, metric

MEASURED = {"p50": metric(0.010, "s", "lower", "timing", (0.009, 0.011))}
STAGE = Stage("latency", "measure/latency", PLACE, needs={"model": "int8"})
END = "; both models were measured as it is now, so what that does to them is not in the comparison"
TARGET = {"parameter target": '"cpu"', "target": '{"session":{"intra_op_num_threads":4}}'}


def reason_for(*arguments: Any) -> str:
    return "; ".join(map(describe_caveat, list_changes_since(*arguments)))


def sentence(setup: Mapping[str, str], now: Mapping[str, str], host: Mapping[str, str] = HERE) -> str:
    known = replace(accepted(MEASURED, host=host), setup=group_by_kind(components(setup)))
    stored = action(MEASURED)
    return reason_for(
        list_key_changes, STAGE, known, replace(stored, components=(*stored.components, *components(now))), Ports()
    )


def test_nothing_changed() -> None:
    assert not sentence(TARGET, TARGET)


def test_another_runtime() -> None:
    expected = "since the baseline was accepted on 2026-11-02: runtime: onnxruntime 1.24.1 -> onnxruntime 1.31.1"
    assert sentence({}, {}, {**HERE, "runtime": "onnxruntime 1.24.1"}) == expected + END


def test_a_setting_that_came_since() -> None:
    known = {**HERE, "settings": "ORT_DISABLE_FOO=1"}
    expected = "since the baseline was accepted on 2026-11-02: settings: ORT_DISABLE_FOO=1 -> not set"
    assert sentence({}, {}, known) == expected + END


def test_another_target() -> None:
    now = TARGET | {"target": '{"session":{"intra_op_num_threads":1}}'}
    expected = (
        "since the baseline was accepted on 2026-11-02: "
        'target: {"session":{"intra_op_num_threads":4}} -> {"session":{"intra_op_num_threads":1}}'
    )
    assert sentence(TARGET, now) == expected + END


@pytest.mark.parametrize("name", ["time", "resolution", "min_launches", "max_launches", "warmup", "metrics", "slices"])
def test_for_how_long_is_measured_and_what_besides_is_no_matter(name: str) -> None:
    assert not sentence({f"parameter {name}": "1"}, {f"parameter {name}": "2"})


def test_another_machine_is_none() -> None:
    other_machine = {"host": "kiln", "cpu": "Xeon", "cores": "8", "architecture": "aarch64", "system": "darwin"}
    assert not sentence(TARGET, TARGET, {**HERE, **other_machine, "gpu name": "NVIDIA H100"})


def test_of_many_the_first_are_told() -> None:
    before = {f"parameter {name}": "1" for name in ("batch", "inputs", "io_binding", "samples", "shape")}
    now = dict.fromkeys(before, "2")
    expected = (
        "since the baseline was accepted on 2026-11-02: parameter batch: 1 -> 2; parameter inputs: 1 -> 2; "
        "parameter io_binding: 1 -> 2 and 2 more"
    )
    assert sentence(before, now) == expected + END


def test_the_data_changed() -> None:
    stored = action(MEASURED)
    implicit_deps = ImplicitDependencies(files={"data.npz": "b"})
    known = replace(
        accepted(MEASURED), setup=group_by_kind(components({"content of inputs": "a", "read data.npz": "a"}))
    )
    now = replace(
        stored, components=(*stored.components, *components({"content of inputs": "a"})), implicit_deps=implicit_deps
    )
    expected = "since the baseline was accepted on 2026-11-02: data.npz changed (read by the stage)"
    assert reason_for(list_key_changes, STAGE, known, now, Ports()) == expected + END


@pytest.mark.parametrize(
    ("model", "limited"),
    [
        ("aa11", True),  # the very model
        ("bb22", True),  # side by side
        ("", False),  # by the stored figures, which are of then
    ],
)
def test_verdicts_of_what_was_measured_side_by_side_say_so(model: str, *, limited: bool) -> None:
    baseline = compared(0.010, (1.0, 0.99, 1.01), count=4) if model == "bb22" else None
    measured = {"p50": replace(MEASURED["p50"], baseline=baseline)}
    known = accepted(MEASURED, model, {**HERE, "runtime": "onnxruntime 1.24.1"})
    stage = replace(STAGE, gates=(gate("p50", "max_regression", "5%", 0.05),))
    (verdict,) = judge(stage, action(measured), Terms(known, HERE, list_key_changes))
    assert bool(verdict.caveats) == limited
    assert ("runtime: onnxruntime 1.24.1 -> onnxruntime 1.31.1" in caveat_of(verdict)) == limited
