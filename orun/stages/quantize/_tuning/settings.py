"""Settings of a candidate: how the model is made cheaper, and where it runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from orun.core.serialization import replace
from orun.core.targets import Provider, Target
from orun.measure.plugins import CPU, OPENVINO

Method = Literal["float", "dynamic", "static", "weights"]
HINT = "INFERENCE_PRECISION_HINT"
PRECISIONS = ("f32", "bf16")
LINEAR = ("Conv", "Gemm", "MatMul")  # what static quantization makes faster


@dataclass(frozen=True)
class Settings:
    """Settings of a candidate.

    Attributes:
        method: the kind that makes it, `float` for none.
        options: parameters of that kind, sorted by name.
        place: the variant of the target that it runs on, by its name in `list_places`.
        fused: whether its transformer operators are fused first.
        kept: how many of the most harmful groups of nodes stay in float.
    """

    method: Method
    options: tuple[tuple[str, Any], ...] = ()
    place: str = "cpu"
    fused: bool = False
    kept: int = 0

    @property
    def title(self) -> str:
        """Description such as `dynamic (per_channel=true), fused, 3 groups kept, on cpu`."""
        options = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.options)
        parts = [f"{self.method} ({options})" if options else self.method]
        parts += ["fused"] if self.fused else []
        parts += [f"{self.kept} groups kept"] if self.kept else []
        return f"{', '.join(parts)}, on {self.place}"

    @property
    def recipe(self) -> Settings:
        """Settings with no groups kept: a single recipe of the library."""
        return replace(self, kept=0)


def make_settings(method: Method, place: str = "cpu", *, fused: bool = False, **options: Any) -> Settings:
    """Return settings with sorted, hashable options."""
    hashable = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return Settings(method, tuple(sorted(hashable.items())), place, fused)


def list_places(target: Target) -> dict[str, Target]:
    """Return the variants of a target by name: the target itself, its CPU alone, and each precision of OpenVINO.

    OpenVINO's precision on a CPU is a hint of the session, not a property of the model. It is varied unless the target
    sets it.
    """
    first = target.providers[0].name
    if first == CPU:
        return {"cpu": target}
    variants = dict(_iter_precisions(target)) or {first.removesuffix("ExecutionProvider").lower(): target}
    if any(provider.name == CPU for provider in target.providers):
        alone = replace(target, providers=(Provider(CPU),), fallback="allow")
        variants["cpu"] = replace(alone, environment=None, interpreter=None)
    return variants


def _iter_precisions(target: Target) -> Iterator[tuple[str, Target]]:
    first, *rest = target.providers
    device = first.options.get("device_type", "CPU")
    config: dict[str, dict[str, str]] = json.loads(first.options.get("load_config", "{}"))
    if first.name != OPENVINO or device != "CPU" or HINT in config.get("CPU", {}):
        return
    for precision in PRECISIONS:
        hinted = {**config, "CPU": {**config.get("CPU", {}), HINT: precision}}
        options = {**first.options, "load_config": json.dumps(hinted, sort_keys=True)}
        yield f"openvino {precision}", replace(target, providers=(replace(first, options=options), *rest))


def list_recipes(
    names: Sequence[str], operators: Collection[str], *, calibrated: bool, fusable: bool, saturates: bool = False
) -> list[Settings]:
    """Return the single recipes of the library that are worth a trial, quickly made ones first.

    Where the processor's 8-bit sums saturate, weights of 7 bits may be more accurate.
    """
    on_processor = [place for place in names if place == "cpu" or place.startswith("openvino")]
    result = [make_settings("float", place) for place in names]
    if "cpu" in names:
        result += [make_settings("dynamic", per_channel=False), make_settings("dynamic", per_channel=True)]
        result += [make_settings("dynamic", per_channel=True, reduce_range=True)] if saturates else []
        result += [make_settings("weights", bits=8, block_size=128, accuracy_level=4)] if "MatMul" in operators else []
        result += [make_settings("weights", bits=4, block_size=32, accuracy_level=4)] if "MatMul" in operators else []
    if fusable:
        result += [make_settings("float", place, fused=True) for place in on_processor]
        result += [make_settings("dynamic", fused=True, per_channel=True)] if "cpu" in names else []
    linear = [name for name in LINEAR if name in operators]
    if calibrated and linear:
        for fused in (False, True) if fusable else (False,):
            static = partial(make_settings, "static", fused=fused, per_channel=True, op_types=linear)
            result += [static(place=place) for place in on_processor]
            result += [static(reduce_range=True)] if saturates and "cpu" in names else []
    return result
