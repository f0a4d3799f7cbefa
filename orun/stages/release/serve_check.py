"""Run a released bundle as its users will, in a new process with ONNX Runtime alone.

orun makes an isolated environment with the packages of `requirements`, once for each machine. A process there, which
can import neither orun nor a framework, checks the SHA-256 of every file, opens `model.onnx` from the bundle, and runs
inputs of several shapes. Its answers must agree with those of the pipeline's runtime. Values that depend on attention
rows that see nothing are not compared; a note counts them.

The check reveals releases that need an undeclared package, a file outside the bundle, or a newer runtime than the
users have. Name the users' versions in `requirements`. In a bundle with several models each is checked, unless `model`
names one.

The artifact is `serve.json`: the installed packages and the number of answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import COUNT, LOWER
from orun.errors import UnknownName
from orun.stages._graph.input_domain import ComparedInputs
from orun.stages.common_parameters import Atol, Dims, Rtol
from orun.stages.contract import MODEL, Context, Port, Spec
from orun.stages.params import Doc

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    from orun.stages._graph.feeds import Case

SPEC = Spec(
    inputs={"bundle": Port(("bundle",), "The release.")},
    output="metrics",
    tools=("onnx", "onnxruntime|onnxruntime-gpu", "numpy"),
    extra="cpu",
    stage_class="device",
    preload=("onnx", "onnxruntime"),
    metrics={"answers": COUNT, "max_abs_error": LOWER, "packages": LOWER},
    guards=True,
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/serve-check`."""

    requirements: Annotated[
        list[str],
        Doc(
            "Packages that users install; by default the ONNX Runtime and NumPy versions of the pipeline, and what the"
            " bundle's manifest requires."
        ),
    ] = field(default_factory=list)
    providers: Annotated[list[str], Doc("Execution providers that users select.")] = field(
        default_factory=lambda: ["CPUExecutionProvider"]
    )
    model: Annotated[
        str,
        Doc("In a bundle with several models, the folder of the one to check (`encoder`; `.` is the first)."),
    ] = ""
    dims: Dims = field(default_factory=dict)
    inputs: ComparedInputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Run each model in both environments, and compare."""
    _require_providers(context, params.providers)
    errors: list[float] = []
    report: dict[str, Any] = {"answers": {}}
    for name in _list_models(context, params):
        answers, error, environment = _check_model(context, params, name)
        report |= environment
        report["answers"][f"{name}/{MODEL}".removeprefix("./")] = answers
        errors.append(error)
    (context.output / "serve.json").write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
    return {
        "answers": sum(report["answers"].values()),
        "max_abs_error": max(errors),
        "packages": len(report["packages"]),
    }


def _list_models(context: Context, params: Params) -> list[str]:
    """Return the folders, in the bundle, of the models to check."""
    from orun.stages.release._served_model import list_models

    known = list_models(context, params.model)
    set_parameters = [name for name in ("dims", "inputs") if getattr(params, name)]
    if set_parameters and known[1:] and not params.model:
        raise context.failed(
            f"{set_parameters[0]}: apply to one model, but the bundle has {len(known)}",
            hint=f"choose it by `model` ({', '.join(known)}), in a stage for each",
        )
    return [params.model] if params.model else known


def _check_model(context: Context, params: Params, name: str) -> tuple[int, float, dict[str, Any]]:
    """Return the number of answers, the largest error, and the report of the users' process."""
    import numpy as np

    from orun.stages._graph.agreement import Trial, check, load_cases, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.leniency import Agreement
    from orun.stages._graph.limits import build_limits
    from orun.stages._graph.sessions import open_model

    folder = context.inputs["bundle"] / name
    model = load_graph(folder / MODEL)
    _require_tensors(context, model)
    outputs = [output.name for output in model.graph.output]
    cases = load_cases(replace(context, inputs={"model": folder}), model, Trial(params.dims, params.inputs))
    expected = run_cases(context, "the model", open_model(folder / MODEL, outputs), cases)
    served, report = _serve(context, params, name, cases, outputs)
    agreement = Agreement(
        "the model as it is served", "the model in the pipeline", outputs, Tolerance(params.atol, params.rtol), ""
    )
    answers = iter(served)
    limits = build_limits(context, folder / MODEL, outputs, None)
    worst = check(context, agreement, cases, expected, lambda _: list(map(np.asarray, next(answers))), limits)
    return len(cases), worst, report


def _require_providers(context: Context, names: Sequence[str]) -> None:
    """Refuse unknown providers before an environment is made."""
    from orun.providers.registry import PROVIDERS

    if not names:
        raise context.failed("`providers` is empty", hint="leave it out for the CPU")
    for name in names:
        if name not in PROVIDERS:
            problem = f"ONNX Runtime has no provider {name!r}"
            raise UnknownName(problem, name, tuple(PROVIDERS), why=f"it has {', '.join(PROVIDERS)}")


def _require_tensors(context: Context, model: ModelProto) -> None:
    """Refuse outputs that are not tensors: a file of arrays cannot hold them."""
    if unfit := [value.name for value in model.graph.output if not value.type.HasField("tensor_type")]:
        raise context.failed(
            f"the output {', '.join(unfit)} cannot be compared: it is not a tensor",
            hint="for a classifier of `convert/sklearn`, set `zipmap: false`: its probabilities are then an array",
        )


def _serve(
    context: Context, params: Params, model: str, cases: Sequence[Case], outputs: Sequence[str]
) -> tuple[list[list[Any]], dict[str, Any]]:
    """Return the answers of the users' process, and its report."""
    import numpy as np

    from orun.core.targets import Environment
    from orun.environment import venv_builder, venvs
    from orun.stages.release import _serving

    packages = params.requirements or [*_list_pipeline_packages(), *_list_bundle_packages(context.inputs["bundle"])]
    environment = Environment("of the users of the release", tuple(packages))
    venv_builder.make(environment, context.log.info)
    python = venvs.locate_python(venvs.locate_folder(environment))
    questions, replies = Path("questions.npz"), Path("replies.npz")
    inputs = {
        f"{number}/{name}": value.astype(np.str_) if value.dtype == object else value  # texts, without pickle
        for number, case in enumerate(cases)
        for name, value in case.feed.items()
    }
    np.savez(questions, **inputs)  # type: ignore[arg-type]  # arrays by name, none of them called `file`
    arguments = (Path(_serving.__file__), context.inputs["bundle"], model, questions, replies)
    report = _run(context, [str(python), "-I", *map(str, arguments), *params.providers])
    with np.load(replies) as archive:
        values = [[_as_objects(archive[f"{number}/{name}"]) for name in outputs] for number in range(len(cases))]
    installed = venvs.read_packages(environment) or {}
    return values, {**report, "packages": dict(installed)}


def _as_objects(value: NDArray[Any]) -> NDArray[Any]:
    """Return a value as ONNX Runtime does: texts as objects."""
    return value.astype(object) if value.dtype.kind == "U" else value


def _list_pipeline_packages() -> list[str]:
    """Return requirements for the pipeline's runtime and NumPy; the CPU build, which every machine can install."""
    from importlib.metadata import version

    import onnxruntime

    return [f"onnxruntime=={onnxruntime.__version__}", f"numpy=={version('numpy')}"]


def _list_bundle_packages(bundle: Path) -> list[str]:
    """Return requirements for the packages that the bundle's manifest names."""
    from orun.core.serialization import parse_foreign_json
    from orun.stages.release._manifest import MANIFEST, list_requirements

    named = list_requirements(parse_foreign_json((bundle / MANIFEST).read_bytes()))
    return [f"{name}=={version}" if version else name for name, version in named.items()]


def _run(context: Context, command: Sequence[str]) -> dict[str, Any]:
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=context.timeout)
    if done.returncode == 0:
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return report
    lines = done.stderr.strip().splitlines()
    last = [*reversed([*takewhile(lambda line: not line.startswith((" ", "Traceback")), reversed(lines))])]
    raise context.failed(
        "the bundle does not work with only its users' packages installed",
        why="\n".join(last) or f"its process ended with {done.returncode} and without a message",
        hint="add the packages that it needs to `requirements`, or make a release that does not need them",
    )
