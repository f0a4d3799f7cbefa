"""The ways to fuse a model, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import ModelProto

from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.stages.domains import tidy_domains
from orun.stages.fusion.optimizer import apply_optimizer
from orun.stages.fusion.report import unfused
from orun.stages.fusion.rules import apply_rules
from orun.stages.onnx_io import load
from orun.stages.ort_graph import IN_THE_WAY, optimized

if TYPE_CHECKING:
    from orun.stages.optimize.transformer import Params


@dataclass(frozen=True)
class Made:
    """A fused model.

    Attributes:
        method: that made it.
        model: whole in memory.
        left: attentions that are still in pieces, by the value that they yield.
    """

    method: str
    model: ModelProto
    left: tuple[str, ...]


def candidates(context: Context, params: Params) -> Iterator[Made]:
    """The model fused as the parameters say; by `auto` in several ways, the best first.

    One that leaves no attention in pieces goes before one that leaves some, and ONNX Runtime's optimizer before rules.

    Raises:
        StageFailed: when the method, or each of them, fails.
    """
    if params.method != "auto":
        yield _apply(context, params, params.method)
        return
    partial: list[Made] = []
    failures: list[StageFailed] = []
    for method in METHODS:
        try:
            made = _apply(context, params, method)
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


def _apply(context: Context, params: Params, method: str) -> Made:
    path = context.model()
    model = load(path) if params.level == "disable" else optimized(path, params.level, IN_THE_WAY)
    fused = METHODS[method](context, model, params)
    tidy_domains(fused)
    return Made(method, fused, tuple(unfused(fused)))


def _rules(context: Context, model: ModelProto, params: Params) -> ModelProto:
    disabled = [*params.disable, *(["packing"] if params.multi_head_attention else [])]
    try:
        return apply_rules(model, disabled)
    except Exception as error:  # shape inference raises whatever a graph that it does not know leads to
        context.log.exception("the rules failed")
        raise StageFailed(
            context.stage,
            "the model cannot be fused by rules",
            why=f"{type(error).__name__}: {error}",
            hint="use `method: onnxruntime`, or leave fusions out: `disable: [...]`; the log has the whole traceback",
        ) from error


METHODS: Mapping[str, Callable[[Context, ModelProto, Params], ModelProto]] = {
    "onnxruntime": apply_optimizer,
    "rules": _rules,
}
