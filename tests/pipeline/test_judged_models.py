"""Notes on models that no gate judges, and on those that are compared with themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.support import EXPORT, list_notes

MODELS = (
    f"{EXPORT}  int8: {{uses: quantize/dynamic, needs: export}}\n  more: {{uses: optimize/simplify, needs: int8}}\n"
)
SIZE = "  size: {uses: measure/size, needs: int8, gate: {size: {max: 1MB}}}\n"
UNJUDGED = (
    "p.yaml:6:3: no gate judges 'more', which 'release' gives away; 'size' judges another model; a gate guards exactly "
    "the artifact that was measured"
)


@pytest.mark.parametrize(
    ("stages", "notes"),
    [
        (f"{SIZE}  release: {{uses: release/bundle, needs: [more, size]}}\n", [UNJUDGED]),
        (f"{SIZE}  release: {{uses: release/bundle, needs: int8}}\n", []),
        # what is published is noted once, where it becomes a release
        (
            (
                f"{SIZE}  release: {{uses: release/bundle, needs: more}}\n"
                "  publish: {uses: release/publish, needs: release, with: {to: there}}\n"
            ),
            [UNJUDGED],
        ),
        # other metadata, the same weights
        (
            (
                f"{SIZE}  told: {{uses: release/metadata, needs: int8, with: {{model_version: 1}}}}\n"
                "  release: {uses: release/bundle, needs: told}\n"
            ),
            [],
        ),
        (  # a gate of the stage that makes the model
            (
                "  small: {uses: optimize/simplify, needs: more, gate: {size: {max: 1MB}}}\n"
                "  release: {uses: release/bundle, needs: small}\n"
            ),
            [],
        ),
        ("  release: {uses: release/bundle, needs: more}\n", []),  # nothing is asked of any model: the run says so
    ],
)
def test_a_release_of_a_model_that_no_gate_judges_is_noted(tmp_path: Path, stages: str, notes: list[str]) -> None:
    """The run passed, and the bundle held the figures of another model."""
    assert list_notes(tmp_path, f"stages:\n{MODELS}{stages}") == notes


@pytest.mark.parametrize(
    ("needs", "more", "noted"),
    [
        ("{model: int8, reference: int8}", "", "'int8' with itself: it is the 'reference', too"),
        (
            "{model: int8, reference: export, reference.old: int8}",
            "",
            "'int8' with itself: it is the 'reference.old', too",
        ),
        ("{model: int8, reference: export}", "", ""),
        ("{model: int8, reference: int8}", ", with: {reference_target: cpu}", ""),
    ],
)
def test_a_model_that_is_compared_with_itself_is_noted(tmp_path: Path, needs: str, more: str, noted: str) -> None:
    """Every gate on such a comparison passes."""
    notes = list_notes(tmp_path, f"stages:\n{MODELS}  latency: {{uses: measure/latency, needs: {needs}{more}}}\n")
    assert notes == ([f"p.yaml:5:3: 'latency' compares {noted}"] if noted else [])
