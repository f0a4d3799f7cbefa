"""Grammar of a pipeline file, except the parameters of kinds, declared in the same way as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.pipeline.model import Rule
from orun.stages.params import Doc, Duration, FilePath, Range, Size


@dataclass(frozen=True)
class Arena:
    """Limits of the CPU memory arena; ONNX Runtime chooses the values that are left out."""

    max_mem: Annotated[Size | None, Doc("Most bytes of the arena."), Range(0)] = None
    extend: Annotated[
        Literal["power-of-two", "as-requested"] | None, Doc("Whether a new chunk has the requested size or grows.")
    ] = None
    initial_chunk_size_bytes: Annotated[Size | None, Doc("Bytes of the first chunk."), Range(0)] = None
    max_dead_bytes_per_chunk: Annotated[Size | None, Doc("Most unused bytes of a chunk."), Range(0)] = None
    initial_growth_chunk_size_bytes: Annotated[Size | None, Doc("Bytes of the second chunk."), Range(0)] = None
    max_power_of_two_extend_bytes: Annotated[Size | None, Doc("Bytes of the largest chunk."), Range(0)] = None


@dataclass(frozen=True)
class Session:
    """Session options of ONNX Runtime, by the names of `onnxruntime.SessionOptions`."""

    intra_op_num_threads: Annotated[
        int, Doc("Threads for the work of an operator; 0 for a thread for each core."), Range(0)
    ] = 0
    inter_op_num_threads: Annotated[
        int, Doc("Operators that run at the same time with `execution_mode: parallel`."), Range(0)
    ] = 0
    graph_optimization_level: Annotated[
        Literal["disable", "basic", "extended", "layout", "all"],
        Doc("Level of ONNX Runtime's graph optimizations when it loads the model."),
    ] = "all"
    execution_mode: Annotated[
        Literal["sequential", "parallel"], Doc("Whether independent operators may run at the same time.")
    ] = "sequential"
    enable_mem_pattern: Annotated[bool, Doc("Plan memory from the shapes of the first run.")] = True
    enable_mem_reuse: Annotated[bool, Doc("Let tensors reuse the memory of tensors that are no longer needed.")] = True
    enable_cpu_mem_arena: Annotated[bool, Doc("Keep freed CPU memory for later runs.")] = True
    cpu_arena: Annotated[
        Arena | None, Doc("Limits of the CPU memory arena; all sessions of a process with such limits share an arena.")
    ] = None
    execution_order: Annotated[
        Literal["default", "priority", "memory"], Doc("Order of the operators that are ready to run.")
    ] = "default"
    denormals_as_zero: Annotated[bool, Doc("Treat denormal numbers, which are slow, as zero.")] = False
    disabled_optimizers: Annotated[
        list[str] | None, Doc("Optimizers to leave out, by ONNX Runtime's names (`MatMulAddFusion`).")
    ] = None
    custom_op_libraries: Annotated[
        list[str] | None,
        Doc("Libraries of custom operators: paths, or `onnxruntime-extensions` for that package."),
    ] = None
    use_deterministic_compute: Annotated[bool, Doc("Use kernels with the same bits in every run.")] = False
    free_dimension_overrides: Annotated[
        dict[str, int] | None, Doc("Sizes of dynamic dimensions by name, for better optimization.")
    ] = None
    log_severity_level: Annotated[
        int, Doc("Least severity that is logged: 0 verbose, 1 information, 2 warning, 3 error, 4 fatal."), Range(0, 4)
    ] = 2
    log_verbosity_level: Annotated[int, Doc("Level of verbose messages, at severity 0."), Range(0)] = 0


@dataclass(frozen=True)
class PluginProvider:
    """Execution provider in a library of its own, which ONNX Runtime loads as a plug-in."""

    library: Annotated[FilePath, Doc("The plug-in's file, relative to the pipeline file; its content is in the key.")]
    name: Annotated[str, Doc("Name of the provider: `MyExecutionProvider`.")]
    options: Annotated[
        dict[str, str],
        Doc("Its options. `device_type` chooses its device: `CPU`, `GPU` or `NPU`; the CPU, or its first, by default."),
    ] = field(default_factory=dict)


LEAST_TIMEOUT = 1e-3  # seconds: at 0 every stage would fail
LEAST_MEMORY = 10**6  # bytes: no process lives with less, and a bare 4 means another unit


@dataclass(frozen=True)
class Resources:
    """Resources that a stage takes."""

    cpus: Annotated[int | None, Doc("Cores that it keeps busy; its kind's number when left out."), Range(1)] = None
    memory: Annotated[
        Size | None, Doc("Memory reserved for it; it is stopped if it needs more (`4GB`)."), Range(LEAST_MEMORY)
    ] = None
    gpus: Annotated[
        int | None, Doc("GPUs for it alone; when left out, one GPU if its target uses a GPU."), Range(0)
    ] = None


@dataclass(frozen=True)
class EnvironmentKeys:
    """Keys of an isolated environment."""

    packages: Annotated[list[str], Doc("Packages with their versions: `onnxruntime-openvino==1.24.1`.")] = field(
        default_factory=list
    )
    requirements: Annotated[FilePath | None, Doc("A requirements or lock file, as pip reads it.")] = None


@dataclass(frozen=True)
class Limits:
    """Limits of a stage, and where its process runs."""

    timeout: Annotated[Duration | None, Doc("Time limit (`30min`)."), Range(LEAST_TIMEOUT)] = None
    resources: Annotated[Resources, Doc("Resources that it takes.")] = Resources()
    environment: Annotated[
        str | None, Doc("Entry of `environments` with its packages; the environment of its target when left out.")
    ] = None
    runs_on: Annotated[
        dict[str, str] | None,
        Doc("Labels that its machine must have in a run on several machines: `{role: builder}`; in no key."),
    ] = None


@dataclass(frozen=True)
class TargetKeys:
    """Keys of a target, except its providers and session options."""

    fallback: Annotated[
        Literal["forbid-cpu", "warn", "allow"],
        Doc("What to do if a node runs on the CPU although another provider comes first."),
    ] = "warn"
    missing: Annotated[
        Literal["error", "skip"],
        Doc("What to do with its stages if this machine lacks a provider."),
    ] = "error"
    environment: Annotated[
        str | None, Doc("Entry of `environments` with its ONNX Runtime; orun's own when left out.")
    ] = None
    runs_on: Annotated[
        dict[str, str] | None,
        Doc("Labels that the machine of its stages must have in a run on several machines: `{accelerator: T4}`."),
    ] = None


RULES: Mapping[Rule, str] = {
    "min": "Least allowed value.",
    "max": "Largest allowed value.",
    "max_drop": "Largest drop below the `reference` input: a share of its value (`1%`), or a difference.",
    "max_increase": "Largest increase above the `reference` input: a share of its value (`5%`), or a difference.",
    "max_regression": "Largest loss against the accepted baseline: a share of its value (`5%`), or a difference.",
    "min_speedup": "Least speed-up over the `reference` input: `1.5` or `1.5x`.",
}
