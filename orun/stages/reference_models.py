"""References of another framework: the source models of convert stages, opened in the processes that run them."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from orun.core.source_model import SourceModel
from orun.core.targets import Target
from orun.stages.contract import Context
from orun.stages.params import Doc, build

if TYPE_CHECKING:
    from orun.measure.framework_model import FrameworkModel, Opener

Runtime = Literal["onnxruntime", "torch", "torch.compile", "tensorflow", "sklearn"]
ReferenceRuntime = Annotated[
    Runtime | dict[str, Runtime],
    Doc(
        "What runs the references: ONNX Runtime, or the framework of the model that the convert stage takes: `torch` "
        "(eager), `torch.compile`, `tensorflow` (Keras and TFLite, too), `sklearn`. Of several references by input: "
        "`{reference.eager: torch}`."
    ),
]


def build_openers(context: Context, targets: Mapping[str, Target]) -> dict[str, Opener]:
    """Return what opens the source model at each input of a stage that has one."""
    return {
        port: partial(open_source, source, context.root, context.seed, _choose_threads(targets[port]))
        for port, source in context.sources.items()
    }


def _choose_threads(target: Target) -> int | None:
    """Return the threads that a target names; None for the framework's own choice, as 0 is ONNX Runtime's."""
    return target.session.get("intra_op_num_threads") or None


def open_source(source: SourceModel, root: Path, seed: int, threads: int | None) -> FrameworkModel:
    """Open the source model of a convert stage as that stage does.

    Args:
        source: the model.
        root: the folder that code and paths are relative to.
        seed: seed of every random choice, as that of weights that a function draws.
        threads: of an inference; None for the framework's own choice.
    """
    module = importlib.import_module(source.entry)
    context = Context(
        stage=source.stage,
        inputs={name: Path(folder) for name, folder in source.inputs.items()},
        output=Path(),
        root=root,
        target=None,
        seed=seed,
        timeout=None,
        provenance=None,
        open_log=lambda: logging.getLogger(f"orun.stage.{source.stage}"),
        progress=lambda _done, _total, _text: None,
    )
    model: FrameworkModel = module.source(context, build(module.Params, source.params), source.runtime, threads)
    return model
