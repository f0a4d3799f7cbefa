"""All that sees what a stage reads: installed once, and narrowed to a stage in each process forked from there."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from orun.executors.job import Signature
from orun.executors.tracing import modules
from orun.executors.tracing.forks import Forks, Notes
from orun.executors.tracing.imports import Imports
from orun.executors.tracing.locales import Locales
from orun.executors.tracing.probes import Probes
from orun.executors.tracing.recorder import Recorder, absolute, signature_of
from orun.executors.tracing.scope import Scope, installed
from orun.executors.tracing.variables import Variables
from orun.executors.tracing.versions import Versions
from orun.fs.observed_state import ABSENT


@dataclass
class Observer:
    """What a process sees of what it reads.

    Attributes:
        recorder: files that are opened or looked for, and folders that are listed.
        variables: environment variables that are looked up.
        versions: distributions that are asked for by name.
        imports: modules that are looked for.
        probes: what is asked for without being opened.
        forks: what of all this is noted in processes that this one forks.
        scope: tells the user's files, once it is narrowed.
    """

    recorder: Recorder = field(default_factory=Recorder)
    variables: Variables = field(default_factory=Variables)
    versions: Versions = field(default_factory=Versions)
    imports: Imports = field(default_factory=Imports)
    probes: Probes = field(init=False)
    forks: Forks = field(init=False)
    scope: Scope | None = None
    _before: dict[str, Signature | None] = field(default_factory=dict)  # modules that were there when it began

    def __post_init__(self) -> None:
        self.probes = Probes(self.recorder)
        files = [Notes(self.recorder, name) for name in ("listings", "sought")]
        found = [Notes(one, "found") for one in (self.variables, self.versions, self.probes)]
        self.forks = Forks(*files, *found, Notes(self.imports, "asked"), Notes(self.imports, "missed"))

    def install(self) -> None:
        """Begin to note what is opened and listed; look-ups and questions count from `narrow` on."""
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        paths = (path for path in map(absolute, filter(None, files)) if not path.startswith(installed()))
        self._before = {path: signature_of(path)[0] for path in paths}
        self.recorder.install()
        self.imports.install()
        self.versions.install()
        self.variables.install()
        Locales(self.variables).install()
        self.probes.install()
        self.forks.install()

    @staticmethod
    def prepare(scope: Scope) -> None:
        """Find out what `narrow` needs to know of a scope, once for all processes that are forked from this one."""
        modules.looked_at(scope)

    def narrow(self, scope: Scope) -> None:
        """Note from now on, and keep of what was noted, what is in the scope."""
        self.scope = scope
        self.recorder.narrow(scope)
        self.recorder.reads |= {path: seen for path, seen in self._before.items() if scope.is_code(path)}
        modules.install(scope, self.recorder)
        self.variables.narrow(scope)
        self.probes.narrow(scope)
        self.forks.begin()

    def gather(self) -> None:
        """Note what other processes of the stage have found out so far."""
        self.forks.gather()
        self.probes.found = dict.fromkeys(self.imports.absent, ABSENT) | self.probes.found
        self.recorder.reads = dict.fromkeys(self.recorder.sought) | self.recorder.reads
