"""Provider by provider: how a model is compiled beforehand, and which folders of its own the provider writes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.core.serialization import replace
from orun.core.targets import Provider, Target
from orun.errors import StageFailed, UsageError
from orun.measure.engines import Engine, Form, write
from orun.measure.plugins import CPU, OPENVINO, add_plugins, available, make_session, plugged
from orun.measure.session import session_options
from orun.stages._data.source import Examples
from orun.stages._graph.input_domain import Declarations
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

    from orun.stages._graph.feeds import Case

CACHE = "cache"  # the provider's folder in the artifact


@dataclass(frozen=True)
class Caching:
    """How a provider keeps what it compiled.

    Attributes:
        paths: its options that name the folder of the cache.
        options: those that switch the cache on.
    """

    paths: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


CACHES: Mapping[str, Caching] = {
    OPENVINO: Caching(("cache_dir",)),
    "TensorrtExecutionProvider": Caching(
        ("trt_engine_cache_path", "trt_timing_cache_path"),
        {"trt_engine_cache_enable": "true", "trt_timing_cache_enable": "true"},
    ),
    "NvTensorRTRTXExecutionProvider": Caching(("nv_runtime_cache_path",)),
    "CoreMLExecutionProvider": Caching(("ModelCacheDirectory",)),
    "MIGraphXExecutionProvider": Caching(("migraphx_model_cache_dir",)),
}
# Providers with EPContext nodes. Of TensorRT the engine goes beside the model that names it.
CONTEXTS: Mapping[str, Mapping[str, str]] = {
    OPENVINO: {},
    "QNNExecutionProvider": {},
    "TensorrtExecutionProvider": {"trt_engine_cache_enable": "true", "trt_engine_cache_path": "."},
    "NvTensorRTRTXExecutionProvider": {},
    "VitisAIExecutionProvider": {},
    "MIGraphXExecutionProvider": {},
}
PLUG_IN = "the plug-in onnxruntime-ep-openvino keeps what it compiled, for CPUs of Intel"
# The stage gives these itself.
OWN = ("trt_dump_ep_context_model", "trt_ep_context_file_path", "trt_ep_context_embed_mode")


def chosen_form(context: Context, wanted: Literal["auto", "context", "cache"]) -> Form:
    """The form that the provider of the target can be had in.

    Raises:
        StageFailed: when it has none, or not the one that is wanted.
    """
    name = compiler(context).name
    there: list[Form] = []
    if name in CONTEXTS and not _lost_contexts(name):
        there.append("context")
    if name in CACHES and not plugged(name):
        there.append("cache")
    if not there:
        raise StageFailed(
            context.stage,
            f"{name} compiles nothing beforehand that ONNX Runtime could keep",
            hint=f"name a target whose first provider is one of {', '.join(sorted({*CONTEXTS, *CACHES}))}",
        )
    if wanted != "auto" and wanted not in there:
        raise StageFailed(
            context.stage,
            f"{name} has no form {wanted!r} here",
            why=_lost_contexts(name) if wanted == "context" and name in CONTEXTS else "",
            hint=f"`form: {there[0]}`",
        )
    return there[0] if wanted == "auto" else wanted


def compiler(context: Context) -> Provider:
    """The provider that compiles: the first of the target."""
    target = context.target or Target("cpu")
    return target.providers[0]


def _lost_contexts(name: str) -> str:
    """Why this build cannot read back what it writes as EPContext nodes; empty when it can."""
    # onnxruntime-openvino 1.24.1 writes them, with and without `embed`, and ends with EP_FAIL "Unhandled exception
    # type: 1" when it opens them in a new process, on the CPU, for every model that was tried; the plug-in reads its own.
    if name == OPENVINO and not plugged(name):
        return f"onnxruntime-openvino writes EPContext models of the CPU that it cannot open; {PLUG_IN}"
    return ""


def compile_model(context: Context, form: Form, *, embed: bool) -> Engine:
    """Compile the input model into the output folder.

    Raises:
        StageFailed: when the provider cannot, or takes nothing of the model.
    """
    import onnxruntime

    target, provider = context.target or Target("cpu"), compiler(context)
    caching = CACHES.get(provider.name, Caching(()))
    given = sorted({*caching.paths, *OWN} & provider.options.keys())
    if given:
        raise StageFailed(
            context.stage,
            f"target {target.name!r} sets {', '.join(given)}, which compile/engine gives {provider.name} itself",
            hint="leave it out of the target: the artifact holds what it names",
        )
    if provider.name not in available():
        raise UsageError(f"{provider.name} is not in this build of ONNX Runtime", hint="orun doctor")
    try:
        engine = _compile_context(context, target, embed=embed) if form == "context" else _fill_cache(context, target)
    except (StageFailed, UsageError):
        raise
    except Exception as error:  # the errors of ONNX Runtime share no base class but this
        why = "\n".join(str(error).strip().splitlines()[:3])
        raise StageFailed(context.stage, f"{provider.name} cannot compile the model", why=why) from error
    made = Engine(provider.name, form, onnxruntime.__version__, *engine)
    write(context.output, made)
    return made


def _compile_context(context: Context, target: Target, *, embed: bool) -> tuple[dict[str, str], dict[str, str]]:
    import onnxruntime

    options = session_options(target)
    own = CONTEXTS[target.providers[0].name]
    first = replace(target.providers[0], options={**target.providers[0].options, **own})
    _add(options, [first, *target.providers[1:]])
    made = onnxruntime.ModelCompiler(
        options,
        str(context.model()),
        embed_compiled_data_into_model=embed,
        flags=onnxruntime.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED,
    )
    made.compile_to_file(str(context.result))
    return {}, {}


def _add(options: SessionOptions, providers: Sequence[Provider]) -> None:
    """Add providers to session options; the CPU is behind them in any case."""
    if not add_plugins(options, providers):
        for provider in providers:
            if provider.name != CPU:
                options.add_provider(provider.name, dict(provider.options))


def _fill_cache(context: Context, target: Target) -> tuple[dict[str, str], dict[str, str]]:
    """Have the provider fill a cache in the artifact, and keep the model beside it."""
    provider = target.providers[0]
    caching, folder = CACHES[provider.name], context.output / CACHE
    folder.mkdir()
    for file in context.inputs["model"].iterdir():
        shutil.copyfile(file, context.output / file.name)
    paths = {name: str(folder) for name in caching.paths}
    first = replace(provider, options={**provider.options, **paths, **caching.options})
    made = make_session(context.result, session_options(target), [first, *target.providers[1:]])
    if provider.name not in made.get_providers():
        raise StageFailed(
            context.stage,
            f"{provider.name} did not load",
            why="a library or device that it needs is not on this machine; ONNX Runtime's own message is in the log",
            hint="orun doctor",
        )
    del made
    if not any(folder.iterdir()):
        raise StageFailed(
            context.stage,
            f"{provider.name} left nothing in its cache",
            why="it takes no part of the model, or this version keeps nothing of it",
            hint="see which nodes it takes: check/coverage",
        )
    return dict.fromkeys(caching.paths, CACHE), dict(caching.options)


def tries(
    context: Context, dims: Mapping[str, Sequence[int]], inputs: Examples | Declarations | None
) -> tuple[Case, ...]:
    """What both models are fed."""
    from orun.stages._graph.agreement import Trial, tries_for
    from orun.stages._graph.io import load_graph

    return tries_for(context, load_graph(context.model()), Trial(dims, inputs))


def stored(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Size, inode and time (nanoseconds) of every file below a folder, by its path there: of one written anew, too."""
    found = {str(path.relative_to(folder)): path.stat() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: (one.st_size, one.st_ino, one.st_mtime_ns) for name, one in found.items()}
