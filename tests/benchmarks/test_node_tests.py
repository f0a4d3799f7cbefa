"""Results of `benchmarks.node_tests` for models that are right, wrong, refused, or end their process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.case.test_case import TestCase as Case

from benchmarks import node_tests
from benchmarks.node_tests import KINDS, Row, examine, read_test, rows, summary
from tests.stages.models import WORDY, parse

CONVOLUTION = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[1, 1, 2, 3] x) => (float[1, 1, 2, 3] y) <float[1, 1, 1, 1] w = {2}> { y = Conv (x, w) }
"""
NO_IMAGES = {"optimize/layout": "refused"}
NO_PRODUCTS = {"quantize/weights": "refused"}
PLACES = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
IMAGE = np.arange(8, dtype=np.float32).reshape(2, 4)


def case(scale: float = 1) -> Case:
    model = parse(WORDY)
    weights = np.arange(1, 17, dtype=np.float32).reshape(4, 4) / 10
    data = [([IMAGE], [4 * scale * IMAGE @ weights])]
    return Case("wordy", "node", None, None, model=model, data_sets=data, kind="node", rtol=1e-3, atol=1e-7)


def image_case() -> Case:
    """A convolution of images, whose channels can be last, too."""
    model = parse(CONVOLUTION)
    return Case("convolution", "node", None, None, model=model, data_sets=[([PLACES], [2 * PLACES])], kind="node",
                rtol=1e-3, atol=1e-7)  # fmt: skip


def verdicts(case_tried: Case) -> dict[str, str]:
    results: list[Row | None] = []
    examine(read_test(case_tried), list(KINDS), results.append)
    return {row.kind: row.verdict for row in results if row}


def test_every_kind_is_judged_by_the_outputs_of_the_test() -> None:
    assert verdicts(case()) == dict.fromkeys(KINDS, "right") | NO_IMAGES
    assert verdicts(image_case()) == dict.fromkeys(KINDS, "right") | NO_PRODUCTS
    assert verdicts(case(2)) == dict.fromkeys(KINDS, "skipped")


def test_another_model_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    run = node_tests.run

    def halved(kind: str, source: Any, params: Any) -> Any:
        file = run(kind, source, params)
        path = file / "model.onnx"
        path.chmod(0o600)
        path.write_bytes(parse(WORDY.replace("2.0", "1.0")).SerializeToString())
        return file

    monkeypatch.setattr(node_tests, "run", halved)
    assert verdicts(case()) == dict.fromkeys(KINDS, "wrong") | NO_IMAGES


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_dies_is_named_and_the_next_kind_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(_: object, kinds: Sequence[str], say: Callable[[Row | None], None]) -> None:
        say(None)
        for kind in kinds:
            if kind == "convert/opset":
                os._exit(3)
            say(Row("wordy", kind, "right"))

    monkeypatch.setattr(node_tests, "examine", dying)
    results = list(rows(case(), ["optimize/graph", "convert/opset", "quantize/dynamic"]))
    assert results == [
        Row("wordy", "optimize/graph", "right"),
        Row("wordy", "convert/opset", "crashed", "exit status 3"),
        Row("wordy", "quantize/dynamic", "right"),
    ]


def test_the_tables() -> None:
    results = [
        Row("a", "optimize/graph", "right"),
        Row("b", "optimize/graph", "refused", "input 'x' of the model is not a tensor: made up"),
        Row("c", "optimize/graph", "refused", "input 'y' of the model is not a tensor: made up"),
        Row("d", "optimize/graph", "wrong", "output 'z'"),
    ]
    assert summary(results, ["optimize/graph"]).splitlines() == [
        "| kind | right | refused | wrong | crashed | skipped |",
        "| --- | --- | --- | --- | --- | --- |",
        "| optimize/graph | 1 | 2 | 1 | 0 | 0 |",
        "",
        "| kind | refused because | tests |",
        "| --- | --- | --- |",
        "| optimize/graph | input ... of the model is not a tensor | 2 |",
        "",
        "| kind | test | verdict | what |",
        "| --- | --- | --- | --- |",
        "| optimize/graph | d | wrong | output 'z' |",
    ]
