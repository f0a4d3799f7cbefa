"""Write a model repository for NVIDIA's Triton Inference Server, with its `config.pbtxt`.

    <name>/config.pbtxt
    <name>/<version>/model.onnx     with its external data beside it

Names, types and shapes of inputs and outputs come from the model. `max_batch_size` above 0 needs a model whose first
axis is always the batch. It leaves that axis out of the configuration, as Triton requires, and enables dynamic
batching. The stage runs the model on single rows and on several; a note says by how much the answers differ, as those
of dynamic quantization do.

The session options of a target (threads, optimization level) and its accelerator (TensorRT, OpenVINO) become
parameters of Triton's ONNX Runtime back end; a note names the options that it lacks. The stage waits for the gates on
the model. Start the server with `tritonserver --model-repository=FOLDER`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.core.metrics import SIZE
from orun.stages._data.source import Examples
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range, TargetName

INT32 = 2**31 - 1  # largest value of these fields in config.pbtxt

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to serve.")},
    output="files",
    tools=("onnx", "onnxruntime|onnxruntime-gpu", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={"size": SIZE},
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/triton`."""

    name: Annotated[str, Doc("Name of the model on the server.")]
    version: Annotated[int, Doc("Version of the model; Triton serves the highest."), Range(1)] = 1
    target: Annotated[TargetName | None, Doc("Target that the model will run on; by default the CPU.")] = None
    max_batch_size: Annotated[int, Doc("Largest batch that the server forms; 0 for none."), Range(0, INT32)] = 0
    preferred_batch_sizes: Annotated[list[int], Doc("Batch sizes that dynamic batching aims at.")] = field(
        default_factory=list
    )
    max_queue_delay: Annotated[int, Doc("Microseconds that a request may wait for a batch."), Range(0, 2**63 - 1)] = 0
    instances: Annotated[int, Doc("Copies of the model that run in parallel."), Range(1, INT32)] = 1
    device: Annotated[Literal["auto", "cpu", "gpu"], Doc("Device of the copies; `auto` follows the target.")] = "auto"
    warm_up: Annotated[bool, Doc("Run the model once with zeros before the server is ready.")] = True
    data: Annotated[
        Examples | None, Doc("Dataset to try batches with (see `measure/accuracy`); made-up values when left out.")
    ] = None


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the repository."""
    from orun.core.targets import Target
    from orun.measure.session_settings import FILE_NAME, add_settings, read_settings
    from orun.stages._graph.io import load_graph, measure_files
    from orun.stages.release._triton_config import Settings, list_unsupported_options, render_config, takes_texts

    model = load_graph(context.model())
    target = context.target
    if read_settings(context.model().parent):
        target = add_settings(context.model(), target or Target("cpu"))

    settings = Settings(
        params.name,
        params.max_batch_size,
        params.preferred_batch_sizes,
        params.max_queue_delay,
        params.instances,
        params.device,
        params.warm_up and not takes_texts(model),
    )
    text = render_config(model, settings, target)
    if params.warm_up and not settings.warm_up:
        context.note("the server does not warm up: the model has text inputs, and may fail on empty texts")
    if target and (options := list_unsupported_options(target)):
        context.note(f"Triton has no parameter for {', '.join(options)} of target {target.name!r}")
    if params.max_batch_size > 1:
        _try_batches(context, params)
    home = context.output / params.name
    files, version = context.model().parent, home / str(params.version)
    shutil.copytree(files, version, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(FILE_NAME))
    (home / "config.pbtxt").write_text(text, "utf-8")
    return {"size": measure_files(home)}


def _try_batches(context: Context, params: Params) -> None:
    """Note if batches change the answers, or that it is not known: a target may run in another environment."""
    from orun.stages.release._server_trial import check_batches

    target = context.model_target
    if target.interpreter:
        context.note(f"batches were not tried: target {target.name!r} has an environment of its own")
    else:
        check_batches(
            context, context.model().parent, target.with_any_size(), params.data
        )  # Triton fixes no sizes either
