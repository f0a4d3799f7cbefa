"""Make a release for the web: a folder with a page that runs the model, for any static web server.

- the files of `release/bundle`: the model, its provenance and measurements, `manifest.json`
- `index.html`, `page.mjs`, `page.css`: a form for the inputs of the model, readable and without dependencies
- `page.json`: what the page knows of the model, with an example
- `ort/`: the files of npm's `onnxruntime-web` that the page needs, about 14 MB, of the version that the stage names
- `_headers`: the headers for threads, as Cloudflare Pages and Netlify read them

The page takes pictures, text and numbers, as the types and shapes of the inputs suggest. It asks no other server for
anything. Inputs stay in the browser. `orun verify FOLDER` checks the folder, and `release/publish` uploads it.

Try it with `python -m http.server --directory FOLDER`. The model then runs on one thread. Threads share memory, which
browsers allow only to pages from a server that sends `Cross-Origin-Opener-Policy: same-origin` and
`Cross-Origin-Embedder-Policy: require-corp`. The page says how many it uses. A file of the release opened without a
server does not work: browsers load no modules from disk.

The stage opens the page in Chromium from such a server, runs the example, and compares the answer with the CPU's. It
waits for the gates on the model, as `release/bundle` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import LOWER, SIZE
from orun.stages._web.parameters import NodeModules, OnnxruntimeWeb, build_runtime
from orun.stages.common_parameters import Atol, Rtol
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc
from orun.stages.release._bundle_files import CARD, fill_bundle, seal_bundle
from orun.stages.timing import Shape, TimedInputs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    Array = NDArray[Any]

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to release."), "card": CARD},
    output="bundle",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    stage_class="device",
    preload=("numpy", "onnx", "onnxruntime"),
    provenance=True,
    metrics={"size": SIZE, "max_abs_error": LOWER},
    releases=True,
    kept=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/web`."""

    onnxruntime_web: OnnxruntimeWeb
    node_modules: NodeModules = ""
    version: Annotated[str, Doc("Version of the release, for the manifest.")] = ""
    title: Annotated[str, Doc("Title of the page; by default the name of the pipeline.")] = ""
    inputs: TimedInputs = None
    shape: Shape = field(default_factory=dict)
    mean: Annotated[
        list[float],
        Doc(
            "Mean of each channel of a picture: the input gets `(pixel / 255 - mean) / std`. Without both, pixels are"
            " scaled to the model's input domain, or to 0 to 1."
        ),
    ] = field(default_factory=list)
    std: Annotated[list[float], Doc("Standard deviation of each channel of a picture.")] = field(default_factory=list)
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Fill the folder, and try the page."""
    from orun.stages._graph.io import load_graph
    from orun.stages._web.interface import require_fit
    from orun.stages.release._web_page import Pictures, write_page
    from orun.stages.timing import Sizes, make_timed_feeds

    runtime = build_runtime(context, params.onnxruntime_web, params.node_modules, "chromium")
    model = load_graph(context.model())
    require_fit(context, model)
    provenance = fill_bundle(context, params.version)
    alone = replace(context, inputs={"model": context.inputs["model"]})
    feed = make_timed_feeds(alone, params.inputs, Sizes(1, params.shape))["model"]
    pictures = Pictures(tuple(params.mean), tuple(params.std))
    write_page(context, runtime.package, model, feed, params.title or provenance["pipeline"], pictures)
    error = _try_page(context, params, model, feed, runtime.program)
    return {**seal_bundle(context, provenance, params.version), "max_abs_error": error}


def _try_page(context: Context, params: Params, model: ModelProto, example: Mapping[str, Array], program: str) -> float:
    """Run the example in the page, as a user would who changes nothing; return the largest error of the answer."""
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.feeds import Case
    from orun.stages._web.comparison import compare_with_cpu
    from orun.stages.release._web_page.trial import press_run

    tries = [Case("the example of the page", {}, example)]
    answers = press_run(context.output, program)
    return compare_with_cpu(context, model, tries, lambda _: answers, Tolerance(params.atol, params.rtol))
