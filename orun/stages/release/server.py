"""Make a server of a released model: a folder with a container file that speaks the Open Inference Protocol v2.

    docker build -t digits FOLDER && docker run --rm -p 8080:8080 -p 8081:8081 digits

The folder is the bundle and, beside its files:

- `runtime.py`, with `rest.py`, `protocol.py`, `batcher.py` and `sample_log.py`: the server. It needs the packages of
  the lock and not orun. [KServe](https://kserve.github.io/website/)'s library has the endpoints of gRPC.
- `server.json`: its settings, with the providers and session options of `target` and of `optimize/session`.
- `requirements.lock`: its packages, each with version and SHA-256. ONNX Runtime has the pipeline's version.
- `Containerfile`, and `SERVING.md`, which says how to start and ask the server.
- `reference.json`, with `data`: what inputs, outputs and latency were at the release, for `orun watch`.

| served | where |
|---|---|
| inference, metadata | `/v2/models/NAME/infer`, `/v2/models/NAME`, `/v2`; the same over gRPC |
| the bundle's `version` alone | `/v2/models/NAME/versions/VERSION`, `.../infer`, `.../ready` |
| health | `/v2/health/live`, `/v2/health/ready`, `/v2/models/NAME/ready` |
| Prometheus metrics | `/metrics` |

`max_batch_size` above 1 lets the server join requests that come within `max_queue_delay` of each other. The model's
inputs and outputs then need a dynamic first axis. The stage runs the model on single rows and on several; a note says
by how much the answers differ, as those of dynamic quantization do.

A mistake of a client gets `{"error": "..."}`, which says what the model takes. Its status is 404 for an unknown path,
model or version, 413 for a body over 1 GiB, 415 for a compressed one, and 400 for other mistakes. JSON has no NaN and
no infinity: lists hold the texts "NaN", "Infinity" and "-Infinity" in their place, in requests and in answers.

Clients can neither load nor unload models. `measure/load` drives the folder over the network; `release/kserve` writes
its manifests.

The lock is for this machine's platform and Python. Other builds of ONNX Runtime, such as those for GPUs, need a `lock`
of your own and an `image` with their libraries.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import SIZE
from orun.errors import UsageError
from orun.stages._data.source import Examples
from orun.stages.contract import MODEL, Context, Port, Spec
from orun.stages.params import Doc, Duration, FilePath, Range, Ratio, TargetName

if TYPE_CHECKING:
    from orun.core.targets import Target

CPU = "CPUExecutionProvider"
PORTS = 2**16 - 1
SPEC = Spec(
    inputs={"bundle": Port(("bundle",), "The release, from `release/bundle`.")},
    output="bundle",
    tools=("onnx", "onnxruntime|onnxruntime-gpu", "numpy"),
    extra="cpu",
    stage_class="device",
    deterministic=False,  # reference.json has latencies
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={"size": SIZE},
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/server`."""

    name: Annotated[str, Doc("Name of the model on the server.")]
    model: Annotated[
        str, Doc("In a bundle with several models, the folder of the one to serve (`encoder`; `.` is the first).")
    ] = ""
    target: Annotated[TargetName | None, Doc("Target that the model will run on; by default the CPU.")] = None
    max_batch_size: Annotated[int, Doc("Most rows of a batch that the server forms; 0 for none."), Range(0)] = 0
    max_queue_delay: Annotated[Duration, Doc("How long a request may wait for a batch."), Range(0)] = Duration(0.002)
    workers: Annotated[int, Doc("Inferences that may run at the same time."), Range(1)] = 1
    http_port: Annotated[int, Doc("Port of HTTP."), Range(1, PORTS)] = 8080
    grpc_port: Annotated[int, Doc("Port of gRPC; 0 for no gRPC."), Range(0, PORTS)] = 8081
    sample_log: Annotated[
        str,
        Doc("File for sampled requests, which `orun watch` reads; none if empty. In a container below /var/log/model."),
    ] = ""
    sample_rate: Annotated[Ratio, Doc("Share of the requests that the log holds."), Range(0, 1)] = Ratio(0.01)
    sample_without: Annotated[
        list[str], Doc("Inputs and outputs that the log leaves out, as personal data must be.")
    ] = field(default_factory=list)
    image: Annotated[
        str, Doc("Base image of the container, with tag or digest; by default Python's own, in this version.")
    ] = ""
    lock: Annotated[FilePath | None, Doc("Lock of the server's packages, with hashes, in place of orun's.")] = None
    data: Annotated[Examples | None, Doc("The release's dataset (see `measure/accuracy`), for `reference.json`.")] = (
        None
    )


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Fill the folder."""
    from orun.core.serialization import parse_foreign_json
    from orun.core.targets import EXTENSIONS
    from orun.measure.extension_operators import needs_extensions
    from orun.measure.model_server import SETTINGS
    from orun.measure.session_settings import add_settings
    from orun.stages._graph.io import load_graph, measure_files
    from orun.stages.name_checks import require_known
    from orun.stages.release._manifest import MANIFEST, list_requirements, write_json, write_manifest
    from orun.stages.release._served_model import require_name
    from orun.stages.release._server_settings import build_session_settings, require_served
    from orun.stages.release._server_text import render_containerfile, render_guide

    require_name(params.name)
    bundle = context.inputs["bundle"]
    folder = _choose_model(context, params)
    path = bundle / folder / MODEL
    model = load_graph(path)
    values = require_served(model)
    require_known("sample_without", params.sample_without, [value.name for value in values])
    target = add_settings(path, context.model_target)
    _require_lock(target, params)
    if params.max_batch_size > 1:
        from orun.stages.release._served_model import require_batch
        from orun.stages.release._server_trial import check_batches

        require_batch(values)
        check_batches(context, path.parent, context.model_target, params.data)
    _require_free_names(context, bundle)
    manifest = parse_foreign_json((bundle / MANIFEST).read_bytes())
    requires, extended = list_requirements(manifest), needs_extensions(path)
    settings = build_session_settings(context, target, extensions=extended) | _build_model_settings(
        context, params, manifest, folder
    )
    lock = _lock(context, params, requires.get(EXTENSIONS, "") if extended else None)
    _copy_files(context, bundle)
    write_json(context.output / SETTINGS, settings)
    for name, text in (
        ("requirements.lock", lock),
        ("Containerfile", render_containerfile(settings, params.image)),
        ("SERVING.md", render_guide(settings, model)),
    ):
        (context.output / name).write_text(text, "utf-8")
    if params.data:
        from orun.stages.release._reference import write_reference
        from orun.stages.release._server_trial import run_examples

        write_reference(context.output, run_examples(context, path.parent, target, params.data), settings["model"])
    write_manifest(context.output, manifest["name"], settings["version"], requires)
    return {"size": measure_files(context.output)}


def _build_model_settings(context: Context, params: Params, manifest: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the settings that do not concern the session."""
    model = (Path(folder) / MODEL).as_posix()
    return {
        "name": params.name,
        "version": manifest.get("version", ""),
        "model": model,
        "sha256": next(entry["sha256"] for entry in manifest["files"] if entry["path"] == model),
        "max_batch_size": params.max_batch_size,
        "max_queue_delay": float(params.max_queue_delay),
        "workers": params.workers,
        "http_port": params.http_port,
        "grpc_port": params.grpc_port,
        "sample_log": params.sample_log,
        "sample_rate": float(params.sample_rate),
        "sample_without": sorted(params.sample_without),
        "sample_seed": context.seed,
    }


def _choose_model(context: Context, params: Params) -> str:
    """Return the folder, in the bundle, of the model to serve."""
    from orun.stages.release._served_model import list_models

    known = list_models(context, params.model)
    if known[1:] and not params.model:
        raise context.failed(
            f"the bundle has {len(known)} models, and a server serves one",
            hint=f"choose it by `model` ({', '.join(known)}), in a stage for each",
        )
    return params.model or "."


def _require_lock(target: Target, params: Params) -> None:
    """Refuse a target whose providers are not in the CPU build of ONNX Runtime, unless the user locks another."""
    foreign = [provider.name for provider in target.providers if provider.name != CPU]
    for name, value, example in (
        ("lock", params.lock, "packages with the build of ONNX Runtime that has it"),
        ("image", params.image, "a base image with the libraries that it needs"),
    ):
        if foreign and not value:
            raise UsageError(
                f"target {target.name!r} runs on {', '.join(foreign)}, and orun's lock has ONNX Runtime for the CPU",
                hint=f"set `{name}`: {example}",
            )


def _lock(context: Context, params: Params, extensions: str | None) -> str:
    from orun.stages.release._server_lock import compose_lock, read_lock
    from orun.stages.release._server_settings import list_runtime_pins

    return read_lock(context.root / params.lock) if params.lock else compose_lock(list_runtime_pins(extensions))


def _require_free_names(context: Context, bundle: Path) -> None:
    from orun.stages.release._server import FILES, OWN

    if used := sorted({path.name for path in bundle.iterdir()} & {*FILES, *OWN}):
        raise context.failed(
            f"the bundle has {', '.join(used)}, and the folder of a server needs the name",
            hint="rename it in the stage whose files the bundle has as its card",
        )


def _copy_files(context: Context, bundle: Path) -> None:
    """Copy the bundle's files but its manifest, and the program's."""
    from orun.stages.release._manifest import MANIFEST
    from orun.stages.release._server import FILES, FOLDER

    ignored = shutil.ignore_patterns(MANIFEST)
    shutil.copytree(bundle, context.output, copy_function=shutil.copyfile, ignore=ignored, dirs_exist_ok=True)
    for name in FILES:
        shutil.copyfile(FOLDER / name, context.output / name)
