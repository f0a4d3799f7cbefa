"""Methods to fuse a model, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from onnx import ModelProto
from onnx.external_data_helper import load_external_data_for_model

from orun.errors import StageFailed
from orun.stages._graph.domains import STANDARD, find_standard_opset, tidy_domains
from orun.stages._graph.io import iter_nodes, load, load_graph, store_freely
from orun.stages._graph.ort_graph import IN_THE_WAY, write_optimized
from orun.stages._graph.ties import find_tied, tie
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.optimize._fusion import Settings
from orun.stages.optimize._fusion.census import find_unfused
from orun.stages.optimize._fusion.optimizer import apply_optimizer
from orun.stages.optimize._fusion.rules import apply_rules

LAYER_NORMALIZATION = 17  # operator set from which ONNX has LayerNormalization


@dataclass(frozen=True)
class FusedModel:
    """Fused model.

    Attributes:
        method: name of the method that fused it.
        model: the model; its weights may still lie in files of the working folder.
        unfused: reason for each attention still in pieces, by the value that it yields.
    """

    method: str
    model: ModelProto
    unfused: Mapping[str, str]

    def load_weights(self) -> ModelProto:
        """Return a copy of the model with all weights in memory."""
        copy = ModelProto()
        copy.CopyFrom(self.model)
        load_external_data_for_model(copy, ".")
        return copy


def fuse(context: Context, settings: Settings) -> Iterator[FusedModel]:
    """Yield the fused model; with `auto` one for each method, the best first.

    Models without attentions in pieces come first. Between equals, the model of ONNX Runtime's optimizer comes first.

    Raises:
        StageFailed: when the method fails; with `auto`, when each fails.
    """
    read = _build_reader(context, settings)
    if settings.method != "auto":
        yield _apply(context, settings, settings.method, read)
        return
    partial: list[FusedModel] = []
    failures: dict[str, StageFailed] = {}
    for method in METHODS:
        try:
            fused = _apply(context, settings, method, read)
        except StageFailed as failure:
            context.log.warning("method %s: %s", method, failure)
            failures[method] = failure
            continue
        if fused.unfused:
            context.log.info("method %s leaves %d attentions in pieces", method, len(fused.unfused))
            partial.append(fused)
        else:
            yield fused
    if len(failures) == len(METHODS):
        raise next(iter(failures.values()))
    for method, failed in failures.items():  # it could have fused what the other left
        context.note(": ".join([f"method {method} failed", failed.problem, *failed.why.splitlines()[:1]]))
    yield from sorted(partial, key=lambda fused: len(fused.unfused))


def _build_reader(context: Context, settings: Settings) -> Callable[[], ModelProto]:
    """Return a function that loads a fresh copy of the model; weights that no fusion reads stay on disk."""
    if settings.level == "disable":
        return lambda: load(context.model())
    path = write_optimized(context.model(), settings.level, IN_THE_WAY)

    def read() -> ModelProto:
        model = load_graph(path)
        store_freely(model)
        tidy_domains(model)
        return model

    return read


def _apply(context: Context, settings: Settings, method: str, read: Callable[[], ModelProto]) -> FusedModel:
    model = read()
    version = find_standard_opset(model)
    inputs = [type(value).FromString(value.SerializeToString()) for value in model.graph.input]
    fused, reasons = METHODS[method](context, model, settings)
    norms = [node for node in iter_nodes(fused) if node.op_type == "LayerNormalization" and node.domain in STANDARD]
    if norms and version < LAYER_NORMALIZATION:
        context.log.info("operator set %d has no LayerNormalization: layer norms stay in pieces", version)
        without_norms = replace(settings, disable=[*settings.disable, "layer_norm"])
        fused, reasons = METHODS[method](context, read(), without_norms)
    read_inputs = {value.name for value in fused.graph.input}
    fused.graph.input.extend(value for value in inputs if value.name not in read_inputs)  # no node reads them
    order = {value.name: place for place, value in enumerate(inputs)}
    fused.graph.input.sort(key=lambda value: order[value.name])
    tidy_domains(fused)
    if again := tie(fused, find_tied(load_graph(context.model()))):
        context.log.info("stored once: %s", ", ".join(again))
    unknown = "`disable` leaves attention out" if "attention" in settings.disable else UNKNOWN[method]
    with failing(context, "the fused model cannot be looked into"):
        return FusedModel(method, fused, {name: reasons.get(name, unknown) for name in find_unfused(fused)})


METHODS: Mapping[str, Callable[[Context, ModelProto, Settings], tuple[ModelProto, Mapping[str, str]]]] = {
    "onnxruntime": apply_optimizer,
    "rules": apply_rules,
}
UNKNOWN = {  # reason of an unfused attention for which a method gives none
    "onnxruntime": "ONNX Runtime's optimizer does not know its pattern",
    "rules": "it is in a branch, a loop or a function",
}
