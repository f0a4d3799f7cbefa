"""One way to make a model cheaper, and where it then runs."""

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
    """A candidate.

    Attributes:
        method: the kind that makes it, `float` for none.
        options: parameters of that kind, sorted by name.
        place: which variant of the target it runs on, by the name that `places` gives it.
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
        """For people: `dynamic (per_channel=true), fused, 3 groups kept, on cpu`."""
        told = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.options)
        parts = [f"{self.method} ({told})" if told else self.method]
        parts += ["fused"] if self.fused else []
        parts += [f"{self.kept} groups kept"] if self.kept else []
        return f"{', '.join(parts)}, on {self.place}"

    @property
    def recipe(self) -> Settings:
        """The same with nothing kept: a single recipe of the library."""
        return replace(self, kept=0)


def settings(method: Method, place: str = "cpu", *, fused: bool = False, **options: Any) -> Settings:
    """Settings with their options in order."""
    told = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return Settings(method, tuple(sorted(told.items())), place, fused)


def places(target: Target) -> dict[str, Target]:
    """The ways in which a model can run on a target: as it says, on its CPU alone, and in each precision of OpenVINO.

    OpenVINO's precision on a CPU is a hint of the session, not a property of the model; it is varied unless the target
    sets it.
    """
    if target.providers[0].name == CPU:
        return {"cpu": target}
    found = dict(_precisions(target)) or {_short(target): target}
    if any(provider.name == CPU for provider in target.providers):
        alone = replace(target, providers=(Provider(CPU),), fallback="allow")
        found["cpu"] = replace(alone, environment=None, interpreter=None)
    return found


def _short(target: Target) -> str:
    return target.providers[0].name.removesuffix("ExecutionProvider").lower()


def _precisions(target: Target) -> Iterator[tuple[str, Target]]:
    first, *others = target.providers
    device = first.options.get("device_type", "CPU")
    config: dict[str, dict[str, str]] = json.loads(first.options.get("load_config", "{}"))
    if first.name != OPENVINO or device != "CPU" or HINT in config.get("CPU", {}):
        return
    for precision in PRECISIONS:
        told = {**config, "CPU": {**config.get("CPU", {}), HINT: precision}}
        options = {**first.options, "load_config": json.dumps(told, sort_keys=True)}
        yield f"openvino {precision}", replace(target, providers=(replace(first, options=options), *others))


def recipes(
    where: Sequence[str], operators: Collection[str], *, calibrated: bool, fusable: bool, saturates: bool = False
) -> list[Settings]:
    """The single recipes of the library that are worth a try on these places, those first that are quickly made.

    Args:
        where: names of places.
        operators: types of the model's operators.
        calibrated: whether there is a dataset to calibrate with.
        fusable: whether fused variants are to be tried.
        saturates: whether the processor's 8-bit sums are cut off, so that weights of 7 bits may be more accurate.
    """
    here = [place for place in where if place == "cpu" or place.startswith("openvino")]  # on the processor
    found = [settings("float", place) for place in where]
    if "cpu" in where:
        found += [settings("dynamic", per_channel=False), settings("dynamic", per_channel=True)]
        found += [settings("dynamic", per_channel=True, reduce_range=True)] if saturates else []
        found += [settings("weights", bits=8, block_size=128, accuracy_level=4)] if "MatMul" in operators else []
        found += [settings("weights", bits=4, block_size=32, accuracy_level=4)] if "MatMul" in operators else []
    if fusable:
        found += [settings("float", place, fused=True) for place in here]
        found += [settings("dynamic", fused=True, per_channel=True)] if "cpu" in where else []
    linear = [name for name in LINEAR if name in operators]
    if calibrated and linear:  # what is left in float there is computed in the place's precision
        for fused in (False, True) if fusable else (False,):
            static = partial(settings, "static", fused=fused, per_channel=True, op_types=linear)
            found += [static(place=place) for place in here]
            found += [static(reduce_range=True)] if saturates and "cpu" in where else []
    return found
