"""Packages that differ between two runs, and isolated environments in which one of them is as it was."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from orun.blame.changes import Change, Fixed, inputs_of
from orun.blame.run_snapshot import Side
from orun.core.component_kinds import ComponentKind
from orun.core.events import Notice
from orun.core.key_component import Components
from orun.core.serialization import replace
from orun.core.targets import Environment
from orun.environment.distributions import ABSENT, BUILDS, PRESENT, developed, exact, installed, normalise
from orun.environment.venv_builder import make
from orun.errors import EnvironmentFailed
from orun.eventlog.writer import Listener, ignore
from orun.pipeline.model import Stage

MOST = 4  # packages that are mixed one by one: each may take an environment of its own
RUNTIME = "onnxruntime"

OWN = frozenset({"orun", *BUILDS})  # what no environment is held to

Pins = Mapping[str, str]  # `numpy==2.1.0` by what stands for the package


@dataclass(frozen=True)
class Versions:
    """What the packages of stages were in two runs.

    Attributes:
        good, bad: of each stage, in the good and the bad run.
        changes: the packages that differ, one each.
        refused: those that cannot be had as they were, with pip's reason.
    """

    good: Mapping[str, Pins]
    bad: Mapping[str, Pins]
    changes: tuple[Change, ...] = ()
    refused: tuple[tuple[Change, str], ...] = ()

    @classmethod
    def between(cls, good: Side, bad: Side, stages: Collection[str]) -> Versions:
        """The packages of stages that run where orun does; what is in an environment differs by the file."""
        shared = [one.id for one in good.pipeline.stages if one.id in stages and not one.environments]
        olds, news = ({name: _pins(inputs_of(side, name)) for name in shared} for side in (good, bad))
        found = {
            (package, old, news[name][package])
            for name in shared
            for package, old in olds[name].items()
            if old != news[name].get(package, old)
        }
        return cls(olds, news, tuple(Change("package", name, "", old, new) for name, old, new in sorted(found)))

    def had(self, listener: Listener = ignore) -> Versions:
        """Without the packages that cannot be brought back, each alone beside all others of the bad run."""
        if len(self.changes) > MOST:
            why = f"{len(self.changes)} packages differ, which is too many to try one by one"
            return replace(self, changes=(), refused=tuple((one, why) for one in self.changes))
        kept: list[Change] = []
        refused: list[tuple[Change, str]] = []
        for change in self.changes:
            others = [one for one in self.changes if one is not change]
            with_it = [name for name in self.good if change.name in self.good[name]]
            made = [self.environment(name, chosen) for name in with_it for chosen in (others, self.changes)]
            try:
                for environment in dict.fromkeys(filter(None, made)):
                    make(environment, lambda text: listener(Notice("info", text)))
                kept.append(change)
            except EnvironmentFailed as error:
                refused.append((change, error.why.partition("\n")[0]))
        return replace(self, changes=tuple(kept), refused=tuple(refused))

    def left(self, others: Sequence[Fixed]) -> list[Fixed]:
        """Differences without those that are mixed now; those that cannot be with the reason."""
        mixed, refused = {one.name for one in self.changes}, {one.name: why for one, why in self.refused}
        found = []
        for one in others:
            is_runtime = (one.kind, one.subject) == (ComponentKind.DEVICE, "runtime")
            name = RUNTIME if is_runtime else slot(pin(one.kind, one.subject, one.old or one.new))
            if name not in mixed:
                found.append(replace(one, why=refused.get(name, one.why)))
        return found

    def applied(self, stage: Stage, chosen: Collection[Change]) -> Stage:
        """A stage with the good run's packages but for those that are chosen, which are the bad run's."""
        environment = self.environment(stage.id, chosen)
        return replace(stage, environment=environment) if environment else stage

    def environment(self, stage: str, chosen: Collection[Change]) -> Environment | None:
        """Where a stage has those packages: one for all stages that have any; None where orun runs with them itself."""
        new, known = {one.name for one in chosen}, {one.name for one in self.changes}
        if known.isdisjoint(self.good.get(stage, {})):
            return None
        pins: dict[str, str] = {}
        for name, good in self.good.items():
            if not known.isdisjoint(good):
                bad = self.bad[name]
                pins |= {one: bad.get(one, old) if one in new or one not in known else old for one, old in good.items()}
        here = exact()
        if all(_is_here(one, here) for one in pins.values()):
            return None
        asked = tuple(sorted(pins.values()))
        differing = [one for one in asked if not _is_here(one, here)]
        wanted = {normalise(one.partition("==")[0]) for one in asked}
        others = tuple(
            f"{name}=={version}" for name, version in sorted(installed().items()) if name not in wanted | OWN
        )
        return Environment(", ".join(differing), asked, others)


def _pins(inputs: Components) -> dict[str, str]:
    return {slot(pinned): pinned for item in inputs if (pinned := pin(item.kind, item.subject, item.value))}


def pin(kind: str, subject: str, value: str) -> str:
    """Return the requirement for a package that a stage depends on; empty for orun itself, and what no index has.

    Args:
        kind: of the key component: a tool, or an imported package.
        subject: of the key component.
        value: `onnx 1.20.0` for a tool, `0.22.0` for a package.
    """
    if kind not in (ComponentKind.TOOL, ComponentKind.IMPORTED) or value in ("", ABSENT, PRESENT):
        return ""
    name, _, version = value.rpartition(" ") if kind == ComponentKind.TOOL else (subject, "", value)
    return "" if normalise(name) == "orun" else f"{name}=={version}"


def slot(pinned: str) -> str:
    """What stands for a package: its name, and one name for all builds of ONNX Runtime, which exclude one another."""
    name = normalise(pinned.partition("==")[0])
    return RUNTIME if name in BUILDS else name


def _is_here(pinned: str, here: Mapping[str, str]) -> bool:
    name, _, version = pinned.partition("==")
    name = normalise(name)
    return here.get(name) == version or (name in developed() and installed()[name] == version)  # in the project itself
