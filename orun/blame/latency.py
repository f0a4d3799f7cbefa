"""Why a model takes longer: the stage, the nodes, and a variant without them that shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from orun.blame import messages, upstream_metrics
from orun.blame.diagnosis import OUT_OF_TIME, Diagnosis, Level, Place, Proof
from orun.blame.experiment import Bench, OutOfTime
from orun.blame.origin import Past, rebuilt
from orun.core.metrics import Comparison
from orun.core.run_record import StageResult
from orun.pipeline.model import Gate, Stage

ENOUGH = 0.8
MOST = 5
SHOWN = 20
TIMING: Mapping[str, Any] = {"time": 4.0, "samples": 6, "max_launches": 4}
FEEDING = ("inputs", "batch", "shape", "target")


@dataclass
class Case:
    """A latency gate that failed.

    Attributes:
        bench: where variants are run.
        stage: the stage with the gate.
        gate: the gate.
        chain: the stages upstream, the first made first.
        other: the stage whose model it is compared with: the reference, or the accepted baseline; empty for none.
        past: the first model as it was when the gate was good, where it is another one now.
        before: the stage whose model went into the culprit, once that is known.
        slow: the culprit's time in nodes against that of the model before.
    """

    bench: Bench
    stage: Stage
    gate: Gate
    chain: Sequence[Stage]
    other: str
    past: Past | None = None
    before: str = ""
    slow: Comparison | None = None

    def solve(self, found: Diagnosis) -> Diagnosis:
        """Fill the diagnosis in as far as time allows."""
        found = self._slower(found)
        return self._since(found, self.past) if self.past else found

    def _since(self, found: Diagnosis, past: Past) -> Diagnosis:
        """Say that the first model is another one, and see whether that alone makes the last one another."""
        last = self.chain[-1].id
        try:
            made = rebuilt(self.bench, past, self.stage)[last] if past.here else ""
            same = bool(made) and self.bench.run([made])[made].tree == past.last
        except OutOfTime:
            same = False
        said = messages.another(past)
        if not same:
            return replace(found, note=said)
        told = f"{said}: of that one `{last}` makes the very model of then" if last != past.stage else said
        if found.culprit and self.slow:
            return replace(found, culprit=past.stage, sentence=messages.latency(found, self.before, self.slow, told))
        return replace(found, sentence=f"{found.sentence}; {told}")

    def _slower(self, found: Diagnosis) -> Diagnosis:
        try:
            found = self._steps(found)
            if not found.culprit:
                return found
            found = self._proof(found)
        except OutOfTime:
            found = replace(found, stopped=OUT_OF_TIME)
        if not found.culprit or self.slow is None:
            return found
        return replace(found, sentence=messages.latency(found, self.before, self.slow))

    def _steps(self, found: Diagnosis) -> Diagnosis:
        """Profile each artifact beside the one before it; the culprit is that which got slower most."""
        pairs = self._pairs()
        results: dict[str, StageResult] = {}
        try:
            for before, after in reversed(pairs):  # most of what makes a model slow is done to it late
                one = self._profile(before, after)
                results[after] = self.bench.run([one.id])[one.id]
        except OutOfTime:
            if not results:
                raise
            found = replace(found, stopped=OUT_OF_TIME)
        steps = {after: _compared(one) for after, one in results.items()}
        found = replace(found, levels=tuple(_levels(pairs[-len(results) :], steps, results)))
        slower = {after: step for after, step in steps.items() if step and step.difference.low > 0}
        if not slower:
            return replace(found, sentence=messages.not_slower(found, [step for step in steps.values() if step]))
        culprit = max(slower, key=lambda name: slower[name].difference.value)
        self.before = next(before for before, after in pairs if after == culprit)
        self.slow = slower[culprit]
        table = json.loads((Path(results[culprit].out) / "profile.json").read_bytes())
        places = tuple(_places(table["slower"]["places"]))
        chosen = _chosen(places)
        return replace(found, culprit=culprit, lost=self.slow.difference.value, places=places, chosen=chosen)

    def _pairs(self) -> list[tuple[str, str]]:
        """Neighbours in the chain; from the reference on where that is in it, and the baseline beside the last."""
        names = [one.id for one in self.chain]
        if self.other in names:
            names = names[names.index(self.other) :]
        elif self.other:
            return [(self.other, names[-1])]
        return list(pairwise(names))

    def _given(self) -> dict[str, Any]:
        return {key: self.stage.params[key] for key in FEEDING if key in self.stage.params}

    def _profile(self, before: str, after: str) -> Stage:
        needs = {"model": after, "reference": before}
        return self.bench.make(f"profile of {after}", "measure/profile", self.stage, needs, self._given())

    def _proof(self, found: Diagnosis) -> Diagnosis:
        """Put the nodes of the model before into the places, and measure what that saves."""
        if not found.chosen:
            return found
        nodes = [name for place in found.places[: found.chosen] for name in place.nodes]
        needs = {"model": found.culprit, "reference": self.before}
        name = f"{found.culprit} restored"
        restored = self.bench.make(name, "diagnose/restored", self.stage, needs, {"tensors": [], "nodes": nodes})
        params = {**self._given(), **TIMING}
        beside = {"model": found.culprit, "reference": restored.id}
        timed = self.bench.make(f"time of {restored.id}", "measure/latency", self.stage, beside, params)
        result = self.bench.run([timed.id])
        metric = result[timed.id].metrics.get("cpu")
        seconds = metric.reference.difference if metric and metric.reference else None
        failed = restored.id if not result[restored.id].out else timed.id
        why = "" if seconds else upstream_metrics.reason(result, failed)
        return replace(found, proof=Proof("restored", restored.id, seconds=seconds, why=why))


def _compared(one: StageResult) -> Comparison | None:
    metric = one.metrics.get("total")
    return metric.reference if metric else None


def _levels(
    pairs: Sequence[tuple[str, str]], steps: Mapping[str, Comparison | None], results: Mapping[str, StageResult]
) -> Sequence[Level]:
    """Time of the nodes of each artifact; the first is that of the model before the first step."""
    found: list[Level] = []
    for before, after in pairs:
        step, one = steps[after], results[after]
        if step is None:
            why = one.failure.what if one.failure else "it could not be profiled"
            found.append(Level(after, None, why=why))
            continue
        if not found:
            found.append(Level(before, step.value))
        found.append(Level(after, one.metrics["total"].value))
    return found


def _places(rows: Sequence[Mapping[str, Any]]) -> Sequence[Place]:
    """Places that got slower, the one that explains most first."""
    slower = [row for row in rows if row["seconds"] > row["reference"]]
    return [
        Place(
            node=row["name"],
            share=row["share"],
            nodes=tuple(dict.fromkeys((*row.get("nodes", ()), *row.get("gone", ())))),
            op=f"{row['count']} for {row['reference_count']}",
            before=row["reference"],
            after=row["seconds"],
        )
        for row in slower[:SHOWN]
    ]


def _chosen(places: Sequence[Place]) -> int:
    """How many of the first places explain enough of it, of those that explain anything to speak of."""
    total = 0.0
    for count, place in enumerate(places[:MOST], start=1):
        total += place.share
        if total >= ENOUGH:
            return count
    return min(len(places), MOST)
