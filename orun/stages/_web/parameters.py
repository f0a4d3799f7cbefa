"""Parameters of the kinds for web pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from orun.stages.contract import Context
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from orun.measure.web.session import WebRuntime

OnnxruntimeWeb = Annotated[
    str, Doc("Version of npm's `onnxruntime-web`, as the project has it installed (`1.30.0`); 1.19 or later.")
]
NodeModules = Annotated[
    str,
    Doc(
        "The folder `node_modules` that holds it, relative to the pipeline file; when left out the nearest one, beside"
        " the file or above it."
    ),
]
Runtime = Annotated[
    Literal["chromium", "node"], Doc("What runs the model: Chromium or Chrome without a window, or Node.js.")
]
Threads = Annotated[int, Doc("Threads of the runtime."), Range(low=1)]


def build_runtime(
    context: Context, version: str, node_modules: str, runtime: Literal["chromium", "node"], threads: int = 1
) -> WebRuntime:
    """Return what the parameters of a stage name.

    Raises:
        UsageError: when the package is not installed in this version, or there is no such program.
    """
    from orun.measure.web.package import find_package
    from orun.measure.web.session import WebRuntime, find_program

    return WebRuntime(find_package(context.root, version, node_modules), runtime, find_program(runtime), threads)
