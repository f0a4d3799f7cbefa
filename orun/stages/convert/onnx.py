"""Take an ONNX model that exists, with its external data.

The model is read whole and written anew, so that files around it change nothing. External data must lie in the
model's own folder; it is gathered into one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from orun.errors import StageFailed
from orun.metrics import Metric
from orun.stages.contract import Context, Spec
from orun.stages.params import Doc, FilePath


@dataclass(frozen=True)
class Params:
    """Which model."""

    path: Annotated[FilePath, Doc("The model's .onnx file.")]
    digest: Annotated[str | None, Doc("SHA-256 that the .onnx file must have, in hexadecimal.")] = None


SPEC = Spec(
    output="onnx",
    tools=("onnx",),
    extra="cpu",
    interface="changed",
    preload=("onnx",),
    metrics=("size", "nodes"),
)


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the model to `context.result`."""
    from orun.stages.onnx_io import external_files, load, load_graph, save, weigh

    path = context.root / params.path
    if params.digest is not None:
        _check_digest(context, params)
    external = bool(external_files(load_graph(path)))
    save(load(path), context.result, external=external)
    return weigh(context.result)


def _check_digest(context: Context, params: Params) -> None:
    import hashlib

    with (context.root / params.path).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != str(params.digest).lower():
        raise StageFailed(
            context.stage,
            f"{params.path} is not the file that `digest` names",
            why=f"SHA-256 is {found}\nexpected {params.digest}",
            hint="check where the file comes from; write the new digest into the pipeline if it is right",
        )
