"""A stage's measurement and the setup that its figures depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orun.core.metrics import further
from orun.core.serialization import Record
from orun.pipeline.model import Stage
from orun.stages.contract import Spec
from orun.store.records import Action

MODELS = frozenset({"onnx", "engine"})
REFERENCE, BASELINE = "reference", "baseline"  # ports of what a model is compared with
SETUP = ("parameter ", "content of ", "read ", "target", "seed")  # how parts begin that say how it was measured


# What differs between two sets of key components of a stage, a sentence each.
Compare = Callable[[Stage, Mapping[str, str], Mapping[str, str]], list[str]]


class Ports(Record, frozen=True):
    """The inputs of a stage by what they are for.

    Attributes:
        model: the port of the model that it measures; the primary one where none takes a model; empty without inputs.
        further: ports of what else is measured with it: a tokenizer, a second model.
        data: ports of what it is measured on.
        references: ports of models that it is compared with.
        takes_model: whether it is one: what is measured then does not lie in parameters and data.
    """

    model: str = "model"
    further: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    takes_model: bool = True

    @classmethod
    def of(cls, spec: Spec, stage: Stage) -> Ports:
        """Those of a stage, by what its kind takes there."""
        takes = {port: _types(spec, port) for port in stage.needs}
        model = next((port for port, types in takes.items() if types & MODELS), next(iter(takes), ""))
        references = tuple(filter(_is_reference, takes))
        apart = {model, BASELINE, *references}
        others = {port: types for port, types in takes.items() if port not in apart}
        data = tuple(port for port, types in others.items() if types == {"dataset"})
        rest = tuple(port for port in others if port not in data)
        return cls(model, rest, data, references, takes_model=bool(takes.get(model, set()) & MODELS))

    def measured(self, action: Action) -> str:
        """Digest of the model that a stage measured; empty when it has none."""
        return action.parts.get(f"input {self.model}", "")

    def beside(self, action: Action) -> dict[str, str]:
        """Digests of what else was measured with it, by port."""
        return {port: action.parts[f"input {port}"] for port in self.further if f"input {port}" in action.parts}

    def setup(self, action: Action) -> dict[str, str]:
        """The parameters, the target, the data and the references that figures are of, named as in `Action.inputs`."""
        if not self.takes_model:
            return {}
        names = SETUP + tuple(f"input {port}" for port in (*self.data, *self.references))
        return {name: text for name, text in sorted(action.inputs.items()) if name.startswith(names)}


def without_references(setup: Mapping[str, str]) -> dict[str, str]:
    """A setup without the references: what figures hang on that are not of what lies between two models."""
    return {name: text for name, text in setup.items() if not _is_reference(name.removeprefix("input "))}


def _is_reference(port: str) -> bool:
    return port == REFERENCE or bool(further(port))


def _types(spec: Spec, port: str) -> set[str]:
    """What an input takes: `reference.fused` as `reference` does."""
    declared = spec.inputs.get(port.partition(".")[0])
    return set(declared.accepts) if declared else set()


def changes(compare: Compare, stage: Stage, then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What of a setup is not as it was, one sentence each; a parameter that came since, as of a later orun, is none."""
    differing = {name: text for name, text in then.items() if text != now.get(name)}
    return compare(stage, differing, {name: now[name] for name in differing if name in now}) if differing else []
