"""PyTorch module as a reference: eager, or compiled by `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from orun.measure.dataset import Array
from orun.stages._graph.sessions import Feed
from orun.stages._torch.export import Bound, flatten


class TorchReference:
    """PyTorch module on the CPU, in inference mode.

    Args:
        bound: the module with its inputs.
        compiled: whether `torch.compile` compiles it at the first inference of each shape.
    """

    def __init__(self, bound: Bound, *, compiled: bool) -> None:
        self.title = f"PyTorch {torch.__version__}, {'torch.compile' if compiled else 'eager'}"
        self._bound = bound
        self._call = torch.compile(bound.module, dynamic=False) if compiled else bound.module

    def __call__(self, feed: Feed) -> Sequence[Array]:
        """Run the module; return its tensors as a flat list of arrays."""
        return [tensor.numpy() for tensor in flatten(self.bind(feed)())]

    def bind(self, feed: Feed) -> Callable[[], Any]:
        """Return a function that runs the module on tensors."""
        positional, named = self._bound.build_arguments(feed)

        def run() -> Any:
            with torch.inference_mode():
                return self._call(*positional, **named)

        return run
