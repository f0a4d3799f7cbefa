"""Candidates of the search: each changes one setting of a target that the pipeline file leaves open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orun.core.serialization import replace
from orun.core.targets import GPU_PROVIDERS, Provider, Target
from orun.measure.plugins import CPU

THREADS, MODE = "intra_op_num_threads", "execution_mode"
SPINNING = "session.intra_op.allow_spinning"
XNNPACK, CUDA, NHWC = "XnnpackExecutionProvider", "CUDAExecutionProvider", "prefer_nhwc"

# Values other than ONNX Runtime's default, by the setting that they change.
GRAPH: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("graph optimizations", {"graph_optimization_level": "extended"}),  # without the blocked layout of convolutions
    ("graph optimizations", {"graph_optimization_level": "basic"}),
)
MEMORY: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("memory arena", {"enable_cpu_mem_arena": False}),
    ("memory pattern", {"enable_mem_pattern": False}),
)
THREADED: Sequence[tuple[str, Mapping[str, Any]]] = (  # of sessions with several threads
    ("spinning", {SPINNING: False}),
    ("work sharing", {"session.dynamic_block_base": 4}),
)


@dataclass(frozen=True)
class Candidate:
    """Settings to try.

    Attributes:
        changes: names of the settings that they change (`threads`, `spinning`).
        session: session options.
        providers: instead of those of the target; the same if None.
    """

    changes: tuple[str, ...] = ()
    session: Mapping[str, Any] = field(default_factory=dict)
    providers: tuple[Provider, ...] | None = None

    @property
    def title(self) -> str:
        """Description such as `intra_op_num_threads: 1, session.intra_op.allow_spinning: false`."""
        parts = [f"{name}: {str(value).lower()}" for name, value in self.session.items()]
        parts += map(_describe, self.providers or ())
        return ", ".join(parts) or "default"

    def apply(self, target: Target) -> Target:
        """Return the target with these settings."""
        session = {**target.session, **self.session}
        if self.providers is None:
            return replace(target, session=session)
        return replace(target, session=session, providers=self.providers, fallback="allow")

    def join(self, other: Candidate) -> Candidate:
        """Return the settings of both."""
        return Candidate(
            (*self.changes, *other.changes), {**self.session, **other.session}, self.providers or other.providers
        )


DEFAULT = Candidate()


def list_candidates(target: Target, cores: int, available: Collection[str]) -> list[Candidate]:
    """Return the candidates for a target.

    Session options that the target sets are not changed. On a GPU, threads and memory of the CPU are not varied.
    `available` are providers of this build of ONNX Runtime.
    """
    first = target.providers[0]
    settings = GRAPH if first.name in GPU_PROVIDERS else _iter_settings(cores, target.session.get(THREADS))
    candidates = [Candidate((change,), session) for change, session in settings]
    if first.name == CPU and XNNPACK in available:  # with its own threads: those of ONNX Runtime would spin beside them
        providers = (Provider(XNNPACK, {THREADS: str(cores)}), *target.providers)
        candidates += [Candidate(("provider",), {THREADS: 1, SPINNING: False}, providers)]
    if first.name == CUDA and NHWC not in first.options:
        preferring = replace(first, options={**first.options, NHWC: "1"})
        candidates += [Candidate(("layout",), providers=(preferring, *target.providers[1:]))]
    return [candidate for candidate in candidates if not candidate.session.keys() & target.session.keys()]


def _iter_settings(cores: int, threads_of_target: int | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    powers = [1 << power for power in range(cores.bit_length()) if 1 << power <= cores]
    for threads in sorted({*powers, max(cores // 2, 1), cores}):
        yield "threads", {THREADS: threads}
    for operators in sorted({2, cores} if cores > 1 else ()):
        yield "execution mode", {MODE: "parallel", "inter_op_num_threads": operators}
    yield from (*GRAPH, *MEMORY)
    if cores > 1 and threads_of_target != 1:
        yield from THREADED


def _describe(provider: Provider) -> str:
    options = ", ".join(f"{name}: {value}" for name, value in provider.options.items())
    return f"{provider.name} ({options})" if options else provider.name
