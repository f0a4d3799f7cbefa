"""The ways to fuse a model, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onnx import ModelProto, NodeProto
from onnx.external_data_helper import load_external_data_for_model

from orun.errors import StageFailed
from orun.stages._graph.domains import STANDARD, tidy_domains
from orun.stages._graph.io import load, load_graph, nodes, store_freely
from orun.stages._graph.ort_graph import IN_THE_WAY, write_optimized
from orun.stages._graph.ties import find_tied, tie
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.optimize._fusion.optimizer import apply_optimizer
from orun.stages.optimize._fusion.report import unfused
from orun.stages.optimize._fusion.rules import apply_rules

if TYPE_CHECKING:
    from orun.stages.optimize.transformer import Params

LAYER_NORMALIZATION = 17  # the operator set from which ONNX has it


@dataclass(frozen=True)
class Made:
    """A fused model.

    Attributes:
        method: that made it.
        model: whose weights may still lie in files of the working folder.
        left: why attentions are still in pieces, by the value that they yield.
    """

    method: str
    model: ModelProto
    left: Mapping[str, str]

    def whole(self) -> ModelProto:
        """The model with all of its weights, for as long as they are needed: they may be large."""
        copy = ModelProto()
        copy.CopyFrom(self.model)
        load_external_data_for_model(copy, ".")
        return copy


def candidates(context: Context, params: Params) -> Iterator[Made]:
    """The model fused as the parameters say; by `auto` in several ways, the best first.

    One that leaves no attention in pieces goes before one that leaves some, and ONNX Runtime's optimizer before rules.

    Raises:
        StageFailed: when the method, or each of them, fails.
    """
    read = _reader(context, params)
    if params.method != "auto":
        yield _apply(context, params, params.method, read)
        return
    partial: list[Made] = []
    failures: list[StageFailed] = []
    for method in METHODS:
        try:
            made = _apply(context, params, method, read)
        except StageFailed as failure:
            context.log.warning("method %s: %s", method, failure)
            failures.append(failure)
            continue
        if made.left:
            context.log.info("method %s leaves %d attentions in pieces", method, len(made.left))
            partial.append(made)
        else:
            yield made
    yield from sorted(partial, key=lambda made: len(made.left))
    if len(failures) == len(METHODS):
        raise failures[0]


def _reader(context: Context, params: Params) -> Callable[[], ModelProto]:
    """Gives the model as the methods take it, one to each; those weights that no fusion reads stay on the disk."""
    if params.level == "disable":
        return lambda: load(context.model())
    path = write_optimized(context.model(), params.level, IN_THE_WAY)

    def read() -> ModelProto:
        model = load_graph(path)
        store_freely(model)
        tidy_domains(model)
        return model

    return read


def _apply(context: Context, params: Params, method: str, read: Callable[[], ModelProto]) -> Made:
    model = read()
    version = next((item.version for item in model.opset_import if item.domain in STANDARD), 0)
    inputs = [type(value).FromString(value.SerializeToString()) for value in model.graph.input]
    fused, reasons = METHODS[method](context, model, params)
    if version < LAYER_NORMALIZATION and any(_is_standard(node, "LayerNormalization") for node in nodes(fused)):
        context.log.info("operator set %d has no LayerNormalization: layer norms stay in pieces", version)
        apart = replace(params, disable=[*params.disable, "layer_norm"])
        fused, reasons = METHODS[method](context, read(), apart)
    read_inputs = {value.name for value in fused.graph.input}
    fused.graph.input.extend(value for value in inputs if value.name not in read_inputs)  # no node reads them
    order = {value.name: place for place, value in enumerate(inputs)}
    fused.graph.input.sort(key=lambda value: order[value.name])
    tidy_domains(fused)
    if again := tie(fused, find_tied(load_graph(context.model()))):
        context.log.info("stored once: %s", ", ".join(again))
    unknown = "`disable` leaves attention out" if "attention" in params.disable else UNKNOWN[method]
    with failing(context, "the fused model cannot be looked into"):
        return Made(method, fused, {name: reasons.get(name, unknown) for name in unfused(fused)})


def _is_standard(node: NodeProto, op_type: str) -> bool:
    return node.op_type == op_type and node.domain in STANDARD


def _optimizer(context: Context, model: ModelProto, params: Params) -> tuple[ModelProto, Mapping[str, str]]:
    return apply_optimizer(context, model, params), {}


def _rules(context: Context, model: ModelProto, params: Params) -> tuple[ModelProto, Mapping[str, str]]:
    disabled = [*params.disable, *(["packing"] if params.multi_head_attention else [])]
    hint = "use `method: onnxruntime`, or leave fusions out: `disable: [...]`"
    with failing(context, "the model cannot be fused by rules", hint):
        return apply_rules(model, disabled)


METHODS: Mapping[str, Callable[[Context, ModelProto, Params], tuple[ModelProto, Mapping[str, str]]]] = {
    "onnxruntime": _optimizer,
    "rules": _rules,
}
UNKNOWN = {  # why a method leaves an attention of which it gives no reason
    "onnxruntime": "ONNX Runtime's optimizer does not know its pattern",
    "rules": "it is in a branch, a loop or a function",
}
