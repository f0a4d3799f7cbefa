"""Recipe of a pipeline: the stages that suit a model, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orun.core.dynamic_axes import list_batch_axes
from orun.core.serialization import Record, replace
from orun.scaffold.goal import choose_search, list_accuracy_metrics
from orun.scaffold.model_facts import GraphFacts, InputFact, ModelFacts
from orun.scaffold.request import Request

DATA = "${vars.data}"
OLDEST_OPSET = 13  # oldest operator set that all stages of the recipe accept: scales of channels need it
OPSET = 17
SEARCH_TIME = "3min"
TIMED = 128  # size of a dynamic axis for timing
LOCALE = "C.UTF-8"
AGREEMENT = "agreement"  # metric of outputs of integers and flags
LABEL_RULES = {"accuracy": ("min", "max_drop"), "rmse": ("max", "max_increase")}
"""Metrics of labels, each with the rule that limits its figure and the rule that compares it with the original's."""
Gates = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Gates of each stage: stage -> metric -> rule -> threshold."""


class Number(str):
    """Text that YAML reads as a number or a quantity: `0.99`, `25MB`."""

    __slots__ = ()


class StageText(Record, frozen=True):
    """A stage of the file that is being written."""

    name: str
    comment: str
    uses: str
    needs: str | Mapping[str, str] | tuple[str, ...] = ()  # what feeds it, by port or as a list
    parameters: Mapping[str, Any] = {}  # its `with`
    gate: Mapping[str, Mapping[str, str]] = {}  # its conditions
    optional: bool = False  # left out if it refuses the model


def list_stages(request: Request, gates: Gates) -> list[StageText]:
    """Return the stages for a model, with gates."""
    stages = [_build_conversion(request)]
    original = stages[0].name
    for stage in _list_changes(request):
        if stage.name not in request.gaps:
            stages.append(replace(stage, needs=stages[-1].name))
    if request.drawback:
        comment = f"{stages[-1].comment} Measured by `orun init`: {request.drawback} than the original."
        stages[-1] = replace(stages[-1], comment=comment)
    last = stages[-1].name
    compared = {"model": last, "reference": original}
    judged = [last]
    if last != original and "accuracy" not in request.gaps:
        stages.append(_build_accuracy(request, compared, gates))
        judged.append("accuracy")
    stages.append(_build_latency(request, compared if last != original else {"model": last}))
    card = "The model card: inputs, outputs, figures and verdicts."
    stages.append(StageText("card", card, "release/card", (*judged, "latency")))
    bundle = (
        "The release: model, card, provenance and digests in a folder. It is built only if no gate before it failed. "
        "`orun verify` checks it."
    )
    stages.append(StageText("release", bundle, "release/bundle", {"model": last, "card": "card"}))
    return [replace(stage, gate=gates.get(stage.name, {})) for stage in stages]


def explain_unjudged_labels(request: Request, gates: Gates) -> str:
    """Return why no gate judges the labels of the user's data; empty if one does, or gates are not chosen yet."""
    refusal = request.label_facts.refusal
    may_have = request.has_labels or refusal
    if request.goal or not may_have or not gates or {*gates.get("accuracy", {})} & {*LABEL_RULES}:
        return ""
    if not request.has_labels:
        return f"no gate judges labels: {refusal}"
    if "accuracy" not in gates:
        why = "the pipeline has no stage `accuracy`"
    elif request.facts.is_ctc:
        why = _advise_transcripts(request.facts)
    elif request.label_refusal:
        why = request.label_refusal
    elif request.label_doubt:
        why = request.label_doubt
    elif metric := request.label_metric:
        why = f"the examples are too few, or {metric} too bad, for a threshold. Next: name more examples, or add a gate"
    elif request.labels == "other":
        why = "an example has several. Next: add a metric for them, and a gate: orun stages measure/accuracy"
    else:
        why = "a single score may be of a class or a number. Next: add `auc` or `rmse` to the metrics, and a gate"
    return f"no gate judges the labels of the data: {why}"


def needs_examples(stages: Sequence[StageText]) -> bool:
    """Return whether a stage takes the examples that the variable `data` names."""
    return any(DATA in stage.parameters.values() for stage in stages)


def name_conversion(facts: ModelFacts) -> str:
    """Return the name of the stage that yields the original as ONNX."""
    return {"onnx": "import", "torch": "export"}.get(facts.form, "convert")


def _build_conversion(request: Request) -> StageText:
    facts, name = request.facts, name_conversion(request.facts)
    if facts.form == "onnx":
        comment = "The model as it is. Later stages are compared with it."
        return StageText(name, comment, "convert/onnx", (), {"path": facts.source, **_list_dims(facts)})
    parameters: dict[str, Any] = {"model": facts.source}
    if facts.form == "sklearn":
        parameters |= {"data": DATA} | ({"trust_pickle": True} if facts.needs_trust else {})
        comment = "The estimator as ONNX. Its predictions are compared with scikit-learn's."
        if any(column.kind == "text" for column in facts.columns):
            parameters["options"] = {"locale": LOCALE}
            comment += f" {LOCALE} lowers letters on systems without language packs, too."
        if request.agreement:
            parameters["min_agreement"] = Number(request.agreement)
            comment += " `min_agreement` allows the few rounded values that differed when `orun init` converted it."
        return StageText(name, comment, "convert/sklearn", (), parameters)
    if facts.inputs:
        parameters["inputs"] = {item.name: _declare_input(item) for item in facts.inputs}
    parameters |= _list_dims(facts)
    if facts.form == "tensorflow":
        comment = "The model as ONNX. Its outputs are compared with TensorFlow's."
        return StageText(name, comment, "convert/tensorflow", (), parameters)
    parameters["outputs"] = [*facts.outputs]
    comment = "The model as ONNX. Its outputs are compared with PyTorch's. Axes with names are dynamic."
    return StageText(name, comment, "convert/torch", (), parameters)


def _list_dims(facts: ModelFacts) -> dict[str, Any]:
    """Return the sizes of dynamic axes as a convert stage declares them."""
    return {"dims": {axis: [*sizes] for axis, sizes in facts.sizes.items()}} if facts.sizes else {}


def _declare_input(item: InputFact) -> dict[str, Any]:
    declared: dict[str, Any] = {"shape": [*item.shape]}
    if item.dtype != "float32":
        declared["dtype"] = item.dtype
    if item.high is not None:
        declared["high"] = item.high
    if item.fill != "random":
        declared["fill"] = item.fill
    return declared


def _list_changes(request: Request) -> list[StageText]:
    """Return the stages that change the model, without `needs`, as they form a chain; a search is not optional."""
    facts, graph = request.facts, request.facts.graph
    stages = []
    if graph and 0 < graph.opset < OLDEST_OPSET:
        comment = f"Operator set {graph.opset} is too old for later stages."
        stages.append(StageText("opset", comment, "convert/opset", (), {"version": OPSET}, optional=True))
    comment = "Fold constants and remove nodes that compute nothing."
    values = _choose_values(request)
    stages.append(StageText("simplify", comment, "optimize/simplify", (), values, optional=True))
    if facts.family if graph is None else graph.attention:
        stages.append(_build_fusion(request))
    if request.goal:
        stages.append(_build_search(request))
    elif facts.form != "sklearn":
        stages.append(_build_reduction(request))
    return stages


def _choose_values(request: Request) -> dict[str, Any]:
    """Return the parameter that names the examples, where a model may refuse made-up values: unknown categories."""
    facts = request.facts
    texts = any(item.dtype == "object" for item in (facts.graph.inputs if facts.graph else ()))
    return {"inputs": DATA} if request.data and (facts.form == "sklearn" or texts) else {}


def _build_fusion(request: Request) -> StageText:
    parameters: dict[str, Any] = {"model_type": request.facts.family} if request.facts.family else {}
    comment = "Fuse attention and normalization into single operators."
    if request.target.precision == "integers" and not request.goal:
        parameters["multi_head_attention"] = True
        comment += " MultiHeadAttention leaves the projections apart, so that they can be quantized."
    return StageText("fuse", comment, "optimize/transformer", (), parameters, optional=True)


def _build_reduction(request: Request) -> StageText:
    graph, precision = request.facts.graph, request.target.precision
    if precision == "float16":
        return StageText("half", "Weights and activations in 16 bits.", "optimize/float16", optional=True)
    if precision == "static integers" or (graph and graph.is_convolutional):
        comment = "Weights and activations in 8 bits, with ranges measured on the examples."
        parameters = {"per_channel": True, "dataset": DATA}
        return StageText("int8", comment, "quantize/static", (), parameters, optional=True)
    comment = "Weights in 8 bits. `reduce_range` keeps them exact on processors without VNNI instructions."
    parameters = {"per_channel": True, "reduce_range": True}
    return StageText("int8", comment, "quantize/dynamic", (), parameters, optional=True)


def _build_search(request: Request) -> StageText:
    metric, threshold, rule = choose_search(request.goal, request.fidelity)
    parameters: dict[str, Any] = {
        "dataset": DATA,
        "calibration": DATA,
        "metric": metric,
        "at_least" if rule == "min" else "at_most": Number(threshold),
        "objective": request.objective,
        "target": request.target.name,
        "time": Number(SEARCH_TIME),
    }
    smallest = "smallest" if request.objective == "size" else "fastest"
    comment = (
        f"Search for the {smallest} model whose {metric} is good enough: precisions, recipes, which layers stay float. "
        "More `time` may find a better one."
    )
    return StageText("tune", comment, "quantize/tune", (), parameters)


def _build_accuracy(request: Request, compared: Mapping[str, str], gates: Gates) -> StageText:
    metrics, graph = list_accuracy_metrics(request.goal, request.fidelity), request.facts.graph or GraphFacts()
    chosen = {*(request.outputs or graph.outputs)}
    has_scores = bool(chosen - {*graph.classes, *graph.texts})
    texts = graph.texts if has_scores and not graph.is_single_valued else ()  # they agree as their scores do
    if chosen & {*graph.classes, *texts} and AGREEMENT not in metrics:
        metrics.append(AGREEMENT)
    advice = "If the data has labels, add `accuracy` or `f1` to the metrics, and a gate: accuracy: {max_drop: 1%}"
    if metric := request.label_metric:
        metrics.append(metric)
        limit, rule = LABEL_RULES[metric]
        advice = (
            f"`{metric}` compares both with the labels of the data. `{limit}` limits the figure itself, `{rule}` what "
            "the stages lose; more examples allow narrower limits"
        )
    elif request.facts.is_ctc:
        advice = _advise_transcripts(request.facts)
    elif request.fidelity == "sqnr":
        advice = "`sqnr` is in dB: 20 are an error of 10 %. If the data has labels, add `rmse`; of classes, `auc`"
    if note := explain_unjudged_labels(request, gates):
        advice = note
    comment = f"Outputs compared with the original's. {advice[0].upper()}{advice[1:]}"
    if not has_scores and not request.goal:
        metrics = metrics[1:] or metrics  # classes have no angle
    parameters: dict[str, Any] = {"metrics": metrics, "dataset": DATA}
    if request.runs_here:
        parameters["target"] = request.target.name
    if request.outputs:
        parameters["outputs"] = [*request.outputs]
        comment += ". Outputs without a batch axis are left out."
    return StageText("accuracy", comment, "measure/accuracy", compared, parameters, optional=True)


def _advise_transcripts(facts: ModelFacts) -> str:
    """Return how to judge a model that transcribes sounds."""
    text = f"`text: {{tokenizer: {facts.source}}}`"
    return f"if the labels are texts, add `wer` and `cer`, with {text}, and a gate: wer: {{max_increase: 1%}}"


def _build_latency(request: Request, compared: Mapping[str, str]) -> StageText:
    facts = request.facts
    inputs = facts.graph.inputs if facts.graph else facts.inputs
    dynamic = {axis for item in inputs for axis in item.shape if isinstance(axis, str)}
    dynamic -= list_batch_axes(item.shape for item in inputs)
    size = min(TIMED, facts.longest or TIMED)
    shape = {axis: facts.choose_size(axis, size) for axis in sorted(dynamic) if axis.isidentifier()}
    timed = "Both models timed side by side." if "reference" in compared else "The model timed."
    comment = f"{timed} `max_regression` compares with the accepted release, once there is one."
    values = _choose_values(request) or ({"shape": shape} if shape else {})
    if "shape" in values:
        comment += " `shape` has the sizes that are timed: write those that you serve."
    parameters: dict[str, Any] = {"target": request.target.name, **values}
    return StageText("latency", comment, "measure/latency", compared, parameters)
