"""`max_regression` on a figure of two models when the reference was trained again."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

import orun
from orun.cli.main import main
from orun.gates import baselines
from tests.facts import explain_verdict

PIPELINE = """
stages:
  trained: {uses: convert/onnx, with: {path: trained.onnx}}
  int8: {uses: convert/onnx, with: {path: int8.onnx}}
  accuracy:
    uses: measure/accuracy
    needs: {model: int8, reference: trained}
    with: {metrics: [cosine], samples: 4}
    gate: {cosine.mean: {max_regression: 0.1%}}
"""


def judged(trained: float, int8: float) -> tuple[str, str]:
    """Outcome of the gate for a model and what it was made from, which turn an input by their angles; why, no day."""
    for name, angle in (("trained", trained), ("int8", int8)):
        weights = f"<float[1, 2] w = {{1.0, {angle}}}>"
        header = '<ir_version: 9, opset_import: ["" : 17]>'
        text = f"{header} g (float[batch, 1] x) => (float[batch, 2] y) {weights} {{ y = MatMul (x, w) }}"
        onnx.save(onnx.parser.parse_model(text), f"{name}.onnx")
    (verdict,) = orun.run("release.yaml").verdicts
    return verdict.outcome, re.sub(r"\d{4}-\d\d-\d\d", "DAY", explain_verdict(verdict))


def test_the_accepted_model_is_not_held_against_a_reference_that_it_was_not_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baselines, "find_author", lambda _: "Ada")
    Path("release.yaml").write_text(PIPELINE)
    assert judged(0.0, 0.0)[0] == "no baseline"
    assert main(["baseline", "accept", "release.yaml"]) == 0
    start = "the regression of cosine.mean against the accepted baseline is"
    stored = "(figure stored on DAY: the reference changed since, and each figure is against its own)"
    signed = "more than 0.1%; Ada accepted that baseline on DAY"
    assert judged(1.0, 1.0) == ("passed", f"{start} 0 % {stored}: within 0.1%")
    assert judged(1.0, 0.75) == ("failed", f"{start} 1.01 % {stored}: {signed}")
    assert judged(1.0, 0.0) == ("failed", f"{start} 29.3 % {stored}: {signed}")  # the accepted model itself
    assert judged(0.0, 0.75) == ("failed", f"{start} 20 % (exact): {signed}")
