"""What the kinds that launch a model in processes of its own have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.codec import encode
from orun.stages.contract import Context, Port
from orun.stages.data.source import Examples
from orun.stages.datasets import load_dataset
from orun.stages.params import Doc, Range, TargetName

if TYPE_CHECKING:
    from orun.measure.fresh import Reading

INPUTS = {
    "model": Port(("onnx", "engine"), "The model to launch."),
    "reference": Port(("onnx", "engine"), "The model that it is compared with.", optional=True, many=True),
}
LEAST = 6  # launches that bound a median with 95 %


@dataclass(frozen=True)
class Launches:
    """How a model is launched."""

    target: Annotated[TargetName | None, Doc("Where the models run; the CPU when left out.")] = None
    inputs: Annotated[
        Examples | None,
        Doc("A dataset of inputs (see `measure/accuracy`); made up from the model's signature when left out."),
    ] = None
    batch: Annotated[int, Doc("Examples in an inference."), Range(low=1)] = 1
    shape: Annotated[
        dict[str, int],
        Doc("Sizes of symbolic axes by their name, or by input and place (`pixels.2`), for made-up inputs; 128 each."),
    ] = field(default_factory=dict)
    io_binding: Annotated[
        bool, Doc("Bind inputs and outputs to the device beforehand, so that copies are not part of an inference.")
    ] = False
    launches: Annotated[int, Doc("Launches of each model."), Range(low=LEAST)] = LEAST


def readings(context: Context, params: Launches, runs: int) -> Mapping[str, Sequence[Reading]]:
    """Launch every connected model; what was found by the model's role.

    Args:
        context: of the stage.
        params: how to launch them.
        runs: inferences in a launch.
    """
    from orun.measure.fresh import Request, rounds
    from orun.stages.timing import Sizes, feeds
    from orun.targets import Target

    target = context.target or Target("cpu")
    models = {role: context.model(role) for role in context.inputs}
    dataset = load_dataset(context, params.inputs) if params.inputs else None
    fed = feeds(models, Sizes(params.batch, params.shape), context.seed, dataset)
    requests = {role: Request(path, target, runs, params.io_binding) for role, path in models.items()}
    return rounds(requests, fed, params.launches, context.progress)


def write(context: Context, found: Mapping[str, Sequence[Reading]]) -> None:
    """Leave every launch in the artifact."""
    text = json.dumps(encode(found), indent=2)
    (context.output / "launches.json").write_text(text + "\n", "utf-8")
