"""Data that a model was made by and is judged on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.gates.fitted import fitted
from tests.pipeline.support import EXPORT, loaded

STATIC = "  int8: {uses: quantize/static, needs: export, with: {dataset: code.py:pairs}}\n"
TUNE = "  int8: {uses: quantize/tune, needs: export, with: {DATA, metric: cosine.mean, at_least: 0.9}}\n"
META = "  meta: {uses: release/metadata, needs: int8}\n"
END = ", by which the model was made: on other data it may be worse, so keep some for this"


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (STATIC, "its data is the `dataset` of int8"),
        (STATIC.replace("pairs", "load"), ""),
        (STATIC.replace("with: {dataset: code.py:pairs}", "with: {samples: 8}"), ""),  # made-up values
        (
            "  int8: {uses: quantize/weights, needs: export, with: {algorithm: gptq, dataset: code.py:pairs}}\n",
            "its data is the `dataset` of int8",
        ),
        (TUNE.replace("DATA", "dataset: code.py:pairs"), "its data is the `dataset` of int8"),
        (
            TUNE.replace("DATA", "dataset: code.py:load, calibration: code.py:pairs"),
            "its data is the `calibration` of int8",
        ),
        (
            STATIC.replace("int8", "first")
            + "  int8: {uses: quantize/weights, needs: first, with: {algorithm: gptq, dataset: code.py:pairs}}\n",
            "its data is the `dataset` of int8 and `dataset` of first",
        ),
    ],
)
@pytest.mark.parametrize("model", ["int8", "meta"])
def test_the_same_data_is_told(tmp_path: Path, stages: str, said: str, model: str) -> None:
    accuracy = (
        f"  accuracy:\n    uses: measure/accuracy\n    needs: {{model: {model}, reference: export}}\n"
        "    with: {dataset: code.py:pairs, metrics: [cosine]}\n"
    )
    pipeline = loaded(tmp_path, f"stages:\n{EXPORT}{stages}{META}{accuracy}")
    assert fitted(pipeline, pipeline.stage("accuracy")) == (said + END if said else "")


def test_the_reference_may_have_seen_it(tmp_path: Path) -> None:
    accuracy = (
        "  accuracy:\n    uses: measure/accuracy\n    needs: {model: export, reference: int8}\n"
        "    with: {dataset: code.py:pairs, metrics: [cosine]}\n"
    )
    pipeline = loaded(tmp_path, f"stages:\n{EXPORT}{STATIC}{accuracy}  size: {{uses: measure/size, needs: int8}}\n")
    assert not fitted(pipeline, pipeline.stage("accuracy"))
    assert not fitted(pipeline, pipeline.stage("size"))
