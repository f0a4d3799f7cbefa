"""Caveats of verdicts, as the pipeline alone shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.gates.caveats import list_caveats
from orun.pipeline.model import Pipeline
from orun.text.wording.caveats import describe_caveat
from tests.pipeline.support import EXPORT, loaded

STATIC = "  int8: {uses: quantize/static, needs: export, with: {dataset: code.py:pairs}}\n"
TUNE = "  int8: {uses: quantize/tune, needs: export, with: {DATA, metric: cosine.mean, at_least: 0.9}}\n"
META = "  meta: {uses: release/metadata, needs: int8}\n"
END = ", by which the model was made: on other data it may be worse, so keep some for this"


def sentence(pipeline: Pipeline, stage: str) -> str:
    return "; ".join(map(describe_caveat, list_caveats(pipeline, pipeline.stage(stage))))


@pytest.mark.parametrize(
    ("stages", "model", "expected"),
    [
        (STATIC, "int8", "its data is the `dataset` of int8"),
        (STATIC, "meta", "its data is the `dataset` of int8"),
        (STATIC.replace("pairs", "load"), "int8", ""),
        (STATIC.replace("with: {dataset: code.py:pairs}", "with: {samples: 8}"), "int8", ""),  # made-up values
        (
            "  int8: {uses: quantize/weights, needs: export, with: {algorithm: gptq, dataset: code.py:pairs}}\n",
            "int8",
            "its data is the `dataset` of int8",
        ),
        (TUNE.replace("DATA", "dataset: code.py:pairs"), "int8", "its data is the `dataset` of int8"),
        (
            TUNE.replace("DATA", "dataset: code.py:load, calibration: code.py:pairs"),
            "int8",
            "its data is the `calibration` of int8",
        ),
        (
            STATIC.replace("int8", "first")
            + "  int8: {uses: quantize/weights, needs: first, with: {algorithm: gptq, dataset: code.py:pairs}}\n",
            "int8",
            "its data is the `dataset` of int8 and `dataset` of first",
        ),
    ],
)
def test_the_same_data_is_told(tmp_path: Path, stages: str, model: str, expected: str) -> None:
    accuracy = (
        f"  accuracy:\n    uses: measure/accuracy\n    needs: {{model: {model}, reference: export}}\n"
        "    with: {dataset: code.py:pairs, metrics: [cosine]}\n"
    )
    pipeline = loaded(tmp_path, f"stages:\n{EXPORT}{stages}{META}{accuracy}")
    assert sentence(pipeline, "accuracy") == (expected + END if expected else "")


def test_the_reference_may_have_seen_it(tmp_path: Path) -> None:
    accuracy = (
        "  accuracy:\n    uses: measure/accuracy\n    needs: {model: export, reference: int8}\n"
        "    with: {dataset: code.py:pairs, metrics: [cosine]}\n"
    )
    pipeline = loaded(tmp_path, f"stages:\n{EXPORT}{STATIC}{accuracy}  size: {{uses: measure/size, needs: int8}}\n")
    assert not sentence(pipeline, "accuracy")
    assert not sentence(pipeline, "size")


TARGETS = (
    "targets:\n"
    "  cpu: {providers: [CPUExecutionProvider]}\n"
    "  trt: {providers: [TensorrtExecutionProvider, CPUExecutionProvider]}\n"
)
ACCURACY = (
    "  accuracy:\n    uses: measure/accuracy\n    needs: {model: export, reference: export}\n"
    "    with: {dataset: code.py:pairs, metrics: [cosine], target: TARGET}\n    gate: {cosine.min: {min: 0.9}}\n"
)
SAID = (
    "its speed is that of target trt, on which no gate judges what export answers: "
    "one on measure/accuracy with `target: trt` does"
)


@pytest.mark.parametrize(
    ("model", "target", "more", "expected"),
    [
        ("export", "trt", "", SAID),
        ("engine", "trt", "", SAID),
        ("export", "trt", ACCURACY.replace("TARGET", "cpu"), SAID),
        ("export", "trt", ACCURACY.replace("TARGET", "cpu, reference_target: trt"), SAID),
        ("export", "trt", ACCURACY.replace("TARGET", "trt").partition("    gate")[0], SAID),
        ("export", "trt", ACCURACY.replace("TARGET", "trt").replace("model: export", "model: int8") + STATIC, SAID),
        ("export", "trt", ACCURACY.replace("TARGET", "trt"), ""),
        ("engine", "trt", ACCURACY.replace("TARGET", "trt"), ""),
        ("export", "cpu", "", ""),
    ],
)
def test_speed_where_nobody_looks_at_the_answers(
    tmp_path: Path, model: str, target: str, more: str, expected: str
) -> None:
    engine = "  engine: {uses: compile/engine, needs: export, with: {target: trt}}\n"
    timed = f"needs: {model}, with: {{target: {target}}}, gate: {{p50: {{max: 1s}}}}"
    latency = f"  latency: {{uses: measure/latency, {timed}}}\n"
    pipeline = loaded(tmp_path, f"{TARGETS}stages:\n{EXPORT}{engine}{more}{latency}")
    assert sentence(pipeline, "latency") == expected


def test_a_function_of_ones_own_may_judge_answers(tmp_path: Path) -> None:
    tmp_path.joinpath("own.py").write_text(
        "from orun import stage\n\n\n@stage(output='metrics', metrics=['score'])\ndef score(context): ...\n"
    )
    latency = "  latency: {uses: measure/latency, needs: export, with: {target: trt}, gate: {p50: {max: 1s}}}\n"
    own = "  own: {uses: ./own.py:score, needs: export, gate: {score: {min: 1}}}\n"
    pipeline = loaded(tmp_path, f"{TARGETS}stages:\n{EXPORT}{latency}{own}")
    assert sentence(pipeline, "latency") == ""
