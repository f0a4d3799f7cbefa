"""Python code of a model card that runs the model: with its session settings and libraries of operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orun.core.targets import GPU_PROVIDERS, Provider
from orun.measure.extension_operators import DOMAINS
from orun.measure.session_options import ATTRIBUTES, ENUMS
from orun.stages._graph.io import list_input_names

if TYPE_CHECKING:
    from onnx import ModelProto

    from orun.measure.session_settings import SessionSettings

CPU = (Provider("CPUExecutionProvider"),)


def format_usage(model: ModelProto, settings: Sequence[SessionSettings]) -> str:
    """Return a block of code that opens a session of the model and runs it, with the settings for the first target."""
    extended = any(item.domain in DOMAINS for item in model.opset_import)
    chosen = settings[0] if settings else None
    lines = list(_format_options(extended=extended, session=chosen.session if chosen else {}))
    providers = ", ".join(map(_format_provider, chosen.providers if chosen else CPU))
    arguments = f'"model.onnx", {"options, " if lines else ""}providers=[{providers}]'
    feeds = ", ".join(f'"{name}": ...' for name in list_input_names(model))
    imports = ["import onnxruntime", *(["import onnxruntime_extensions"] if extended else [])]
    on_gpu = any(provider.name in GPU_PROVIDERS for provider in (chosen.providers if chosen else CPU))
    code = [
        *imports,
        "",
        *(["onnxruntime.preload_dlls()  # CUDA's libraries that pip has installed"] if on_gpu else []),
        *lines,
        f"session = onnxruntime.InferenceSession({arguments})",
        f"outputs = session.run(None, {{{feeds}}})",
    ]
    return "\n".join(["```python", *code, "```"])


def _format_options(*, extended: bool, session: Mapping[str, Any]) -> Iterator[str]:
    if extended or session:
        yield "options = onnxruntime.SessionOptions()"
    if extended:
        yield "options.register_custom_ops_library(onnxruntime_extensions.get_library_path())"
    for name, value in session.items():
        if name in ENUMS:
            kind, members = ENUMS[name]
            yield f"options.{name} = onnxruntime.{kind}.{members[value]}"
        elif name in ATTRIBUTES:
            yield f"options.{name} = {value!r}"
        else:
            text = str(int(value)) if isinstance(value, bool) else str(value)
            yield f'options.add_session_config_entry("{name}", "{text}")'


def _format_provider(provider: Provider) -> str:
    return f'("{provider.name}", {dict(provider.options)!r})' if provider.options else f'"{provider.name}"'
