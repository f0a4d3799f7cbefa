"""Open a released bundle the way its users will: a fresh process with ONNX Runtime alone, that answers.

An isolated environment is made with the packages of `requirements`, once for the machine. A process of its interpreter,
which can import neither orun nor any framework, checks the SHA-256 of every file against the manifest, opens
`model.onnx` from the bundle, and runs inputs of several shapes. Its answers must be those of the runtime that the
pipeline uses, within the tolerance. So a release is caught that needs a package nobody said, a file that was not
bundled, or a newer runtime than its users have: name that of your users in `requirements`. Of a bundle with several
models each is opened, unless `model` names one.

The artifact is `serve.json`: what was installed there, and what was run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import Metric
from orun.errors import StageFailed, UnknownName
from orun.stages._graph.agreement import Atol, Dims, Inputs, Rtol
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
    metrics=("answers", "max_abs_error", "packages"),
    guards=True,
)


@dataclass(frozen=True)
class Params:
    """What the users of the release have, and what they ask of it."""

    requirements: Annotated[
        list[str],
        Doc("Packages that they install; the ONNX Runtime and NumPy of the pipeline, by version, when left out."),
    ] = field(default_factory=list)
    providers: Annotated[list[str], Doc("Execution providers that they ask for.")] = field(
        default_factory=lambda: ["CPUExecutionProvider"]
    )
    model: Annotated[
        str,
        Doc("Of a bundle with several models, the folder of the only one to open (`encoder`; `.` is the first's)."),
    ] = ""
    dims: Dims = field(default_factory=dict)
    inputs: Inputs = None
    atol: Atol = 1e-4
    rtol: Rtol = 1e-3


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Run the bundle there and here, and compare."""
    _require_providers(context, params.providers)
    errors: list[Metric] = []
    told: dict[str, Any] = {"answers": {}}
    for name in _models(context, params):
        answers, error, environment = _checked(context, params, name)
        told |= environment
        told["answers"][f"{name}/{MODEL}".removeprefix("./")] = answers
        errors.append(error)
    (context.output / "serve.json").write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", "utf-8")
    return {
        "answers": Metric(sum(told["answers"].values())),
        "max_abs_error": max(errors, key=lambda error: error.value),
        "packages": Metric(len(told["packages"]), better="lower"),
    }


def _models(context: Context, params: Params) -> list[str]:
    """The folders, in the bundle, of the models to open."""
    bundle = context.inputs["bundle"]
    known = [".", *sorted(path.parent.name for path in bundle.glob(f"*/{MODEL}"))]
    if params.model and params.model not in known:
        has = f"beside its first it has {', '.join(known[1:])}" if known[1:] else "it has one, which need not be named"
        raise StageFailed(context.stage, f"model: the bundle has no {params.model!r}", why=has)
    given = [name for name in ("dims", "inputs") if getattr(params, name)]
    if given and known[1:] and not params.model:
        raise StageFailed(
            context.stage,
            f"{given[0]}: they are of one model, and the bundle has {len(known)}",
            hint=f"say of which in `model`: {', '.join(known)}; a stage for each checks all",
        )
    return [params.model] if params.model else known


def _checked(context: Context, params: Params, name: str) -> tuple[int, Metric, dict[str, Any]]:
    """How many answers of a model were compared, their largest error, and what the process of a user said."""
    import numpy as np

    from orun.stages._graph.agreement import Agreement, Trial, check, load_cases, run_cases
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.limits import limits_of
    from orun.stages._graph.sessions import session

    folder = context.inputs["bundle"] / name
    model = load_graph(folder / MODEL)
    _require_tensors(context, model)
    outputs = [output.name for output in model.graph.output]
    tries = load_cases(replace(context, inputs={"model": folder}), model, Trial(params.dims, params.inputs))
    here = run_cases(context, "the model", session(folder / MODEL, outputs), tries)
    there, told = _served(context, params, name, tries, outputs)
    agreement = Agreement(
        "the model as it is served", "the model in the pipeline", outputs, Tolerance(params.atol, params.rtol), ""
    )
    given = iter(there)
    limits = limits_of(context, folder / MODEL, outputs, None)
    worst = check(context, agreement, tries, here, lambda _: [np.asarray(value) for value in next(given)], limits)
    return len(tries), worst, told


def _require_providers(context: Context, names: Sequence[str]) -> None:
    """Refuse providers that ONNX Runtime does not have, before an environment is made."""
    from orun.providers.registry import provider_options

    if not names:
        raise StageFailed(context.stage, "`providers` is empty", hint="leave it out for the CPU")
    for name in names:
        if name not in provider_options():
            what = f"ONNX Runtime has no provider {name!r}"
            raise UnknownName(what, name, tuple(provider_options()), why=f"it has {', '.join(provider_options())}")


def _require_tensors(context: Context, model: ModelProto) -> None:
    """Refuse outputs whose values no file of arrays can hold."""
    if others := [value.name for value in model.graph.output if not value.type.HasField("tensor_type")]:
        raise StageFailed(
            context.stage,
            f"what is served as {', '.join(others)} cannot be compared: it is no tensor",
            hint="of a classifier from `convert/sklearn`: `zipmap: false`, which makes an array of its probabilities",
        )


def _served(
    context: Context, params: Params, model: str, tries: Sequence[Case], outputs: Sequence[str]
) -> tuple[list[list[Any]], dict[str, Any]]:
    """The answers of the process of a user, and what it said of itself."""
    import numpy as np

    from orun.core.targets import Environment
    from orun.environment import venv_builder, venvs
    from orun.stages.release import _serving

    environment = Environment("of the users of the release", tuple(params.requirements or _installed()))
    venv_builder.make(environment, context.log.info)
    python = venvs.python(venvs.folder_of(environment))
    asked, answered = Path("asked.npz"), Path("answered.npz")
    fed = {
        f"{number}/{name}": value.astype(np.str_) if value.dtype == object else value  # texts, without pickle
        for number, case in enumerate(tries)
        for name, value in case.feed.items()
    }
    np.savez(asked, **fed)  # type: ignore[arg-type]  # arrays by name, none of them called `file`
    given = (Path(_serving.__file__), context.inputs["bundle"], model, asked, answered)
    told = _run(context, [str(python), "-I", *map(str, given), *params.providers])
    with np.load(answered) as found:
        values = [[_given(found[f"{number}/{name}"]) for name in outputs] for number in range(len(tries))]
    made = venvs.packages(environment) or {}
    return values, {**told, "packages": dict(made)}


def _given(value: NDArray[Any]) -> NDArray[Any]:
    """A value as ONNX Runtime gives it: texts as objects."""
    return value.astype(object) if value.dtype.kind == "U" else value


def _installed() -> list[str]:
    """The runtime and NumPy of the pipeline, as requirements; the plain runtime, which every machine can install."""
    from importlib.metadata import version

    import onnxruntime

    return [f"onnxruntime=={onnxruntime.__version__}", f"numpy=={version('numpy')}"]


def _run(context: Context, command: Sequence[str]) -> dict[str, Any]:
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=context.timeout)
    if done.returncode == 0:
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told
    said = done.stderr.strip().splitlines()
    last = [*reversed([*takewhile(lambda line: not line.startswith((" ", "Traceback")), reversed(said))])]
    raise StageFailed(
        context.stage,
        "the bundle does not work where only its users' packages are installed",
        why="\n".join(last) or f"its process ended with {done.returncode} and said nothing",
        hint="add what it needs to `requirements`, or make a release that does not need it",
    )
