"""Limits of a PyTorch module: its arbitrary values, and its spread in float64 with rounding errors in the inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from orun.core.serialization import replace
from orun.measure.dataset import Array
from orun.stages._graph.feeds import Case
from orun.stages._graph.limits import Limit, Limits, find_arbitrary, merge, nudge
from orun.stages._graph.masked_rows import HIDDEN
from orun.stages._graph.sessions import Feed
from orun.stages._torch.export import Bound
from orun.stages.contract import Context

SOFTMAX = ("softmax", "_softmax", "_safe_softmax")  # names of operators
FUSED = "scaled_dot_product"  # in the names of operators that compute attention as a whole
SPREAD = "differs from itself, in float64 with rounding errors added to its inputs,"


class _Fill(TorchDispatchMode):  # type: ignore[misc]  # torch is not checked
    """Mode in which attention rows that see nothing yield a number.

    Attributes:
        is_used: whether there was such a row.
    """

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number
        self.is_used = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in SOFTMAX:
            blind = _mark_hidden(args[0]).all(args[1], keepdim=True)
        else:
            blind = _find_blind_rows(function, args, kwargs or {}) if FUSED in name else None
        if blind is None or not blind.any():
            return result
        self.is_used = True
        if isinstance(result, torch.Tensor):
            return result.masked_fill(blind, self._number)
        return (result[0].masked_fill(blind, self._number), *result[1:])


def _mark_hidden(scores: torch.Tensor) -> torch.Tensor:
    return ~scores if scores.dtype == torch.bool else scores < HIDDEN


def _find_blind_rows(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """Return which rows of a fused attention see nothing, `[..., queries, 1]`; None without a mask."""
    names = [argument.name for argument in function._schema.arguments]  # noqa: SLF001 - torch has no other way to tell
    arguments = dict(zip(names, args, strict=False)) | dict(kwargs)
    mask = next((arguments[name] for name in ("attn_mask", "attn_bias") if arguments.get(name) is not None), None)
    if mask is None:
        return None
    hidden = _mark_hidden(mask)
    if arguments.get("is_causal"):
        later = torch.ones(hidden.shape[-2:], dtype=torch.bool).triu(1)
        hidden = hidden | later
    return hidden.all(-1, keepdim=True)


def build_limits(context: Context, bound: Bound) -> Limits:
    """Return the limits of a module; nothing is computed until a check needs them."""

    def run_filled(feed: Feed, number: float) -> list[Array]:
        with _Fill(number):
            return bound(feed)

    def find(case: Case, right: Sequence[Array]) -> Sequence[Limit | None]:
        with _Fill(0.0) as fill:
            bound(case.feed)
        arbitrary = find_arbitrary(run_filled if fill.is_used else None, case.feed)
        feeds = nudge(case.feed, context.seed)
        try:
            double = replace(bound, module=copy.deepcopy(bound.module).double())
            answers = [double(_widen(feed)) for feed in feeds]
        except Exception as error:  # noqa: BLE001 - a module that makes tensors of a fixed type may raise anything
            context.log.warning("the PyTorch model cannot be computed in float64: %s", error)
            answers = [bound(feed) for feed in feeds]
        return merge([(right, answer) for answer in answers], arbitrary)

    return Limits(find, SPREAD)


def _widen(feed: Feed) -> Feed:
    return {name: value.astype("float64") if value.dtype.kind == "f" else value for name, value in feed.items()}
