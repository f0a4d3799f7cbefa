"""A stage's measurement and the setup that its figures depend on."""

from __future__ import annotations

from collections.abc import Callable

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent, find_value, index_by_subject
from orun.core.metrics import parse_extra_reference
from orun.core.reason import Reason
from orun.core.serialization import Record
from orun.pipeline.model import Stage
from orun.stages.contract import Spec
from orun.store.records import Action

MODELS = frozenset({"onnx", "engine"})
REFERENCE, BASELINE = "reference", "baseline"  # ports of what a model is compared with
# Kinds of components that say how it was measured.
SETUP = (
    ComponentKind.PARAMETER,
    ComponentKind.CONTENT,
    ComponentKind.READ,
    ComponentKind.TARGET,
    ComponentKind.SEED,
)

# Returns what differs between two sets of key components of a stage.
Compare = Callable[[Stage, Components, Components], list[Reason]]


class Ports(Record, frozen=True):
    """Inputs of a stage by what they are for.

    Attributes:
        model: the port of the model that it measures; the primary port where none takes a model; empty without inputs.
        companions: ports of what is measured with the model: a tokenizer, a second model.
        data: ports of the data that it is measured on.
        references: ports of models that it is compared with.
        takes_model: whether `model` takes a model. Otherwise parameters and data are what is measured.
    """

    model: str = "model"
    companions: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    takes_model: bool = True

    @classmethod
    def of(cls, spec: Spec, stage: Stage) -> Ports:
        """Return the ports of a stage, by the types that its kind accepts."""
        accepted = {port: _list_types(spec, port) for port in stage.needs}
        model = next((port for port, types in accepted.items() if types & MODELS), next(iter(accepted), ""))
        references = tuple(filter(_is_reference, accepted))
        remaining = [port for port in accepted if port not in {model, BASELINE, *references}]
        data = tuple(port for port in remaining if accepted[port] == {"dataset"})
        companions = tuple(port for port in remaining if port not in data)
        return cls(model, companions, data, references, takes_model=bool(accepted.get(model, set()) & MODELS))

    def find_measured(self, action: Action) -> str:
        """Return the digest of the model that a stage measured; empty when there is none."""
        return find_value(action.components, ComponentKind.INPUT, self.model) or ""

    def list_companions(self, action: Action) -> dict[str, str]:
        """Return the digests of what was measured with the model, by port."""
        inputs = index_by_subject(action.components, ComponentKind.INPUT)
        return {port: inputs[port] for port in self.companions if port in inputs}

    def list_setup(self, action: Action) -> Components:
        """Return the parameters, the target, the data and the references that the figures depend on."""
        if not self.takes_model:
            return ()
        ports = {*self.data, *self.references}
        return tuple(
            item
            for item in sorted(action.inputs)
            if not item.owner and (item.kind in SETUP or (item.kind == ComponentKind.INPUT and item.subject in ports))
        )


def drop_references(setup: Components) -> Components:
    """Return a setup without the references: they matter only to figures that compare two models."""
    return tuple(item for item in setup if not _is_of_reference(item))


def select_references(setup: Components) -> Components:
    """Return the references of a setup."""
    return tuple(filter(_is_of_reference, setup))


def _is_of_reference(item: KeyComponent) -> bool:
    return item.kind in (ComponentKind.INPUT, ComponentKind.CONTENT) and _is_reference(item.subject)


def _is_reference(port: str) -> bool:
    """Return whether a port holds a reference, or what its source model needs: `weights@reference`."""
    name = port.rpartition("@")[2]
    return name == REFERENCE or bool(parse_extra_reference(name))


def _list_types(spec: Spec, port: str) -> set[str]:
    """Return the types that an input accepts; `reference.fused` accepts those of `reference`."""
    declared = spec.inputs.get(port.partition(".")[0])
    return set(declared.accepts) if declared else set()


def list_changes(compare: Compare, stage: Stage, then: Components, now: Components) -> list[Reason]:
    """Return the changes of a setup; a parameter that a later orun has added is not one."""
    present = {item.identity: item for item in now}
    differing = tuple(item for item in then if present.get(item.identity) != item)
    if not differing:
        return []
    return compare(stage, differing, tuple(present[item.identity] for item in differing if item.identity in present))
