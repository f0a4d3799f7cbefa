"""Recipe of a pipeline: the stages that suit a model, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orun.core.serialization import Record
from orun.scaffold.model_facts import InputFact, ModelFacts

MADE_UP = (
    "Inputs are made up from the model's signature. For real figures name your own data: dataset: data.py:examples"
)


class StageText(Record, frozen=True):
    """A stage of the file that is being written.

    Attributes:
        name: its id.
        comment: what the file says above it.
        uses: its kind.
        needs: the stage that feeds it, or several by port, or a list.
        parameters: its `with`.
        gate: its conditions.
        optional: whether the pipeline does without it where it refuses the model.
    """

    name: str
    comment: str
    uses: str
    needs: str | Mapping[str, str] | tuple[str, ...] = ()
    parameters: Mapping[str, Any] = {}
    gate: Mapping[str, Mapping[str, str]] = {}
    optional: bool = False


def stages_for(facts: ModelFacts, left_out: Mapping[str, str], data: str) -> list[StageText]:
    """Return the stages for a model, without gates.

    Args:
        facts: the model.
        left_out: names of optional stages that refused it, with their reasons.
        data: the function that yields examples, `file.py:function`; empty for examples that are made up.
    """
    stages = [_conversion(facts, data)]
    first = last = stages[0].name

    def add(stage: StageText) -> None:
        nonlocal last
        if stage.name not in left_out:
            stages.append(stage)
            last = stage.name

    add(
        StageText(
            "simplify", "Fold constants and remove what computes nothing.", "optimize/simplify", last, optional=True
        )
    )
    if facts.attention:
        family = {"model_type": facts.family} if facts.family else {}
        comment = "Fuse attention and normalisation into single operators."
        add(StageText("fuse", comment, "optimize/transformer", last, family, optional=True))
    if facts.form != "sklearn":
        add(_quantization(facts, last, data))
    compared = {"model": last, "reference": first}
    judged = [last]
    if last != first:
        stages.append(_accuracy(compared, data))
        judged.append("accuracy")
    stages.append(_latency(facts, compared if last != first else {"model": last}))
    card = StageText(
        "card", "The model card, from what the stages above measured.", "release/card", (*judged, "latency")
    )
    bundle = "The release: model, card, provenance and digests in one folder. `orun verify` checks it."
    release = StageText("release", bundle, "release/bundle", {"model": last, "card": "card"})
    return [*stages, card, release]


def _conversion(facts: ModelFacts, data: str) -> StageText:
    if facts.form == "onnx":
        return StageText(
            "import",
            "The model as it is; every later one is compared with it.",
            "convert/onnx",
            (),
            {"path": facts.source},
        )
    parameters: dict[str, Any] = {"model": facts.source}
    if facts.form == "sklearn":
        parameters |= {"data": data} | ({"trust_pickle": True} if facts.needs_trust else {})
        comment = f"The estimator as ONNX, compared with scikit-learn on the examples of {data}."
        return StageText("convert", comment, "convert/sklearn", (), parameters)
    if facts.inputs:
        parameters["inputs"] = {item.name: _declared(item) for item in facts.inputs}
    if facts.form == "tensorflow":
        return StageText(
            "convert", "The model as ONNX, compared with TensorFlow.", "convert/tensorflow", (), parameters
        )
    if facts.outputs:
        parameters["outputs"] = [*facts.outputs]
    return StageText("export", "The model as ONNX, compared with PyTorch.", "convert/torch", (), parameters)


def _declared(item: InputFact) -> dict[str, Any]:
    """An input as a convert stage declares it."""
    declared: dict[str, Any] = {"shape": [*item.shape]}
    if item.dtype != "float32":
        declared["dtype"] = item.dtype
    if item.high is not None:
        declared["high"] = item.high
    if item.fill != "random":
        declared["fill"] = item.fill
    return declared


def _quantization(facts: ModelFacts, last: str, data: str) -> StageText:
    if (
        facts.layers.get("Conv", 0) > facts.layers.get("MatMul", 0) + facts.layers.get("Gemm", 0)
        or facts.form == "tensorflow"
    ):
        parameters: dict[str, Any] = {"per_channel": True} | ({"dataset": data} if data else {})
        comment = f"Weights and activations in 8 bits. {MADE_UP}"
        return StageText("int8", comment, "quantize/static", last, parameters, optional=True)
    comment = "Weights in 8 bits. `reduce_range` is exact on processors without VNNI instructions too."
    return StageText(
        "int8", comment, "quantize/dynamic", last, {"per_channel": True, "reduce_range": True}, optional=True
    )


def _accuracy(compared: Mapping[str, str], data: str) -> StageText:
    parameters: dict[str, Any] = {"metrics": ["cosine"]} | ({"dataset": data} if data else {})
    return StageText(
        "accuracy", f"Outputs compared with the original's. {MADE_UP}", "measure/accuracy", compared, parameters
    )


def _latency(facts: ModelFacts, compared: Mapping[str, str]) -> StageText:
    dynamic = {axis for item in facts.inputs for axis in item.shape[1:] if isinstance(axis, str)}
    shape = {axis: 128 for axis in sorted(dynamic) if axis.isidentifier()} if facts.form != "sklearn" else {}
    comment = "Both models timed side by side. `max_regression` compares with the accepted baseline, once there is one."
    parameters: dict[str, Any] = {"target": "cpu"} | ({"shape": shape} if shape else {})
    return StageText("latency", comment, "measure/latency", compared, parameters)
