"""Package versions that differ between two runs, and isolated environments with the versions of either."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from orun.blame.changes import Change, FixedDifference, list_inputs
from orun.blame.run_snapshot import RunSnapshot
from orun.core.component_kinds import ComponentKind
from orun.core.events import Notice
from orun.core.key_component import Components
from orun.core.serialization import replace
from orun.core.targets import Environment
from orun.environment.distributions import (
    ABSENT,
    BUILDS,
    PRESENT,
    list_developed,
    list_exact,
    list_installed,
    normalize,
)
from orun.environment.venv_builder import make
from orun.errors import EnvironmentFailed
from orun.eventlog import Listener, ignore
from orun.pipeline.model import Stage

MOST = 4  # packages that are tried one by one: each may take an environment of its own
RUNTIME = "onnxruntime"

UNPINNED = frozenset({"orun", *BUILDS})  # packages that environments do not pin beyond the requirements

Pins = Mapping[str, str]  # `numpy==2.1.0` by the package's slot


@dataclass(frozen=True)
class Versions:
    """Package versions of stages in two runs."""

    good: Mapping[str, Pins]  # pins of each stage in the good run
    bad: Mapping[str, Pins]  # in the bad run
    changes: tuple[Change, ...] = ()  # the packages that differ
    refused: tuple[tuple[Change, str], ...] = ()  # old versions that cannot be installed, with pip's reason

    @classmethod
    def between(cls, good: RunSnapshot, bad: RunSnapshot, stages: Collection[str]) -> Versions:
        """Return the versions of stages in orun's own environment; others differ by the pipeline file."""
        shared = [stage.id for stage in good.pipeline.stages if stage.id in stages and not stage.environments]
        olds, news = ({name: _list_pins(list_inputs(run, name)) for name in shared} for run in (good, bad))
        differing = {
            (package, old, news[name][package])
            for name in shared
            for package, old in olds[name].items()
            if old != news[name].get(package, old)
        }
        return cls(olds, news, tuple(Change("package", name, "", old, new) for name, old, new in sorted(differing)))

    def build(self, listener: Listener = ignore) -> Versions:
        """Build the environments; packages whose old version cannot be installed with the bad run's are refused."""
        if len(self.changes) > MOST:
            why = f"{len(self.changes)} packages differ, which is too many to try one by one"
            return replace(self, changes=(), refused=tuple((change, why) for change in self.changes))
        kept: list[Change] = []
        refused: list[tuple[Change, str]] = []
        for change in self.changes:
            without = [other for other in self.changes if other is not change]
            stages = [name for name in self.good if change.name in self.good[name]]
            environments = [
                self.build_environment(name, chosen) for name in stages for chosen in (without, self.changes)
            ]
            try:
                for environment in dict.fromkeys(filter(None, environments)):
                    make(environment, lambda text: listener(Notice("info", text)))
                kept.append(change)
            except EnvironmentFailed as error:
                refused.append((change, error.why.partition("\n")[0]))
        return replace(self, changes=tuple(kept), refused=tuple(refused))

    def filter_fixed(self, differences: Sequence[FixedDifference]) -> list[FixedDifference]:
        """Return the differences without those that can be tried now; refused packages get the reason."""
        tried, refused = {change.name for change in self.changes}, {change.name: why for change, why in self.refused}
        kept = []
        for item in differences:
            is_runtime = (item.kind, item.subject) == (ComponentKind.DEVICE, "runtime")
            name = RUNTIME if is_runtime else name_slot(pin(item.kind, item.subject, item.old or item.new))
            if name not in tried:
                kept.append(replace(item, why=refused.get(name, item.why)))
        return kept

    def apply(self, stage: Stage, chosen: Collection[Change]) -> Stage:
        """Return a stage with the good run's packages, and the bad run's for the chosen changes."""
        environment = self.build_environment(stage.id, chosen)
        return replace(stage, environment=environment) if environment else stage

    def build_environment(self, stage: str, chosen: Collection[Change]) -> Environment | None:
        """Return the environment with those packages for a stage; None if orun's own has them.

        All stages with differing packages share it.
        """
        new, changed = {change.name for change in chosen}, {change.name for change in self.changes}
        if changed.isdisjoint(self.good.get(stage, {})):
            return None
        pins: dict[str, str] = {}
        for name, good in self.good.items():
            if not changed.isdisjoint(good):
                bad = self.bad[name]
                pins |= {
                    package: bad.get(package, old) if package in new or package not in changed else old
                    for package, old in good.items()
                }
        here = list_exact()
        requirements = tuple(sorted(pins.values()))
        differing = [pinned for pinned in requirements if not _is_here(pinned, here)]
        if not differing:
            return None
        required = {normalize(pinned.partition("==")[0]) for pinned in requirements}
        constraints = tuple(
            f"{name}=={version}"
            for name, version in sorted(list_installed().items())
            if name not in required | UNPINNED
        )
        return Environment(", ".join(differing), requirements, constraints)


def _list_pins(inputs: Components) -> dict[str, str]:
    return {name_slot(pinned): pinned for item in inputs if (pinned := pin(item.kind, item.subject, item.value))}


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
    return "" if normalize(name) == "orun" else f"{name}=={version}"


def name_slot(pinned: str) -> str:
    """Return a package's slot: its name, and one name for all builds of ONNX Runtime, which exclude one another."""
    name = normalize(pinned.partition("==")[0])
    return RUNTIME if name in BUILDS else name


def _is_here(pinned: str, here: Mapping[str, str]) -> bool:
    name, _, version = pinned.partition("==")
    name = normalize(name)
    return here.get(name) == version or (
        name in list_developed() and list_installed()[name] == version
    )  # in the project itself
