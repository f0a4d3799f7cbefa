"""Targets: providers, session options, and the rule for a missing provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from orun.core.serialization import Record, field, replace
from orun.providers.spec import ProviderSpec

EXTENSIONS = "onnxruntime-extensions"  # stands for the library of that package among custom-op libraries

Fallback = Literal["forbid-cpu", "warn", "allow"]
StageClass = Literal["portable", "device", "measurement"]  # where else the result of a stage holds

GPU_PROVIDERS = frozenset({"CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"})


class Provider(Record, frozen=True):
    """An execution provider of ONNX Runtime.

    Attributes:
        name: its name.
        options: its options.
        library: the file of its plug-in; empty for one that is built in or comes with a package.
        spec: its declaration by a package; None for one that orun knows, and for a library.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    spec: ProviderSpec | None = None

    @property
    def on_nvidia_gpu(self) -> bool:
        """Whether it computes on a GPU of NVIDIA."""
        return self.spec.nvidia_gpu if self.spec else self.name in GPU_PROVIDERS


class Environment(Record, frozen=True):
    """An entry of `environments`: packages of their own, apart from those that orun runs with.

    Attributes:
        name: its name in the file.
        requirements: lines as a requirements file has them, those of files that it includes in their place.
        constraints: lines of the constraint files that it names.
    """

    name: str
    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()


class Interpreter(Record, frozen=True):
    """A Python that can run orun's code.

    Attributes:
        python: path of the program.
        path: the `PYTHONPATH` under which it finds orun; None to leave the variable as it is.
    """

    python: str
    path: str | None = None


class Target(Record, frozen=True):
    """A resolved entry of `targets`.

    Attributes:
        name: its name in the file.
        providers: in order of preference.
        session: session options by their names in the file (`intra_op_num_threads`, ...), plain values.
        fallback: what to do when a node lands on the CPU that was not meant for it.
        missing: `error`, or `skip` the stages that use it, when a provider is not on this machine.
        environment: where ONNX Runtime comes from; None for the packages that orun runs with.
        interpreter: set while a stage runs that is not in that environment: the Python that a model of this target is
            to be run with.
    """

    name: str
    providers: tuple[Provider, ...] = (Provider("CPUExecutionProvider"),)
    session: Mapping[str, Any] = field(default_factory=dict)
    fallback: Fallback = "warn"
    missing: Literal["error", "skip"] = "error"
    environment: Environment | None = None
    interpreter: Interpreter | None = None

    @property
    def libraries(self) -> tuple[str, ...]:
        """The files of custom operators that its sessions load, relative to the pipeline's folder."""
        return tuple(name for name in self.session.get("custom_op_libraries") or () if name != EXTENSIONS)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The files of its plug-in providers, relative to the pipeline's folder."""
        return tuple(provider.library for provider in self.providers if provider.library)

    @property
    def extended(self) -> bool:
        """Whether its sessions load the custom operators of that package."""
        return EXTENSIONS in (self.session.get("custom_op_libraries") or ())

    @property
    def here(self) -> Target:
        """This target as a process of its own environment has it."""
        return replace(self, interpreter=None)

    def with_any_size(self, **session: Any) -> Target:
        """Return this target without fixed sizes of dynamic axes, and with these session options."""
        kept = {name: value for name, value in self.session.items() if name != "free_dimension_overrides"}
        return replace(self, session={**kept, **session})

    def resolve_paths(self, root: Path, interpreter: Interpreter | None = None) -> Target:
        """Return this target with absolute paths of its files, and the Python that runs it unless it is the stage's."""
        session = self.session
        if self.libraries:
            named = [name if name == EXTENSIONS else str(root / name) for name in session["custom_op_libraries"]]
            session = {**session, "custom_op_libraries": named}
        providers = tuple(
            replace(provider, library=str(root / provider.library)) if provider.library else provider
            for provider in self.providers
        )
        return replace(self, providers=providers, session=session, interpreter=interpreter)


def count_gpus(targets: Iterable[Target]) -> int:
    """Return the GPUs of a stage that runs models for these targets: one when a provider of theirs computes on one."""
    return int(any(provider.on_nvidia_gpu for target in targets for provider in target.providers))
