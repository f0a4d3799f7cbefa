"""Advice of `orun init` on what it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.run_record import StageResult
from orun.core.serialization import replace
from orun.scaffold.create import Created
from orun.scaffold.model_facts import GraphFacts, InputFact, ModelFacts
from orun.scaffold.recipe import Request
from orun.scaffold.summary import worse_note
from orun.scaffold.targets import target_named
from tests.gates.support import metric
from tests.report.support import PASSED

NET = ModelFacts("torch", "../net.py:load", (InputFact("x", "float32", ("batch", 3)),), graph=GraphFacts(size=2000))
SEARCH = "than the original here; a search may find a better one: orun init"


@pytest.mark.parametrize(
    ("facts", "size", "speedup", "note"),
    [
        (NET, 1000, (0.9, 1.1), ""),
        (
            NET,
            3000,
            (0.4, 0.6),
            (
                f"note: the release is larger and slower {SEARCH} net.py:load "
                "--input 'x=float32[batch,3]' --goal 'speedup>1' -o made/load-goal.yaml"
            ),
        ),
        (
            replace(NET, form="onnx", source="m.onnx"),
            3000,
            (0.9, 1.1),
            f"note: the release is larger {SEARCH} made/m.onnx --goal 'size<2000B' -o made/load-goal.yaml",
        ),
        (
            replace(NET, form="onnx", source="m.onnx"),
            1000,
            (0.4, 0.6),
            f"note: the release is slower {SEARCH} made/m.onnx --goal 'speedup>1' -o made/load-goal.yaml",
        ),
    ],
)
def test_a_release_that_is_worse_than_the_original_gets_the_command_of_a_search(
    facts: ModelFacts, size: int, speedup: tuple[float, float], note: str
) -> None:
    """The goal was named without its command, and of a larger model nothing was said."""
    stages = (
        StageResult("int8", "quantize/dynamic", "built", metrics={"size": metric(size, "B")}),
        StageResult("latency", "measure/latency", "built", metrics={"speedup": metric(0.5, "x", interval=speedup)}),
    )
    request = Request(facts, target_named("cpu"))
    assert worse_note(Created(Path("made/load.yaml"), request, {}, replace(PASSED, stages=stages))) == note
