"""Targets of a pipeline file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path as FilePath
from typing import Any, cast

from orun.core.serialization import replace
from orun.core.targets import EXTENSIONS, Environment, Provider, Target
from orun.pipeline.environments import KEY, Environments
from orun.pipeline.files import add_missing
from orun.pipeline.grammar import TargetKeys
from orun.pipeline.nodes import List, Map, Node, Path, Scalar, Span
from orun.pipeline.placement import RUNS_ON
from orun.pipeline.problems import Problems
from orun.pipeline.values import localize
from orun.providers.registry import PROVIDERS
from orun.providers.session_entries import SESSION_ENTRIES
from orun.providers.spec import OptionType, ProviderSpec
from orun.stages.params import list_params
from orun.text.suggestions import find_closest, find_misspelt
from orun.text.units import SIZE_FORM, parse_size

PROFILED = "session.enable_profiling"
ARENA = "cpu_arena"
DEFAULT = "cpu"  # predefined
LIBRARY = "library"
SHARED_LIBRARIES = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")  # Linux, Windows, macOS twice


def read_targets(
    declared: Map,
    specs: Mapping[str, ProviderSpec],
    environments: Environments,
    root: FilePath,
    unsound: Collection[Path],
    problems: Problems,
) -> dict[str, Target]:
    """Return every target by name."""
    targets_by_name = {DEFAULT: Target(DEFAULT)}
    for name, entry in declared.entries.items():
        path = ("targets", name)
        sound = not any(wrong[:2] == path for wrong in unsound)
        if sound and isinstance(entry.value, Map):
            target = _parse_target(name, entry.value, specs, environments.find(entry.value.get(KEY)), root, problems)
            targets_by_name[name] = _locate_libraries(target, entry.value, root, problems)
        else:
            targets_by_name[name] = Target(name)
    return targets_by_name


def _parse_target(
    name: str,
    node: Map,
    specs: Mapping[str, ProviderSpec],
    environment: Environment | None,
    root: FilePath,
    problems: Problems,
) -> Target:
    providers = [_parse_provider(item, specs, root, problems) for item in node.list_items("providers")]
    for number, (provider, span) in enumerate(providers):
        if provider.name in [other.name for other, _ in providers[:number]]:
            problems.add(span, f"{provider.name} is named twice", expected="each provider once")
    keys = {
        param.name: cast("Scalar", node.get(param.name)).text
        for param in list_params(TargetKeys)
        if node.get(param.name) and param.name not in (KEY, RUNS_ON)
    }
    options = node.map("session").entries
    for key, entry in options.items():
        if key == PROFILED:
            from orun.text.aliases import note  # lazy: only mistakes need it

            problems.add(entry.key, f"{key!r} cannot be set", hint=note("enable_profiling", "session option"))
        elif "." in key and (meant := find_misspelt(key, SESSION_ENTRIES)):
            problems.add(entry.key, f"'{key}' is not a configuration entry of a session", suggestion=meant)
    session = {
        key: _parse_arena(entry.value, problems)
        if key == ARENA and isinstance(entry.value, Map)
        else _parse_option(key, entry.value)
        for key, entry in options.items()
    }
    return Target(
        name, tuple(provider for provider, _ in providers), session, environment=environment, **cast("Any", keys)
    )


def _parse_provider(
    node: Node, specs: Mapping[str, ProviderSpec], root: FilePath, problems: Problems
) -> tuple[Provider, Span]:
    if not isinstance(node, Map):
        named = cast("Scalar", node)
        return Provider(named.text, spec=_find_declaration(named.text, specs)), named.span
    if LIBRARY in node.entries:
        written, label = node.get(LIBRARY), node.get("name")  # the schema reports a missing name
        library = _parse_library(written, root, problems) if isinstance(written, Scalar) else ""
        name = label.text if isinstance(label, Scalar) else ""
        return Provider(name, _parse_provider_options(specs.get(name), node.get("options")), library), (
            label or node
        ).span
    name, entry = next(iter(node.entries.items()))
    return Provider(
        name, _parse_provider_options(specs.get(name), entry.value), spec=_find_declaration(name, specs)
    ), entry.key


def _find_declaration(name: str, specs: Mapping[str, ProviderSpec]) -> ProviderSpec | None:
    """Return what a package declares of a provider; None for one that orun knows, or nobody."""
    return None if name in PROVIDERS else specs.get(name)


def _parse_provider_options(spec: ProviderSpec | None, node: Node | None) -> dict[str, str]:
    options = node.entries if isinstance(node, Map) else {}
    known = (spec and spec.options) or {}  # the schema reports unknown providers
    return {
        key: _format_option(entry.value, known.get(key))
        for key, entry in options.items()
        if isinstance(entry.value, Scalar)  # the value of an unknown option may be anything
    }


def _parse_library(node: Scalar, root: FilePath, problems: Problems) -> str:
    """Return the path of a plug-in relative to `root`; note a file that is missing or no library."""
    written = localize(node, root)
    path = root / written
    if not path.is_file():
        expected = "the file of a plug-in of ONNX Runtime, relative to the pipeline file"
        add_missing(problems, node, path, f"there is no library {node.text!r}", expected)
    elif problem := _explain_no_library(path):
        problems.add(
            node.span,
            f"{node.text!r} {problem}",
            expected="a shared library, such as libonnxruntime_providers_qnn.so, that exports CreateEpFactories",
        )
    return written


def _explain_no_library(path: FilePath) -> str:
    """Return why a file is no shared library, as the end of a sentence; empty if it begins like one."""
    try:
        with path.open("rb") as file:
            return "" if file.read(4).startswith(SHARED_LIBRARIES) else "is no library"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _format_option(node: Scalar, kind: OptionType | None) -> str:
    if isinstance(node.value, bool):
        return str(int(node.value)) if kind == "flag" else str(node.value).lower()
    return node.text


def _locate_libraries(target: Target, node: Map, root: FilePath, problems: Problems) -> Target:
    """Return the target with its custom-op libraries relative to `root`; missing ones are noted."""
    listed = node.map("session").get("custom_op_libraries")
    if not isinstance(listed, List):
        return target
    named = []
    for item in listed.items:
        written = cast("Scalar", item)
        named.append(written.text if written.text == EXTENSIONS else localize(written, root))
        if named[-1] != EXTENSIONS and not (root / named[-1]).is_file():
            problems.add(
                written.span,
                f"there is no library of custom operators {written.text!r}",
                expected=f"the path of a file, relative to the pipeline file, or {EXTENSIONS}",
                suggestion=find_closest(written.text, [EXTENSIONS]),
            )
    return replace(target, session={**target.session, "custom_op_libraries": named})


def _parse_arena(node: Map, problems: Problems) -> dict[str, Any]:
    """Return the limits of the CPU memory arena: sizes in bytes, and how it grows."""
    limits: dict[str, Any] = {}
    for key, entry in node.entries.items():
        if not isinstance(entry.value, Scalar):
            continue  # an unknown key, already reported
        text = entry.value.text
        try:
            limits[key] = text if key == "extend" else parse_size(text)
        except ValueError:
            message = f"{key!r} cannot be {text!r}: it is too large"
            problems.add(entry.value.span, message, expected=SIZE_FORM.describe())
    return limits


def _parse_option(name: str, node: Node) -> Any:
    """Return a session option: a whole number as a number, a configuration entry (with a dot in its name) as text.

    The value of an unknown option may be anything; the option is already reported.
    """
    if isinstance(node, List):
        return [item.text for item in node.items if isinstance(item, Scalar)]
    if isinstance(node, Map):
        return {key: _parse_option(key, entry.value) for key, entry in node.entries.items()}
    if "." in name and not isinstance(node.value, bool):
        return node.text
    return int(node.value) if isinstance(node.value, float) and node.value.is_integer() else node.value
