"""Find where each node of a model really lands on a target: on which provider, in how many pieces, and what falls back.

What counts is what the session itself records when it gives nodes to providers, not which providers are said to be
there. `coverage` is the share of the nodes that the target's first provider takes, `fallback` the number of those that
landed on the CPU though it does not come first, and `subgraphs` the pieces that the first provider compiles or runs:
between two pieces data may have to move. `share.CUDA` and so on are the shares of each provider of the target.

Nodes are counted as they were when providers chose: after ONNX Runtime had folded constants and cleaned the graph up.

The artifact holds `coverage.json`: each subgraph with its nodes, and the operators that fell back. A gate makes it a
condition: `coverage: {min: 95%}`, `fallback: {max: 0}`. The target's own `fallback` is not applied here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.core.targets import Target
from orun.providers.registry import PROVIDERS
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, TargetName

if TYPE_CHECKING:
    from orun.measure.placement import Subgraph


@dataclass(frozen=True)
class Params:
    """Where the model is to run."""

    target: Annotated[TargetName | None, Doc("Whose providers take the nodes; the CPU when left out.")] = None


SPEC = Spec(
    inputs={"model": Port(("onnx", "engine"), "The model to look at.")},
    output="metrics",
    tools=("onnxruntime|onnxruntime-gpu", "onnx"),
    extra="cpu",
    stage_class="device",
    preload=("onnx",),
    units={"coverage": "ratio"},
    guards=True,
)


def metrics(params: Params) -> Collection[str]:
    """Names of the metrics; those of providers that the target does not name are not yielded."""
    del params
    return ("coverage", "fallback", "nodes", "subgraphs", *(_share(name) for name in PROVIDERS))


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Open the model, and leave where its nodes landed."""
    del params
    from orun.measure.placement import cpu_nodes, read_placement
    from orun.measure.session import open_session

    target = context.target or Target("cpu")
    session = open_session(context.model(), replace(target, fallback="allow"), watched=True)
    found = read_placement(session)
    first = target.providers[0].name
    fallen = cpu_nodes(found) if first != "CPUExecutionProvider" else []
    operators = Counter(node.operator for node in fallen)
    _write(context, target, found, operators)
    shown = ", ".join(f"{count} {operator}" for operator, count in operators.most_common())
    context.log.info("%s", f"on the CPU: {shown}" if shown else "nothing fell back to the CPU")
    counts = _counts(found)
    total = sum(counts.values())
    shares = {_share(one.name): Metric(counts[one.name] / total if total else 0.0, "ratio") for one in target.providers}
    return {
        "coverage": replace(shares[_share(first)], better="higher"),
        "fallback": Metric(len(fallen), better="lower"),
        "nodes": Metric(total, better="lower"),
        "subgraphs": Metric(sum(one.provider == first for one in found), better="lower"),
        **shares,
    }


def _share(provider: str) -> str:
    return f"share.{provider.removesuffix('ExecutionProvider')}"


def _counts(found: Sequence[Subgraph]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in found:
        counts[one.provider] += len(one.nodes)
    return counts


def _write(context: Context, target: Target, found: Sequence[Subgraph], fallen: Mapping[str, int]) -> None:
    document = {
        "providers": [one.name for one in target.providers],
        "nodes": dict(sorted(_counts(found).items())),
        "fallback": dict(sorted(fallen.items())),
        "subgraphs": [
            {
                "provider": one.provider,
                "nodes": [{"name": node.name, "operator": node.operator} for node in one.nodes],
            }
            for one in found
        ],
    }
    text = json.dumps(document, indent=2, sort_keys=True)
    (context.output / "coverage.json").write_text(text + "\n", "utf-8")
