"""Find on which provider of a target each node of a model runs, in how many subgraphs, and which nodes fall back.

The figures come from the session's own record of the assignment of nodes to providers:

- `coverage`: the share of nodes, without those on shapes, that run on the target's first provider;
- `fallback`: the number of nodes that run on the CPU although it is not the first provider, without those on shapes;
- `subgraphs`: the pieces that the first provider compiles or runs; data may have to move between them;
- `share.CUDA` and so on: the share of each provider of the target.

Nodes are counted after ONNX Runtime has folded constants and cleaned up the graph, because providers choose then. Nodes
on shapes compute with nothing but the sizes of axes. Beside a GPU, ONNX Runtime keeps them on the CPU on purpose.

The artifact holds `coverage.json`: each subgraph with its nodes, the operators that fell back, and those on shapes that
stayed on the CPU (`shapes`). Gates turn the figures into conditions: `coverage: {min: 95%}`, `fallback: {max: 0}`. The
target's own `fallback` is not applied here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import HIGHER_SHARE, LOWER, SHARE
from orun.core.serialization import replace
from orun.core.targets import Target
from orun.providers.registry import PROVIDERS
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, TargetName

if TYPE_CHECKING:
    from orun.measure.placement import Subgraph


@dataclass(frozen=True)
class Params:
    """Parameters of `check/coverage`."""

    target: Annotated[TargetName | None, Doc("Target with the providers; the CPU when left out.")] = None


def _name_share(provider: str) -> str:
    return f"share.{provider.removesuffix('ExecutionProvider')}"


SPEC = Spec(
    inputs={"model": Port(("onnx", "engine"), "The model to check.")},
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx"),
    extra="cpu",
    stage_class="device",
    preload=("onnx",),
    metrics={
        "coverage": HIGHER_SHARE,
        "fallback": LOWER,
        "nodes": LOWER,
        "subgraphs": LOWER,
        **{_name_share(name): SHARE for name in PROVIDERS},
    },
    guards=True,
)


def metrics(params: Params) -> Collection[str]:
    """Return the names of the metrics; shares of providers that are not in the target have no value."""
    del params
    return ("coverage", "fallback", "nodes", "subgraphs", *(_name_share(name) for name in PROVIDERS))


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Open the model, and write which provider runs each node."""
    del params
    from orun.measure.placement import list_cpu_nodes, read_placement
    from orun.measure.session import open_session

    target = context.model_target
    session = open_session(context.model(), replace(target, fallback="allow"), watched=True)
    subgraphs = read_placement(session)
    first = target.providers[0].name
    fallen, on_shapes = list_cpu_nodes(subgraphs, context.model()) if first != "CPUExecutionProvider" else ([], [])
    operators = Counter(node.operator for node in fallen)
    _write(context, target, subgraphs, operators, Counter(node.operator for node in on_shapes))
    shown = ", ".join(f"{count} {operator}" for operator, count in operators.most_common())
    context.log.info("%s", f"on the CPU: {shown}" if shown else "nothing fell back to the CPU")
    counts = _count_nodes(subgraphs)
    total = sum(counts.values())
    judged = total - len(on_shapes)
    shares = {
        _name_share(provider.name): counts[provider.name] / total if total else 0.0 for provider in target.providers
    }
    return {
        "coverage": counts[first] / judged if judged else 0.0,
        "fallback": len(fallen),
        "nodes": total,
        "subgraphs": sum(subgraph.provider == first for subgraph in subgraphs),
        **shares,
    }


def _count_nodes(subgraphs: Sequence[Subgraph]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for subgraph in subgraphs:
        counts[subgraph.provider] += len(subgraph.nodes)
    return counts


def _write(
    context: Context,
    target: Target,
    subgraphs: Sequence[Subgraph],
    fallen: Mapping[str, int],
    shapes: Mapping[str, int],
) -> None:
    document = {
        "providers": [provider.name for provider in target.providers],
        "nodes": dict(sorted(_count_nodes(subgraphs).items())),
        "fallback": dict(sorted(fallen.items())),
        "shapes": dict(sorted(shapes.items())),
        "subgraphs": [
            {
                "provider": subgraph.provider,
                "nodes": [{"name": node.name, "operator": node.operator} for node in subgraph.nodes],
            }
            for subgraph in subgraphs
        ],
    }
    text = json.dumps(document, indent=2, sort_keys=True)
    (context.output / "coverage.json").write_text(text + "\n", "utf-8")
