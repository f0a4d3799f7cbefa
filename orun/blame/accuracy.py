"""Investigation of a failed accuracy gate: the stage, its nodes, and a variant without them as proof."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orun.blame import messages, upstream_metrics
from orun.blame.diagnosis import OUT_OF_TIME, Diagnosis, Place, Proof
from orun.blame.experiment import Experiment, OutOfTime
from orun.blame.origin import BEFORE, EarlierModel, rebuild_chain
from orun.blame.restoration import ENOUGH, INPUT_PARAMETERS, MOST, SHOWN, TIMING, count_enough, read_time_difference
from orun.blame.search import FEW, PATIENCE, SearchResult, measure
from orun.core.metrics import Estimate
from orun.environment.processor import saturates
from orun.pipeline.model import Gate, Stage

EXCLUDING: Mapping[str, str] = {  # parameter of a kind that leaves nodes unchanged
    "quantize/dynamic": "exclude",
    "quantize/static": "exclude",
    "quantize/weights": "exclude",
    "optimize/float16": "block_nodes",
}
TRACE = 0.005  # share of the error from which a place counts: less is shown as 0 %
FEWER = f"measured with at most {FEW} of the examples, to save time"
ROUNDS = 4  # measurements with all examples that must fit into the time; else few examples serve to the end
KERNEL = 4  # times the error of the nodes from which ONNX Runtime's own optimizations are to blame
FEWEST = 8  # examples with which the nodes are tried if a measurement takes long
QUICK, THOROUGH = 10.0, 60.0  # seconds for the nodes: only two values, so that a stored result is found again
WITHOUT_OUTPUTS = frozenset({"measure/size", "measure/memory", "measure/startup", "measure/load"})
OTHER_UNITS = frozenset({"B", "s", "J", "1/s", "x"})  # units of size, speed and energy, not of accuracy


@dataclass
class Investigation:
    """An accuracy gate that failed."""

    experiment: Experiment
    stage: Stage
    gate: Gate
    chain: Sequence[Stage]  # the stages upstream, in order
    earlier: EarlierModel | None  # if the first model has changed since the gate passed
    metric: str  # that the gate judges, or that of one slice
    changed: str = ""  # what changed in the measurement itself since the gate passed; empty for nothing
    search: SearchResult = field(init=False)

    def __post_init__(self) -> None:
        self.search = SearchResult((), self.stage)

    def solve(self, diagnosis: Diagnosis) -> Diagnosis:
        """Complete the diagnosis as far as time allows."""
        try:
            diagnosis = self.compare_earlier(self.find_stage(diagnosis))
            if diagnosis.proof:
                return diagnosis
            if not diagnosis.culprit:
                known = all(level.value is not None for level in diagnosis.levels)
                start = diagnosis.levels[0].stage if diagnosis.levels and known else ""
                notes = (*diagnosis.notes, *filter(None, [self.changed]))
                return replace(diagnosis, sentence=messages.describe_no_culprit(diagnosis), start=start, notes=notes)
            diagnosis = replace(diagnosis, sentence=messages.name_stage_and_start(diagnosis))
            if self.stage.uses in WITHOUT_OUTPUTS or diagnosis.unit in OTHER_UNITS:
                return diagnosis
            diagnosis = self._find_places(diagnosis)
            if not diagnosis.places:
                return diagnosis
            diagnosis = self._prove(self._measure_all_examples(diagnosis))
        except OutOfTime:
            diagnosis = replace(diagnosis, stopped=OUT_OF_TIME)
        if not diagnosis.places:
            return diagnosis
        return replace(diagnosis, sentence=messages.describe_accuracy(diagnosis, self._find_stage_before(diagnosis)))

    def find_stage(self, diagnosis: Diagnosis) -> Diagnosis:
        """Find the stage that made the metric worse; with all examples if a few do not show it."""
        for patience in (PATIENCE, math.inf):
            self.search = measure(self.experiment, self.stage, self.gate, self.chain, patience, self.metric)
            stopped = "" if self.search.complete else OUT_OF_TIME
            diagnosis = self._blame_worst_step(replace(diagnosis, levels=self.search.levels, stopped=stopped))
            if diagnosis.culprit or self.search.stage is self.stage:
                break
        return diagnosis if self.search.stage is self.stage else replace(diagnosis, notes=(FEWER,))

    def compare_earlier(self, diagnosis: Diagnosis) -> Diagnosis:
        """Check whether the first model itself got worse since the gate passed."""
        if self.earlier is None:
            return diagnosis
        try:
            if self.earlier.here:
                return self._measure_earlier(diagnosis, self.earlier)
        except OutOfTime:
            diagnosis = replace(diagnosis, stopped=OUT_OF_TIME)
        return replace(diagnosis, notes=(*diagnosis.notes, messages.describe_changed_model(self.earlier)))

    def _measure_earlier(self, diagnosis: Diagnosis, earlier: EarlierModel) -> Diagnosis:
        """Measure the earlier model, and the last model of a chain rebuilt from it."""
        stage = self.search.stage
        rebuilt = rebuild_chain(self.experiment, earlier, stage)
        needs = {port: rebuilt.get(source, source) for port, source in stage.needs.items()}
        port = upstream_metrics.find_model_port(self.experiment.pipeline, stage)
        first = self.experiment.add(
            stage, id=f"{stage.id} of {earlier.name}", needs=needs | {port: earlier.name}, gates=(self.gate,), after=()
        )
        last = self.experiment.add(stage, id=f"{stage.id} {BEFORE}", needs=needs, gates=(self.gate,), after=())
        result = self.experiment.run([first.id, last.id])
        first_level = upstream_metrics.read_level(result, earlier.name, first.id, self.metric)
        last_level = upstream_metrics.read_level(result, needs[port], last.id, self.metric)
        proof = Proof("mixed", needs[port], last_level.value, last_level.passes, why=last_level.why)
        levels = (first_level, *diagnosis.levels)
        step = upstream_metrics.find_worst_step(levels, upstream_metrics.choose_sign(self.gate, self.search.metrics))
        if step is None or step.before is not first_level:
            changed = messages.describe_changed_model(earlier, diagnosis, proof)
            return replace(diagnosis, notes=(*diagnosis.notes, changed))
        diagnosis = replace(diagnosis, levels=levels, culprit=earlier.stage, lost=step.lost, proof=proof)
        return replace(diagnosis, sentence=messages.describe_origin(diagnosis, earlier))

    def _blame_worst_step(self, diagnosis: Diagnosis) -> Diagnosis:
        sign = upstream_metrics.choose_sign(self.gate, self.search.metrics)
        step = upstream_metrics.find_worst_step(diagnosis.levels, sign)
        return replace(diagnosis, culprit=step.after.stage if step else "", lost=step.lost if step else 0.0)

    def _measure_all_examples(self, diagnosis: Diagnosis) -> Diagnosis:
        """Measure before and after the culprit with all examples, if that and a variant fit into the time."""
        if self.search.stage is self.stage or ROUNDS * self.search.seconds > self.experiment.left:
            return diagnosis
        names = (self._find_stage_before(diagnosis), diagnosis.culprit)
        add = upstream_metrics.add_measurement
        stages = {name: add(self.experiment, self.stage, self.gate, name).id for name in names}
        result = self.experiment.run(list(stages.values()))
        levels = tuple(upstream_metrics.read_level(result, name, stages[name], self.metric) for name in names)
        few, *later = diagnosis.notes
        notes = (f"found with at most {FEW} examples, measured with all of them", *later)
        confirmed = self._blame_worst_step(replace(diagnosis, levels=levels, notes=notes))
        if not confirmed.culprit:
            return replace(diagnosis, notes=(few, "with all examples no loss was measured", *later))
        self.search = replace(self.search, stage=self.stage)
        return confirmed

    def _find_stage_before(self, diagnosis: Diagnosis) -> str:
        """Return the stage whose model is the culprit's input."""
        names = [stage.id for stage in self.chain]
        return names[names.index(diagnosis.culprit) - 1]

    def _find_places(self, diagnosis: Diagnosis) -> Diagnosis:
        """Find the nodes of the culprit's model at which the error enters."""
        copied = {key: self.stage.params[key] for key in ("dataset", "dims", "target") if key in self.stage.params}
        needs = {"model": diagnosis.culprit, "reference": self._find_stage_before(diagnosis)}
        seconds = THOROUGH if self.experiment.left > 2 * THOROUGH else QUICK
        samples = FEWEST if ROUNDS * self.search.seconds > self.experiment.left else FEW
        params = {**copied, "samples": samples, "time": seconds, "trials": 256}
        stage = self.experiment.make(f"places of {diagnosis.culprit}", "quantize/debug", self.stage, needs, params)
        result = self.experiment.run([stage.id])
        if not result[stage.id].out:
            why = upstream_metrics.explain_missing(result, stage.id)
            return replace(diagnosis, stopped=f"the node is unknown: {why}")
        table = json.loads((Path(result[stage.id].out) / "tensors.json").read_bytes())
        places = tuple(_read_places(table["findings"]))
        notes = (
            *diagnosis.notes,
            *describe_kernel_error(table, self.experiment.find_stage(diagnosis.culprit)),
            *_describe_untried(table),
        )
        return replace(diagnosis, places=places, chosen=count_chosen(places), notes=notes)

    def _prove(self, diagnosis: Diagnosis) -> Diagnosis:
        """Build the culprit's model without the places; the first variant that can be built counts."""
        if not diagnosis.chosen:
            return diagnosis
        for how, variant in self._list_variants(diagnosis):
            timing = self._add_timing(variant, diagnosis.culprit)
            measurement = upstream_metrics.add_measurement(self.experiment, self.search.stage, self.gate, variant.id)
            result = self.experiment.run([measurement.id])
            level = upstream_metrics.read_level(result, variant.id, measurement.id, self.metric)
            built = bool(result[variant.id].out)
            why = level.why if built else upstream_metrics.explain_missing(result, variant.id)
            proof = Proof(how, variant.id, level.value, level.passes, why=why)
            diagnosis = replace(diagnosis, proof=proof)
            if proof.value is not None:
                return replace(diagnosis, proof=replace(proof, seconds=self._measure_time_difference(timing.id)))
        return diagnosis

    def _list_variants(self, diagnosis: Diagnosis) -> Sequence[tuple[str, Stage]]:
        """Return the ways to build the culprit's model without the places, the cheapest first."""
        culprit, places = self.experiment.pipeline.stage(diagnosis.culprit), diagnosis.places[: diagnosis.chosen]
        variants: list[tuple[str, Stage]] = []
        name = EXCLUDING.get(culprit.uses, "")
        if name:
            nodes = [*culprit.params[name], *(node for place in places for node in place.nodes)]
            params = {**culprit.params, name: list(dict.fromkeys(filter(None, nodes)))}
            variants.append(("excluded", self.experiment.add(culprit, id=f"{culprit.id} without", params=params)))
        needs = {"model": culprit.id, "reference": self._find_stage_before(diagnosis)}
        tensors = {"tensors": [place.tensor for place in places]}
        restored = self.experiment.make(f"{culprit.id} restored", "diagnose/restored", culprit, needs, tensors)
        return [*variants, ("restored", restored)]

    def _add_timing(self, variant: Stage, culprit: str) -> Stage:
        needs = {"model": variant.id, "reference": culprit}
        stages = self.experiment.pipeline.stages
        like = next((stage for stage in stages if stage.uses == "measure/latency"), self.stage)
        names = INPUT_PARAMETERS if like.uses == "measure/latency" else ("target",)
        params = {key: like.params[key] for key in names if key in like.params}
        return self.experiment.make(f"time of {variant.id}", "measure/latency", like, needs, {**params, **TIMING})

    def _measure_time_difference(self, timing: str) -> Estimate | None:
        """Return how much longer an inference of the variant takes; None if no time is left to measure it."""
        try:
            return read_time_difference(self.experiment.run([timing])[timing])
        except OutOfTime:
            return None


def _read_places(rows: Sequence[Mapping[str, Any]]) -> Sequence[Place]:
    """Return the places that were restored one at a time, the largest share first."""
    tried = [row for row in rows if row["share"] is not None]
    places = []
    for row in sorted(tried, key=lambda row: -row["share"])[:SHOWN]:
        before = [earlier["sqnr"] for earlier in rows if earlier["order"] < row["order"]]
        places.append(
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
    return places


def _describe_untried(table: Mapping[str, Any]) -> Iterator[str]:
    left, tried = table["left"], table["tried"]
    if left:
        yield f"{left} of {left + tried} places that differ were not tried"
    if table["tried_with"] < table["examples"] or table["examples"] == FEWEST:
        yield f"places were tried with {table['tried_with']} examples, to save time"


def describe_kernel_error(table: Mapping[str, Any], culprit: Stage) -> Iterator[str]:
    """Say that the error is much larger with ONNX Runtime's optimizations than without, if it is."""
    plain, optimized = table["error"], table["optimized_error"]
    if optimized <= KERNEL * plain:
        return
    size = f"is {optimized / plain:.0f} times as large" if plain else "appears, and without them there is none"
    yield f"with ONNX Runtime's optimizations the error {size}: a kernel of ONNX Runtime causes it, not a node"
    if culprit.params.get("reduce_range") is False and saturates():
        yield (
            "this processor, without VNNI, saturates sums of 8-bit products: "
            f"`reduce_range: true` of `{culprit.id}` avoids it"
        )


def count_chosen(places: Sequence[Place]) -> int:
    """Return how many of the first places explain enough of the error; 0 if they explain next to nothing."""
    telling = [place for place in places[:MOST] if place.share >= TRACE]  # a negative share compensates for others
    some = sum(place.share for place in telling) > 1 - ENOUGH
    return count_enough(telling) or (len(telling) if some else 0)
