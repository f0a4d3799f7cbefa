"""Investigation of a failed latency gate: the stage, its nodes, and a variant without them as proof."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from orun.blame import messages, upstream_metrics
from orun.blame.diagnosis import OUT_OF_TIME, Diagnosis, Level, Place, Proof
from orun.blame.experiment import Experiment, OutOfTime
from orun.blame.origin import EarlierModel, rebuild_chain
from orun.blame.restoration import INPUT_PARAMETERS, MOST, SHOWN, TIMING, count_enough, read_time_difference
from orun.core.metrics import Comparison
from orun.core.run_record import StageResult
from orun.pipeline.model import Gate, Stage


@dataclass
class Investigation:
    """A latency gate that failed."""

    experiment: Experiment
    stage: Stage
    gate: Gate
    chain: Sequence[Stage]  # the stages upstream, in order
    other: str  # the reference or the accepted baseline; empty for none
    earlier: EarlierModel | None  # if the first model has changed since the gate passed
    before: str = ""
    slow: Comparison | None = None

    def solve(self, diagnosis: Diagnosis) -> Diagnosis:
        """Complete the diagnosis as far as time allows."""
        diagnosis = self._find_culprit(diagnosis)
        return self.compare_earlier(diagnosis, self.earlier) if self.earlier else diagnosis

    def compare_earlier(self, diagnosis: Diagnosis, earlier: EarlierModel) -> Diagnosis:
        """Say that the first model has changed; blame it if the chain rebuilt from the earlier one is unchanged."""
        last = self.chain[-1].id
        try:
            rebuilt = rebuild_chain(self.experiment, earlier, self.stage)[last] if earlier.here else ""
            same = bool(rebuilt) and self.experiment.run([rebuilt])[rebuilt].tree == earlier.last
        except OutOfTime:
            same = False
        note = messages.describe_changed_model(earlier)
        if not same:
            return replace(diagnosis, notes=(note,))
        origin = note if last == earlier.stage else f"{note}: built from the earlier one, `{last}` is unchanged"
        if diagnosis.culprit and self.slow:
            sentence = messages.describe_latency(diagnosis, self.before, self.slow, origin)
            return replace(diagnosis, culprit=earlier.stage, sentence=sentence)
        return replace(diagnosis, sentence=f"{diagnosis.sentence}; {origin}")

    def _find_culprit(self, diagnosis: Diagnosis) -> Diagnosis:
        try:
            diagnosis = self._profile_steps(diagnosis)
            if not diagnosis.culprit:
                return diagnosis
            diagnosis = self._prove(diagnosis)
        except OutOfTime:
            diagnosis = replace(diagnosis, stopped=OUT_OF_TIME)
        if not diagnosis.culprit or self.slow is None:
            return diagnosis
        return replace(diagnosis, sentence=messages.describe_latency(diagnosis, self.before, self.slow))

    def _profile_steps(self, diagnosis: Diagnosis) -> Diagnosis:
        """Profile each artifact and the one before it together; the culprit is the stage with the largest slow-down."""
        pairs = self._list_pairs()
        results: dict[str, StageResult] = {}
        try:
            for before, after in reversed(pairs):  # late stages slow a model down most often
                needs = {"model": after, "reference": before}
                name = f"profile of {after}"
                self.experiment.make(name, "measure/profile", self.stage, needs, self._select_input_parameters())
                results[after] = self.experiment.run([name])[name]
        except OutOfTime:
            if not results:
                raise
            diagnosis = replace(diagnosis, stopped=OUT_OF_TIME)
        totals = {after: result.metrics.get("total") for after, result in results.items()}
        steps = {after: total.reference if total else None for after, total in totals.items()}
        diagnosis = replace(diagnosis, levels=tuple(_read_levels(pairs[-len(results) :], steps, results)))
        slower = {after: step for after, step in steps.items() if step and step.difference.low > 0}
        if not slower:
            return replace(
                diagnosis, sentence=messages.describe_not_slower(diagnosis, [step for step in steps.values() if step])
            )
        culprit = max(slower, key=lambda name: slower[name].difference.value)
        self.before = next(before for before, after in pairs if after == culprit)
        self.slow = slower[culprit]
        table = json.loads((Path(results[culprit].out) / "profile.json").read_bytes())
        places = tuple(_read_places(table["slower"]["places"]))
        chosen = count_chosen(places)
        return replace(diagnosis, culprit=culprit, lost=self.slow.difference.value, places=places, chosen=chosen)

    def _list_pairs(self) -> list[tuple[str, str]]:
        """Return neighbours in the chain, from the reference on if it is in the chain; else the other and the last."""
        names = [stage.id for stage in self.chain]
        if self.other in names:
            names = names[names.index(self.other) :]
        elif self.other:
            return [(self.other, names[-1])]
        return list(pairwise(names))

    def _select_input_parameters(self) -> dict[str, Any]:
        return {key: self.stage.params[key] for key in INPUT_PARAMETERS if key in self.stage.params}

    def _prove(self, diagnosis: Diagnosis) -> Diagnosis:
        """Put the nodes of the model before back into the places, and measure what that saves."""
        if not diagnosis.chosen:
            return diagnosis
        nodes = [name for place in diagnosis.places[: diagnosis.chosen] for name in place.nodes]
        needs = {"model": diagnosis.culprit, "reference": self.before}
        name = f"{diagnosis.culprit} restored"
        restored = self.experiment.make(name, "diagnose/restored", self.stage, needs, {"tensors": [], "nodes": nodes})
        params = {**self._select_input_parameters(), **TIMING}
        models = {"model": diagnosis.culprit, "reference": restored.id}
        timing = self.experiment.make(f"time of {restored.id}", "measure/latency", self.stage, models, params)
        result = self.experiment.run([timing.id])
        seconds = read_time_difference(result[timing.id])
        failed = restored.id if not result[restored.id].out else timing.id
        why = "" if seconds else upstream_metrics.explain_missing(result, failed)
        return replace(diagnosis, proof=Proof("restored", restored.id, seconds=seconds, why=why))


def _read_levels(
    pairs: Sequence[tuple[str, str]], steps: Mapping[str, Comparison | None], results: Mapping[str, StageResult]
) -> Sequence[Level]:
    """Return the time of the nodes of each artifact, beginning with the model before the first step."""
    levels: list[Level] = []
    for before, after in pairs:
        step, result = steps[after], results[after]
        if step is None:
            why = upstream_metrics.describe(result.failure) if result.failure else "it could not be profiled"
            levels.append(Level(after, None, why=why))
            continue
        if not levels:
            levels.append(Level(before, step.value))
        levels.append(Level(after, result.metrics["total"].value))
    return levels


def _read_places(rows: Sequence[Mapping[str, Any]]) -> Sequence[Place]:
    """Return the places that got slower, the largest share first."""
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


def count_chosen(places: Sequence[Place]) -> int:
    """Return how many of the first places explain enough of the slow-down."""
    return count_enough(places) or min(len(places), MOST)
