"""Check that a model can run in a web page: onnxruntime-web opens it, and its answers agree with the CPU's.

npm's `onnxruntime-web` must be installed in the project, in the version that the stage names: `npm install --save-exact
onnxruntime-web@1.30.0`. Two kinds of problems are reported together:

- an input or output of a type that JavaScript has no array for (bfloat16, 8-bit and 4-bit floats, complex numbers), or
  that is a sequence, a map or an optional value;
- files of more than 4 GiB, the memory that WebAssembly can address.

A model without these is opened with WebAssembly, which has the kernels of ONNX Runtime's CPU provider. The stage
reports an operator, operator set or IR version that it does not know. The answers are compared with those of ONNX
Runtime on the CPU at several sizes of each axis, and the stage fails if they disagree. `max_abs_error` is the largest
absolute error.

`coverage.webgpu`, `coverage.webnn` and `coverage.webgl` are the shares of nodes that those providers take, by the
tables of the package. They tell nothing of types, nor of the restrictions in the tables' comments, and a browser may
lack the provider. With WebGPU and WebNN the other nodes run on WebAssembly. WebGL refuses a model with such a node.
Nodes are counted after ONNX Runtime has folded constants and cleaned up the graph.

The artifact holds `web.json`: the arrays of inputs and outputs, the operators that each provider lacks, the largest
error, and the browser or Node.js with its threads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orun.core.metrics import HIGHER_SHARE, LOWER, SIZE
from orun.errors import StageFailed, UsageError
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages._web.interface import find_array, iter_inputs_and_outputs, list_unfit
from orun.stages._web.operators import PROVIDERS, count_nodes, read_table
from orun.stages._web.parameters import NodeModules, OnnxruntimeWeb, Runtime, Threads, build_runtime
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import Context, Port, Spec

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.web.session import Opened, WebRuntime

ADDRESSABLE = 1 << 32  # bytes, by 32 bits

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to check.")},
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "numpy"),
    extra="cpu",
    preload=("numpy", "onnx", "onnxruntime"),
    metrics={
        "size": SIZE,
        "nodes": LOWER,
        "max_abs_error": LOWER,
        **{f"coverage.{provider}": HIGHER_SHARE for provider in PROVIDERS},
    },
    guards=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `check/web`."""

    onnxruntime_web: OnnxruntimeWeb
    node_modules: NodeModules = ""
    runtime: Runtime = "chromium"
    threads: Threads = 1
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Check the model, and write a report."""
    from orun.stages._graph.io import iter_nodes, load_graph, measure_files
    from orun.stages._graph.ort_graph import IN_THE_WAY, write_optimized

    runtime = build_runtime(context, params.onnxruntime_web, params.node_modules, params.runtime, params.threads)
    model = load_graph(context.model())
    size = measure_files(context.inputs["model"])
    problems = list_unfit(model)
    if size > ADDRESSABLE:
        problems.append(f"its files have {size} bytes, and WebAssembly can address {ADDRESSABLE}")
    if problems:
        raise _build_problems_error(context, problems)
    error, opened = _compare(context, params, model, runtime)
    folded = load_graph(write_optimized(context.model(), "basic", IN_THE_WAY))
    counts = {provider: count_nodes(folded, read_table(runtime.package, provider)) for provider in PROVIDERS}
    arrays: dict[str, dict[str, str | None]] = {"input": {}, "output": {}}
    for word, value in iter_inputs_and_outputs(model):
        arrays[word][value.name] = find_array(value)
    report = {
        "onnxruntime_web": params.onnxruntime_web,
        "host": opened.host,
        "threads": opened.threads,
        "max_abs_error": error,
        "inputs": arrays["input"],
        "outputs": arrays["output"],
        "missing": {provider: dict(sorted(missing.items())) for provider, (_, missing) in counts.items()},
    }
    (context.output / "web.json").write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
    shares = {
        f"coverage.{provider}": supported.total() / max(supported.total() + missing.total(), 1)
        for provider, (supported, missing) in counts.items()
    }
    return {
        "size": size,
        "nodes": sum(1 for _ in iter_nodes(folded)),
        "max_abs_error": error,
        **shares,
    }


def _compare(context: Context, params: Params, model: ModelProto, runtime: WebRuntime) -> tuple[float, Opened]:
    """Open the model and compare its answers with the CPU's; return the largest error, and the session's facts."""
    from orun.measure.web.session import WebSession
    from orun.stages._graph.agreement import Trial, load_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import list_external_files
    from orun.stages._web.comparison import compare_with_cpu

    with ExitStack() as stack:
        try:
            session = stack.enter_context(WebSession(runtime, context.model(), list_external_files(model)))
        except UsageError as error:
            raise _build_problems_error(context, [error.why]) from error
        tries = load_cases(context, model, Trial(params.dims, params.inputs))
        tolerance = Tolerance(params.atol, params.rtol)
        return compare_with_cpu(context, model, tries, session.run, tolerance), session.opened


def _build_problems_error(context: Context, problems: Sequence[str]) -> StageFailed:
    return context.failed(
        f"the model has {len(problems)} problem{'s' if len(problems) > 1 else ''} in onnxruntime-web",
        why="\n".join(problems),
        hint="fix it where it is exported; `convert/opset` changes the operator set",
    )
