"""Models of transformers as modules that return tensors alone, and the names that a model gives what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from orun.stages._graph.sessions import Feed
from orun.stages._torch.export import Bound, flatten, flatten_named


class Plain(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """Model of transformers as a module that takes its inputs in order and returns a tuple of tensors."""

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self._names = tuple(names)

    def answer(self, *tensors: torch.Tensor) -> Any:
        """Return the object that the model returns."""
        return self.model(**dict(zip(self._names, tensors, strict=True)))

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the tensors in that object."""
        return tuple(flatten(self.answer(*tensors)))


def list_output_names(bound: Bound, feed: Feed) -> list[str]:
    """Return the key of each tensor that the model returns, from one run; empty for a tensor without a key."""
    positional, named = bound.build_arguments(feed)
    run = bound.module.answer if isinstance(bound.module, Plain) else bound.module
    with torch.inference_mode():
        return [name for name, _ in flatten_named(run(*positional, **named))]
