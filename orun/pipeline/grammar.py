"""Grammar of a pipeline file outside of a stage's parameters, declared like parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.pipeline.model import Rule
from orun.stages.params import Doc, Duration, FilePath, Range, Size


@dataclass(frozen=True)
class Arena:
    """Limits of the CPU memory arena; ONNX Runtime's own choice where a value is left out."""

    max_mem: Annotated[Size | None, Doc("Bytes that it may hold."), Range(0)] = None
    extend: Annotated[
        Literal["power-of-two", "as-requested"] | None, Doc("Whether a new chunk is as large as was asked, or larger.")
    ] = None
    initial_chunk_size_bytes: Annotated[Size | None, Doc("Bytes of the first chunk."), Range(0)] = None
    max_dead_bytes_per_chunk: Annotated[Size | None, Doc("Bytes of a chunk that may lie idle."), Range(0)] = None
    initial_growth_chunk_size_bytes: Annotated[Size | None, Doc("Bytes of the second chunk."), Range(0)] = None
    max_power_of_two_extend_bytes: Annotated[Size | None, Doc("Bytes of the largest chunk."), Range(0)] = None


@dataclass(frozen=True)
class Session:
    """Session options of ONNX Runtime, by the names of `onnxruntime.SessionOptions`."""

    intra_op_num_threads: Annotated[
        int, Doc("Threads that share the work of one operator; 0 for one per core."), Range(0)
    ] = 0
    inter_op_num_threads: Annotated[
        int, Doc("Operators that run side by side with `execution_mode: parallel`."), Range(0)
    ] = 0
    graph_optimization_level: Annotated[
        Literal["disable", "basic", "extended", "layout", "all"],
        Doc("How far ONNX Runtime rewrites the graph when it loads the model."),
    ] = "all"
    execution_mode: Annotated[
        Literal["sequential", "parallel"], Doc("Whether independent operators may run at the same time.")
    ] = "sequential"
    enable_mem_pattern: Annotated[bool, Doc("Plan memory beforehand from the shapes of the first run.")] = True
    enable_mem_reuse: Annotated[bool, Doc("Let tensors use the memory of others that are done with.")] = True
    enable_cpu_mem_arena: Annotated[bool, Doc("Keep freed memory of the CPU for later runs.")] = True
    cpu_arena: Annotated[
        Arena | None, Doc("Limits of that memory; every session of a process that sets them shares it.")
    ] = None
    execution_order: Annotated[
        Literal["default", "priority", "memory"], Doc("In which order operators run that wait for nothing.")
    ] = "default"
    denormals_as_zero: Annotated[bool, Doc("Take numbers near zero, which are slow, for zero.")] = False
    disabled_optimizers: Annotated[
        list[str] | None, Doc("Optimizers to leave out, by ONNX Runtime's names (`MatMulAddFusion`).")
    ] = None
    custom_op_libraries: Annotated[
        list[str] | None,
        Doc("Libraries of custom operators: paths, or `onnxruntime-extensions` for those of that package."),
    ] = None
    use_deterministic_compute: Annotated[bool, Doc("Choose kernels that give the same bits on every run.")] = False
    free_dimension_overrides: Annotated[
        dict[str, int] | None, Doc("Sizes of dynamic dimensions by name, which lets more be optimized.")
    ] = None
    log_severity_level: Annotated[
        int, Doc("What ONNX Runtime logs: 0 everything, 1 information, 2 warnings, 3 errors, 4 fatal."), Range(0, 4)
    ] = 2
    log_verbosity_level: Annotated[int, Doc("How much it logs at severity 0."), Range(0)] = 0


LEAST_MEMORY = 10**6  # bytes: of fewer no process lives, and 4 is meant in some other unit


@dataclass(frozen=True)
class Resources:
    """Resources that a stage takes."""

    cpus: Annotated[int | None, Doc("Cores that it keeps busy; what its kind says when left out."), Range(1)] = None
    memory: Annotated[
        Size | None, Doc("Bytes that are kept free for it, and above which it is stopped (`4GB`)."), Range(LEAST_MEMORY)
    ] = None
    gpus: Annotated[
        int | None, Doc("GPUs that it has to itself; one when a target of it uses a GPU, when left out."), Range(0)
    ] = None


@dataclass(frozen=True)
class EnvironmentKeys:
    """The keys of an isolated environment."""

    packages: Annotated[list[str], Doc("Packages with their versions: `onnxruntime-openvino==1.24.1`.")] = field(
        default_factory=list
    )
    requirements: Annotated[FilePath | None, Doc("A requirements or lock file, as pip reads it.")] = None


@dataclass(frozen=True)
class Limits:
    """Limits of a stage, and where its process runs."""

    timeout: Annotated[Duration | None, Doc("How long it may run (`30min`)."), Range(0)] = None
    resources: Annotated[Resources, Doc("What it takes of the machine.")] = Resources()
    environment: Annotated[
        str | None, Doc("The entry of `environments` whose packages it runs with; that of its target when left out.")
    ] = None
    runs_on: Annotated[
        dict[str, str] | None,
        Doc("Labels that its machine must have in a run on several machines: `{role: builder}`; in no key."),
    ] = None


@dataclass(frozen=True)
class TargetKeys:
    """The keys of a target beside its providers and session options."""

    fallback: Annotated[
        Literal["forbid-cpu", "warn", "allow"],
        Doc("What to do when a node lands on the CPU although another provider comes first."),
    ] = "warn"
    missing: Annotated[
        Literal["error", "skip"],
        Doc("What to do with the stages that use it when a provider is not on this machine."),
    ] = "error"
    environment: Annotated[
        str | None, Doc("The entry of `environments` that its ONNX Runtime comes from; orun's own when left out.")
    ] = None
    runs_on: Annotated[
        dict[str, str] | None,
        Doc("Labels that the machine of its stages must have in a run on several machines: `{accelerator: T4}`."),
    ] = None


RULES: Mapping[Rule, str] = {
    "min": "The metric must be at least this.",
    "max": "The metric must be at most this.",
    "max_drop": "How far it may be below that of the stage's `reference` input: `1%` of it, or a difference.",
    "max_increase": "How far it may be above that of the stage's `reference` input: `5%` of it, or a difference.",
    "max_regression": "How much worse it may be than that of the accepted baseline: `5%` of it, or a difference.",
    "min_speedup": "How many times as fast as the `reference` input it must be: `1.5` or `1.5x`.",
}
