"""Source model of a convert stage, as planning hands it to the stage that measures it as a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orun.core.serialization import Record, field


class SourceModel(Record, frozen=True):
    """Model of another framework that a convert stage turns into ONNX.

    Attributes:
        stage: id of the convert stage.
        entry: module of its kind, which has a function `source`.
        runtime: how to run it: one of the `Spec.runtimes` of that kind.
        params: every parameter of the convert stage as a plain value.
        inputs: where each input of the convert stage is: an input of the measuring stage, a folder while it runs.
        tools: distributions that the runtime needs, as in `Spec.tools`.
    """

    stage: str
    entry: str
    runtime: str
    params: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
