"""Observer of everything that a stage reads: installed in the server, narrowed to a stage in each forked process."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from orun.executors.tracing import user_modules
from orun.executors.tracing.forked_workers import ForkedWorkers, Notes
from orun.executors.tracing.locales import Locales
from orun.executors.tracing.metadata_lookups import MetadataLookups
from orun.executors.tracing.module_searches import ModuleSearches
from orun.executors.tracing.probes import Probes
from orun.executors.tracing.recorder import Recorder, make_absolute
from orun.executors.tracing.scope import Scope, list_installed_prefixes
from orun.executors.tracing.variables import Variables
from orun.fs.observed_state import ABSENT
from orun.fs.signatures import Signature, read_signature


@dataclass
class Observer:
    """Everything that is recorded of what a process reads.

    Attributes:
        recorder: files that are opened or missing, and folders that are listed.
        variables: environment variables that are looked up.
        versions: distributions whose metadata is looked up.
        searches: modules that are searched for.
        probes: files that are probed without being opened.
        workers: the same in forked processes.
        scope: which files are the user's, once the observer is narrowed.
    """

    recorder: Recorder = field(default_factory=Recorder)
    variables: Variables = field(default_factory=Variables)
    versions: MetadataLookups = field(default_factory=MetadataLookups)
    searches: ModuleSearches = field(default_factory=ModuleSearches)
    probes: Probes = field(init=False)
    workers: ForkedWorkers = field(init=False)
    scope: Scope | None = None
    _loaded_before: dict[str, Signature | None] = field(default_factory=dict)  # files of modules

    def __post_init__(self) -> None:
        self.probes = Probes(self.recorder)
        self.workers = ForkedWorkers(
            Notes(self.recorder, "listings"),
            Notes(self.recorder, "missing"),
            Notes(self.variables, "values"),
            Notes(self.versions, "versions"),
            Notes(self.probes, "states"),
            Notes(self.searches, "names"),
            Notes(self.searches, "missed"),
        )

    def install(self) -> None:
        """Start to record opens, listings and searches; variables and probes count from `narrow` on."""
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        paths = (
            path for path in map(make_absolute, filter(None, files)) if not path.startswith(list_installed_prefixes())
        )
        self._loaded_before = {path: read_signature(path) for path in paths}
        self.recorder.install()
        self.searches.install()
        self.versions.install()
        self.variables.install()
        Locales(self.variables).install()
        self.probes.install()
        self.workers.install()

    @staticmethod
    def prepare(scope: Scope) -> None:
        """Compute what `narrow` needs of a scope, once for all processes that are forked from this one."""
        user_modules.list_searched_folders(scope)

    def narrow(self, scope: Scope) -> None:
        """Keep what was recorded inside the scope, and record only that from now on."""
        self.scope = scope
        self.recorder.narrow(scope)
        self.recorder.reads |= {path: seen for path, seen in self._loaded_before.items() if scope.is_code(path)}
        user_modules.install(scope, self.recorder)
        self.variables.narrow(scope)
        self.probes.narrow(scope)
        self.workers.begin()

    def gather(self) -> None:
        """Add what other processes of the stage have recorded so far."""
        self.workers.gather()
        self.probes.states = dict.fromkeys(self.searches.missing_paths, ABSENT) | self.probes.states
        self.recorder.reads = dict.fromkeys(self.recorder.missing) | self.recorder.reads
