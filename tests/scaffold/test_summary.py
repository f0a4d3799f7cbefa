"""Advice of `orun init` on what it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.run_record import StageResult
from orun.core.serialization import replace
from orun.scaffold.create import Created
from orun.scaffold.goal import check_goal
from orun.scaffold.model_facts import GraphFacts, InputFact, ModelFacts
from orun.scaffold.request import Request
from orun.scaffold.summary import explain_pixels, explain_unjudged, explain_worse, format_goal, list_stage_notes
from orun.scaffold.targets import find_target
from orun.scaffold.thresholds import find_drawback
from tests.gates.support import metric
from tests.report.support import PASSED

NET = ModelFacts("torch", "../net.py:load", (InputFact("x", "float32", ("batch", 3)),), graph=GraphFacts(size=2000))
SEARCH = "than the original here; a search may find a better one: orun init"


@pytest.mark.parametrize(
    ("facts", "size", "speedup", "note"),
    [
        (NET, 1000, (0.9, 1.1), ""),
        (NET, 3100, (0.9, 0.96), ""),  # shapes that are written into the file, and no slow-down that a gate would find
        (
            NET,
            3200,
            (0.4, 0.6),
            (
                f"note: the release is larger and slower {SEARCH} net.py:load "
                "--input 'x=float32[batch,3]' --goal 'speedup>1' -o made/load-goal.yaml"
            ),
        ),
        (
            replace(NET, form="onnx", source="m.onnx"),
            3200,
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
    result = replace(PASSED, stages=stages)
    request = Request(facts, find_target("cpu"))
    request = replace(request, drawback=find_drawback(request, result))
    assert explain_worse(Created(Path("made/load.yaml"), request, {}, result)) == note


def test_notes_of_the_stages_are_shown() -> None:
    """Only the next run told that nothing was quantized, or that the labels have another scale."""
    stage = StageResult("int8", "quantize/dynamic", "built", notes=("nodes of GRU stay in float",))
    created = Created(Path("load.yaml"), Request(NET, find_target("cpu")), {}, replace(PASSED, stages=(stage,)))
    assert list_stage_notes(created) == ["note: int8: nodes of GRU stay in float"]


@pytest.mark.parametrize(
    ("preparation", "types", "values", "change"),
    [
        ({"scale": 1.0, "mean": [0.0], "std": [1.0]}, {}, "0 to 255", "mean: [0], std: [1]"),
        (
            {"scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
            {},
            "-2.12 to 2.64",
            "mean: [0, 0, 0], std: [1, 1, 1]",
        ),
        ({"scale": 1.0, "mean": [0.0], "std": [1.0]}, {"types": {"x": "uint8"}}, "", ""),
        ({"scale": 1.0, "mean": [0.0], "std": [1.0], "resample": "bicubic"}, {}, "", ""),  # as the model's files state
    ],
)
def test_the_values_of_pixels_are_noted(
    preparation: dict[str, object], types: dict[str, object], values: str, change: str
) -> None:
    request = Request(NET, find_target("cpu"), {"path": "photos", "images": preparation, **types})
    note = (
        f"note: the images in photos become values from {values}; if the model takes others, change `scale`, `mean` "
        f"and `std` in net.yaml: for 0 to 1, `scale: 0.00392156862745098, {change}`"
    )
    assert explain_pixels(Created(Path("net.yaml"), request, {}, PASSED)) == (note if values else "")


def test_a_condition_that_was_measured_and_not_judged_is_met_or_missed() -> None:
    """Its gate is not judged when one before it has failed."""
    goal = check_goal("size<2kB, p50<10ms, speedup>1, cosine>0.9", "data.py:examples")
    stages = (
        StageResult("tune", "quantize/tune", "built", metrics={"size": metric(3000, "B")}),
        StageResult(
            "latency", "measure/latency", "built", metrics={"p50": metric(0.005, "s"), "speedup": metric(0.5, "x")}
        ),
    )
    request = Request(NET, find_target("cpu"), goal=goal)
    assert format_goal(Created(Path("load.yaml"), request, {}, replace(PASSED, stages=stages))) == [
        "goal size max 2kB: missed, not judged (3 kB, 50 % above)",
        "goal p50 max 10ms: met, not judged (5 ms)",
        "goal speedup min 1: missed, not judged (0.50x, 50 % below)",
        "goal cosine.mean min 0.9: not judged (not measured)",
        "goal not reached: this is the nearest model that the search found",
    ]


@pytest.mark.parametrize(("folder", "option"), [("artifacts/runs/1", ""), ("st9/runs/1", " --store st9")])
def test_the_commands_name_the_store_in_which_the_model_was_built(folder: str, option: str) -> None:
    created = Created(Path("a.yaml"), Request(NET, find_target("cpu")), {}, replace(PASSED, folder=Path(folder)))
    assert explain_unjudged(created) == (
        "note: no gate is judged before a release is accepted: "
        f"orun a.yaml{option} && orun baseline accept a.yaml{option}"
    )
