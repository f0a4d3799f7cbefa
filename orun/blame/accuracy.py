"""Why a model answers worse: the stage, the nodes, and a variant without them that shows it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orun.blame import messages, upstream_metrics
from orun.blame.chain import model_port
from orun.blame.diagnosis import OUT_OF_TIME, Diagnosis, Place, Proof
from orun.blame.experiment import Bench, OutOfTime
from orun.blame.origin import BEFORE, Past, rebuilt
from orun.blame.search import FEW, PATIENCE, Measured, measure
from orun.core.metrics import Estimate
from orun.core.run_record import RunResult
from orun.environment.processor import saturates
from orun.pipeline.model import Gate, Stage

EXCLUDING: Mapping[str, str] = {  # the parameter of a kind that leaves nodes as they were
    "quantize/dynamic": "exclude",
    "quantize/static": "exclude",
    "quantize/weights": "exclude",
    "optimize/float16": "block_nodes",
}
ENOUGH = 0.8  # share of the error that the places put right should bring together
MOST = 5  # places put right together
TRACE = 0.005  # share of the error from which a place counts: less reads as 0 %
SHOWN = 20
FEWER = f"measured with the first {FEW} examples, for want of time"
ROUNDS = 4  # measurements with all examples for which there must be time, or fewer are taken to the end
KERNEL = 4  # times the error of the nodes from which ONNX Runtime's own optimizations are to blame
TIMING: Mapping[str, Any] = {"time": 4.0, "samples": 6, "max_launches": 4}  # to see what the variant costs
QUICK, THOROUGH = 10.0, 60.0  # seconds for the nodes: two choices, so that what was found is found again
NO_ANSWERS = frozenset({"measure/size", "measure/memory", "measure/startup", "measure/load"})
OTHER_UNITS = frozenset({"B", "s", "1/s", "x"})  # of what a model weighs or takes, not of how well it answers


@dataclass
class Case:
    """An accuracy gate that failed.

    Attributes:
        bench: where variants are run.
        stage: the stage with the gate.
        gate: the gate.
        chain: the stages upstream, the first made first.
        past: the first model as it was when the gate was good, where it is another one now.
        metric: what the gate judges; of one by slices that of a slice. The gate's own when empty.
        measured: it at these.
    """

    bench: Bench
    stage: Stage
    gate: Gate
    chain: Sequence[Stage]
    past: Past | None = None
    metric: str = ""
    measured: Measured = field(init=False)

    def __post_init__(self) -> None:
        self.metric = self.metric or self.gate.metric
        self.measured = Measured((), self.stage)

    def solve(self, found: Diagnosis) -> Diagnosis:
        """Fill the diagnosis in as far as time allows."""
        try:
            found = self._since(self._levels(found))
            if found.proof:
                return found
            if not found.culprit:
                return replace(found, sentence=messages.nobody(found))
            found = replace(found, sentence=messages.started(found))
            if self.stage.uses in NO_ANSWERS or found.unit in OTHER_UNITS:
                return found
            found = self._places(found)
            if not found.places:
                return found
            found = replace(found, sentence=messages.accuracy(found, self._before(found)))
            found = self._proof(self._thoroughly(found))
        except OutOfTime:
            found = replace(found, stopped=OUT_OF_TIME)
        return replace(found, sentence=messages.accuracy(found, self._before(found))) if found.places else found

    def _levels(self, found: Diagnosis) -> Diagnosis:
        for patience in (PATIENCE, math.inf):
            self.measured = measured = measure(self.bench, self.stage, self.gate, self.chain, patience, self.metric)
            found = replace(found, levels=measured.levels, stopped="" if measured.complete else OUT_OF_TIME)
            found = self._worst(found)
            if found.culprit or measured.stage is self.stage:
                break  # else they do not show with a few examples
        return found if measured.stage is self.stage else replace(found, note=FEWER)

    def _since(self, found: Diagnosis) -> Diagnosis:
        """Whether it is the first model itself that got worse since the gate was good."""
        if self.past is None:
            return found
        try:
            if self.past.here:
                return self._origin(found, self.past)
        except OutOfTime:
            found = replace(found, stopped=OUT_OF_TIME)
        return replace(found, note=_both(found.note, messages.another(self.past)))

    def _origin(self, found: Diagnosis, past: Past) -> Diagnosis:
        """Measure the model of then as it was, and with the stages of now after it."""
        made, stage = rebuilt(self.bench, past, self.measured.stage), self.measured.stage
        needs = {port: made.get(source, source) for port, source in stage.needs.items()}
        port = model_port(self.bench.pipeline, stage)
        first = self.bench.add(
            stage, id=f"{stage.id} of {past.name}", needs=needs | {port: past.name}, gates=(self.gate,), after=()
        )
        last = self.bench.add(stage, id=f"{stage.id} {BEFORE}", needs=needs, gates=(self.gate,), after=())
        result = self.bench.run([first.id, last.id])
        then = upstream_metrics.level(result, past.name, first.id, self.metric)
        whole = upstream_metrics.level(result, needs[port], last.id, self.metric)
        proof = Proof("mixed", needs[port], whole.value, whole.passes, why=whole.why)
        every = (then, *found.levels)
        step = upstream_metrics.worst_step(every, upstream_metrics.direction(self.gate, self.measured.metrics))
        if step is None or step.before is not then:
            return replace(found, note=_both(found.note, messages.another(past, found, proof)))
        found = replace(found, levels=every, culprit=past.stage, lost=step.lost, proof=proof)
        return replace(found, sentence=messages.origin(found, past))

    def _worst(self, found: Diagnosis) -> Diagnosis:
        step = upstream_metrics.worst_step(found.levels, upstream_metrics.direction(self.gate, self.measured.metrics))
        return (
            replace(found, culprit=step.after.stage, lost=step.lost) if step else replace(found, culprit="", lost=0.0)
        )

    def _thoroughly(self, found: Diagnosis) -> Diagnosis:
        """Before and after the culprit with all examples, if there is time for that and for a variant."""
        if self.measured.stage is self.stage or ROUNDS * self.measured.seconds > self.bench.left:
            return found
        self.measured = replace(self.measured, stage=self.stage)
        ends = (self._before(found), found.culprit)
        made = {name: upstream_metrics.variant(self.bench, self.stage, self.gate, name).id for name in ends}
        result = self.bench.run(list(made.values()))
        whole = tuple(upstream_metrics.level(result, name, made[name], self.metric) for name in ends)
        note = _both(f"found with {FEW} examples, measured with all of them", found.note.removeprefix(FEWER))
        return self._worst(replace(found, levels=whole, note=note))

    def _before(self, found: Diagnosis) -> str:
        """The stage whose model went into the culprit."""
        names = [one.id for one in self.chain]
        return names[names.index(found.culprit) - 1]

    def _places(self, found: Diagnosis) -> Diagnosis:
        """Where in the culprit's model the error enters."""
        given = {key: self.stage.params[key] for key in ("dataset", "dims", "target") if key in self.stage.params}
        needs = {"model": found.culprit, "reference": self._before(found)}
        params = {**given, "time": THOROUGH if self.bench.left > 2 * THOROUGH else QUICK, "trials": 256}
        stage = self.bench.make(f"places of {found.culprit}", "quantize/debug", self.stage, needs, params)
        result = self.bench.run([stage.id])
        if not result[stage.id].out:
            return replace(found, stopped=f"no node could be told: {upstream_metrics.reason(result, stage.id)}")
        table = json.loads((Path(result[stage.id].out) / "tensors.json").read_bytes())
        places = tuple(_places(table["findings"]))
        note, stopped = (
            _both(found.note, _note(table, self.bench.stage(found.culprit))),
            _both(found.stopped, _untried(table)),
        )
        return replace(found, places=places, chosen=_chosen(places), note=note, stopped=stopped)

    def _proof(self, found: Diagnosis) -> Diagnosis:
        """Build the culprit's model without the places; the first way that can be built counts."""
        if not found.chosen:
            return found
        for how, made in self._variants(found):
            timed = self._timing(made, found.culprit)
            measured = upstream_metrics.variant(self.bench, self.measured.stage, self.gate, made.id)
            proof = self._proven(how, made, self.bench.run([measured.id]), measured.id)
            found = replace(found, proof=proof)
            if proof.value is not None:
                return replace(found, proof=replace(proof, seconds=self._difference(timed.id)))
        return found

    def _variants(self, found: Diagnosis) -> Sequence[tuple[str, Stage]]:
        culprit, places = self.bench.pipeline.stage(found.culprit), found.places[: found.chosen]
        variants: list[tuple[str, Stage]] = []
        name = EXCLUDING.get(culprit.uses, "")
        if name:
            nodes = [*culprit.params[name], *(node for place in places for node in place.nodes)]
            params = {**culprit.params, name: list(dict.fromkeys(filter(None, nodes)))}
            variants.append(("excluded", self.bench.add(culprit, id=f"{culprit.id} without", params=params)))
        needs = {"model": culprit.id, "reference": self._before(found)}
        tensors = {"tensors": [place.tensor for place in places]}
        restored = self.bench.make(f"{culprit.id} restored", "diagnose/restored", culprit, needs, tensors)
        return [*variants, ("restored", restored)]

    def _timing(self, made: Stage, culprit: str) -> Stage:
        needs = {"model": made.id, "reference": culprit}
        like = next((one for one in self.bench.pipeline.stages if one.uses == "measure/latency"), self.stage)
        names = ("inputs", "batch", "shape", "target") if like.uses == "measure/latency" else ("target",)
        params = {key: like.params[key] for key in names if key in like.params}
        return self.bench.make(f"time of {made.id}", "measure/latency", like, needs, {**params, **TIMING})

    def _proven(self, how: str, made: Stage, result: RunResult, measured: str) -> Proof:
        level = upstream_metrics.level(result, made.id, measured, self.metric)
        why = upstream_metrics.reason(result, made.id) if not result[made.id].out else level.why
        return Proof(how, made.id, level.value, level.passes, why=why)

    def _difference(self, timed: str) -> Estimate | None:
        """What an inference of the variant takes longer; None where there is no time left to measure it."""
        try:
            metric = self.bench.run([timed])[timed].metrics.get("cpu")
        except OutOfTime:
            return None
        return metric.reference.difference if metric and metric.reference else None


def _places(rows: Sequence[Mapping[str, Any]]) -> Sequence[Place]:
    """The places that were put right one at a time, the largest share first."""
    ordered = sorted(rows, key=lambda row: row["order"])
    tried = [row for row in rows if row["share"] is not None]
    made = []
    for row in sorted(tried, key=lambda row: -row["share"])[:SHOWN]:
        before = [one["sqnr"] for one in ordered if one["order"] < row["order"]]
        made.append(
            Place(
                node=row["node"],
                share=row["share"],
                nodes=tuple(filter(None, row["nodes"])),
                op=row["op"],
                tensor=row["tensor"],
                now=tuple(row["replaced"]),
                before=min(before, default=None),
                after=row["sqnr"],
            )
        )
    return made


def _untried(table: Mapping[str, Any]) -> str:
    left, tried = table["left"], table["tried"]
    found = [f"{left} of {left + tried} places that differ were not tried"] if left else []
    if table["tried_with"] < table["examples"]:
        found.append(f"places were tried with {table['tried_with']} of {table['examples']} examples, for want of time")
    return "; ".join(found)


def _note(table: Mapping[str, Any], culprit: Stage) -> str:
    """Whether the model errs more in earnest than its nodes do one by one."""
    plain, whole = table["error"], table["optimized_error"]
    if whole <= KERNEL * plain:
        return ""
    size = f"{whole / plain:.0f} times as large" if plain else "there, and without them it is not"
    note = f"with ONNX Runtime's optimizations the error is {size}: one of its own kernels does it, not a node"
    if culprit.params.get("reduce_range") is False and saturates():
        note += "; this processor, without VNNI, saturates sums of 8-bit products: "
        note += f"`reduce_range: true` of `{culprit.id}` avoids it"
    return note


def _both(*texts: str) -> str:
    return "; ".join(text for text in (one.strip("; ") for one in texts) if text)


def _chosen(places: Sequence[Place]) -> int:
    """How many of the first places bring enough of the error; none when they bring next to nothing."""
    total = 0.0
    telling = [place for place in places[:MOST] if place.share >= TRACE]  # one that makes up for others does no harm
    for count, place in enumerate(telling, start=1):
        total += place.share
        if total >= ENOUGH:
            return count
    return len(telling) if total > 1 - ENOUGH else 0
