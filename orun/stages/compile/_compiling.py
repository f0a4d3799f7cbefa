"""Ahead-of-time compilation by provider: the forms that each has, and the folders that it writes."""

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
from orun.measure.extension_operators import add_extensions
from orun.measure.plugins import CPU, OPENVINO, add_plugins, is_plugin, list_available, make_session
from orun.measure.session_options import build_session_options
from orun.stages.contract import Context
from orun.text.library_messages import shorten_message

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

CACHE = "cache"  # the provider's folder in the artifact


@dataclass(frozen=True)
class Caching:
    """Provider options of a cache of compiled models.

    Attributes:
        paths: options that name the folder of the cache.
        options: options that switch the cache on.
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
# Providers with EPContext nodes. TensorRT writes its engine beside the model that names it.
CONTEXTS: Mapping[str, Mapping[str, str]] = {
    OPENVINO: {},
    "QNNExecutionProvider": {},
    "TensorrtExecutionProvider": {"trt_engine_cache_enable": "true", "trt_engine_cache_path": "."},
    "NvTensorRTRTXExecutionProvider": {},
    "VitisAIExecutionProvider": {},
    "MIGraphXExecutionProvider": {},
}
PLUG_IN = "the plug-in onnxruntime-ep-openvino keeps what it compiled, for CPUs of Intel"
# Options that the stage sets itself.
OWN_OPTIONS = ("trt_dump_ep_context_model", "trt_ep_context_file_path", "trt_ep_context_embed_mode")


def choose_form(context: Context, wanted: Literal["auto", "context", "cache"]) -> Form:
    """Return the form in which the provider of the target keeps a compiled model.

    Raises:
        StageFailed: when it has none, or lacks the wanted form.
    """
    provider = context.model_target.providers[0]
    name = provider.name
    forms: list[Form] = []
    if name in CONTEXTS and not _find_context_problem(provider):
        forms.append("context")
    if name in CACHES and not is_plugin(provider):
        forms.append("cache")
    if not forms:
        raise context.failed(
            f"{name} compiles nothing beforehand that ONNX Runtime could keep",
            hint=f"name a target whose first provider is one of {', '.join(sorted({*CONTEXTS, *CACHES}))}",
        )
    if wanted != "auto" and wanted not in forms:
        raise context.failed(
            f"{name} has no form {wanted!r} here",
            why=_find_context_problem(provider) if wanted == "context" and name in CONTEXTS else "",
            hint=f"`form: {forms[0]}`",
        )
    return forms[0] if wanted == "auto" else wanted


def _find_context_problem(provider: Provider) -> str:
    """Return why this build cannot read back the EPContext nodes that it writes; empty when it can."""
    # onnxruntime-openvino 1.24.1 writes them, with and without `embed`, and ends with EP_FAIL "Unhandled exception
    # type: 1" when it opens them in a new process, on the CPU, for every model that was tried; the plug-in reads its own.
    if provider.name == OPENVINO and not is_plugin(provider):
        return f"onnxruntime-openvino writes EPContext models of the CPU that it cannot open; {PLUG_IN}"
    return ""


def compile_model(context: Context, form: Form, *, embed: bool) -> Engine:
    """Compile the input model into the output folder.

    Raises:
        StageFailed: when the provider fails, or takes no node of the model.
    """
    import onnxruntime

    target = context.model_target
    provider = target.providers[0]
    caching = CACHES.get(provider.name, Caching(()))
    clashing = sorted({*caching.paths, *OWN_OPTIONS} & provider.options.keys())
    if clashing:
        raise context.failed(
            f"target {target.name!r} sets {', '.join(clashing)}, which compile/engine gives {provider.name} itself",
            hint="leave it out of the target: the artifact holds what it names",
        )
    if provider.name not in list_available() and not is_plugin(provider):
        raise UsageError(f"{provider.name} is not in this build of ONNX Runtime", hint="orun doctor")
    try:
        options = _compile_context(context, target, embed=embed) if form == "context" else _fill_cache(context, target)
    except (StageFailed, UsageError):
        raise
    except Exception as error:  # the errors of ONNX Runtime share no base class but this
        why = shorten_message(str(error))
        raise context.failed(f"{provider.name} cannot compile the model", why=why) from error
    engine = Engine(provider.name, form, onnxruntime.__version__, *options)
    write(context.output, engine)
    return engine


def _compile_context(context: Context, target: Target, *, embed: bool) -> tuple[dict[str, str], dict[str, str]]:
    import onnxruntime

    options = build_session_options(add_extensions(context.model(), target))
    own = CONTEXTS[target.providers[0].name]
    first = replace(target.providers[0], options={**target.providers[0].options, **own})
    _add_providers(options, [first, *target.providers[1:]])
    compilation = onnxruntime.ModelCompiler(
        options,
        str(context.model()),
        embed_compiled_data_into_model=embed,
        flags=onnxruntime.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED,
    )
    compilation.compile_to_file(str(context.result))
    return {}, {}


def _add_providers(options: SessionOptions, providers: Sequence[Provider]) -> None:
    """Add providers to session options; ONNX Runtime adds the CPU itself."""
    if not add_plugins(options, providers):
        for provider in providers:
            if provider.name != CPU:
                options.add_provider(provider.name, dict(provider.options))


def _fill_cache(context: Context, target: Target) -> tuple[dict[str, str], dict[str, str]]:
    """Let the provider fill a cache in the output folder; copy the model beside it. Return paths and options."""
    provider = target.providers[0]
    caching, folder = CACHES[provider.name], context.output / CACHE
    folder.mkdir()
    for file in context.inputs["model"].iterdir():
        shutil.copyfile(file, context.output / file.name)
    paths = {name: str(folder) for name in caching.paths}
    first = replace(provider, options={**provider.options, **paths, **caching.options})
    options = build_session_options(add_extensions(context.result, target))
    session = make_session(context.result, options, [first, *target.providers[1:]])
    if provider.name not in session.get_providers():
        raise context.failed(
            f"{provider.name} did not load",
            why="a library or device that it needs is not on this machine; ONNX Runtime's own message is in the log",
            hint="orun doctor",
        )
    del session
    if not any(folder.iterdir()):
        raise context.failed(
            f"{provider.name} left nothing in its cache",
            why="it takes no part of the model, or this version keeps nothing of it",
            hint="see which nodes it takes: check/coverage",
        )
    return dict.fromkeys(caching.paths, CACHE), dict(caching.options)


def list_file_states(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return size, inode and time (nanoseconds) of every file below a folder, by its path there."""
    states = {str(path.relative_to(folder)): path.stat() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: (state.st_size, state.st_ino, state.st_mtime_ns) for name, state in states.items()}
