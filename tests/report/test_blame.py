"""Reports of an investigation, as people read them."""

from __future__ import annotations

from orun.blame.diagnosis import Diagnosis, Place
from orun.report.blame import format_diagnosis
from orun.report.terminal import Terminal


def test_a_place_that_makes_up_for_another_has_no_share() -> None:
    """Put right alone, it lets the error of the other through, which may be a thousand times as large."""
    places = tuple(
        Place(node, share, (node,), "MatMul", "y") for node, share in (("a", 0.83), ("b", -0.04), ("c", -1577.3))
    )
    diagnosis = Diagnosis(
        "accuracy agreement min 0.97", "accuracy", "agreement", "ratio", "The sentence.", places=places
    )
    assert format_diagnosis(diagnosis, Terminal()) == [
        "accuracy agreement min 0.97",
        "",
        "  place  share                nodes",
        "  a      83 %                 a",
        "  b      -4 %                 b",
        "  c      makes up for others  c",
        "",
        "The sentence.",
    ]
