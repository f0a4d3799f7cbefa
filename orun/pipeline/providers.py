"""Execution providers that a pipeline file may name: orun's own, and those that packages declare.

A package declares a `ProviderSpec` under the entry point group `orun.providers`. It is imported when a target names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from orun.core.serialization import decode, encode, replace
from orun.environment.distributions import normalize
from orun.environment.entry_points import Group, name_package
from orun.pipeline.nodes import List, Map, Scalar, Span
from orun.pipeline.problems import Problems
from orun.providers.registry import PROVIDERS
from orun.providers.spec import ProviderSpec
from orun.text.suggestions import Unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SPECS = Group("orun.providers", "provider")


def list_known_providers(targets: Map, problems: Problems) -> Mapping[str, ProviderSpec]:
    """Return every provider by its name; one of a package that is broken or not named without its declaration."""
    foreign = {name: span for name, span in _list_names(targets) if name not in PROVIDERS}
    if not foreign:
        return PROVIDERS
    offered = SPECS.find()
    specs = {**PROVIDERS, **{name: ProviderSpec() for name in offered if name not in PROVIDERS}}
    for name in foreign.keys() & offered.keys():
        try:
            specs[name] = _load(offered[name])
        except Unknown as error:
            problems.add(foreign[name], error.problem, expected=error.expected, hint=error.hint)
    return specs


def list_installed_providers() -> Mapping[str, ProviderSpec]:
    """Return every provider by its name, with the declarations of all packages that are not broken."""
    specs = dict(PROVIDERS)
    for name, points in SPECS.find().items():
        try:
            specs.setdefault(name, _load(points))
        except Unknown:
            continue
    return specs


def _list_names(targets: Map) -> Iterator[tuple[str, Span]]:
    """Yield the providers that targets name, but for those in a library of the project."""
    for entry in targets.entries.values():
        listed = entry.value.get("providers") if isinstance(entry.value, Map) else None
        for item in listed.items if isinstance(listed, List) else ():
            if isinstance(item, Scalar):
                yield item.text, item.span
            elif isinstance(item, Map) and len(item.entries) == 1:
                yield from ((name, inner.key) for name, inner in item.entries.items())


def _load(points: tuple[EntryPoint, ...]) -> ProviderSpec:
    """Return the declaration of a package, with its own version among those of libraries; raise Unknown if broken."""
    point, spec = points[0], SPECS.load(points)
    if not isinstance(spec, ProviderSpec):
        raise SPECS.build_broken_error(point, f"{point.value} is not an orun.providers.spec.ProviderSpec")
    try:
        spec = decode(ProviderSpec, encode(spec))
    except (ValueError, TypeError) as error:
        raise SPECS.build_broken_error(point, f"{point.value}: {error}") from error
    libraries = dict.fromkeys(map(normalize, (*spec.libraries, name_package(point))))
    return replace(spec, libraries=tuple(libraries), module=point.module)
