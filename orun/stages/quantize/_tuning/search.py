"""Search: single recipes first, then the best of them with the worst layers in float, then Optuna."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from orun.core.serialization import replace
from orun.core.targets import Target
from orun.errors import OrunError, StageFailed
from orun.stages._graph.io import measure_files
from orun.stages.quantize._tuning.build import RefusedError, Workshop
from orun.stages.quantize._tuning.harm import Group, rank
from orun.stages.quantize._tuning.judge import Judge
from orun.stages.quantize._tuning.settings import Settings, make_settings
from orun.stages.quantize._tuning.trial_log import Trial, TrialLog

FINALISTS = 4
NEAREST = 3  # candidates that the message names when none reaches the goal
PATIENCE = 10  # trials of Optuna without a better model before it stops
RANKING = 0.25  # share of the time, at most, for ranking layers by harm
FINAL = 0.2  # share of the time for the finalists

Objective = Literal["latency", "size"]


@dataclass
class Search:
    """One search.

    Attributes:
        workshop: makes candidates.
        judge: judges candidates.
        places: variants of the target by name.
        trial_log: trials so far.
        recipes: recipes to begin with.
        objective: what the search minimizes.
        trials, seconds: number and time after which no further candidate is tried.
        outputs: names of the model's outputs.
        feeds: inputs of a few real examples.
        log, progress: of the stage.
    """

    workshop: Workshop
    judge: Judge
    places: Mapping[str, Target]
    trial_log: TrialLog
    recipes: Sequence[Settings]
    objective: Objective
    trials: int
    seconds: float
    outputs: Sequence[str]
    feeds: Sequence[Mapping[str, NDArray[Any]]]
    log: logging.Logger
    progress: Callable[[int, int, str], None]
    _groups: dict[bool, list[Group]] = field(default_factory=dict)

    def run(self) -> tuple[Trial, list[Trial]]:
        """Return the chosen candidate, judged on all examples, and the Pareto front of cost and accuracy.

        Raises:
            StageFailed: when no candidate reaches the goal.
        """
        self._began = time.monotonic()
        for recipe in self.recipes:
            self._try(recipe)
        self._keep_the_worst()
        self._explore()
        return self._choose_final(), self._list_front()

    @property
    def _over(self) -> bool:
        return len(self.trial_log.trials) >= self.trials or time.monotonic() > self._began + self.seconds * (1 - FINAL)

    def _compute_cost(self, trial: Trial) -> float:
        return trial.time if self.objective == "latency" else float(trial.size)

    def _reaches_goal(self, trial: Trial) -> bool:
        return not trial.refused and self.judge.goal.measure_gap(trial.accuracy) == 0

    def _find_best_cost(self) -> float:
        costs = [self._compute_cost(trial) for trial in self.trial_log.trials.values() if self._reaches_goal(trial)]
        return min((cost for cost in costs if math.isfinite(cost)), default=math.inf)

    def _try(self, wanted: Settings) -> Trial:
        if wanted in self.trial_log.trials:
            return self.trial_log.trials[wanted]
        self.progress(len(self.trial_log.trials), self.trials, f"candidates, now {wanted.title}")
        trial = self._judge(wanted)
        self.trial_log.add(trial)
        result = f"{self.judge.goal.metric} {trial.accuracy:.5g}, time {trial.time:.3f}, {trial.size} bytes"
        self.log.info("%s: %s", wanted.title, trial.refused or result)
        if not self._reaches_goal(trial):
            self.workshop.drop(wanted)
        return trial

    def _judge(self, wanted: Settings) -> Trial:
        groups = self._rank_groups(wanted.fused)[: wanted.kept] if wanted.kept else []
        kept = tuple(name for group in groups for name in group.nodes)
        try:
            model = self.workshop.build_model(wanted, kept)
            accuracy = self.judge.measure_accuracy(model, self.places[wanted.place])
            useful = self.objective == "latency" and (self.judge.goal.measure_gap(accuracy) == 0 or not wanted.kept)
            spent = self.judge.time(model, self.places[wanted.place]) if useful else math.nan
        except (RefusedError, OrunError) as error:
            if wanted == make_settings("float"):  # nothing works if the original model does not
                raise
            return Trial(wanted, math.nan, math.nan, 0, str(error).partition("\n")[0] or type(error).__name__, kept)
        return Trial(wanted, accuracy, spent, measure_files(model.parent), kept=kept)

    def _rank_groups(self, fused: bool) -> list[Group]:
        """Return the groups of the model, or of the fused model, the most harmful first."""
        if fused not in self._groups:
            probe = make_settings("dynamic", fused=fused, per_channel=True)

            def make_except(kept: Sequence[str]) -> Path | None:
                options = (*probe.options, ("exclude", tuple(kept)))
                settings = replace(probe, kept=-1, options=options)  # -1: no candidate has it
                try:
                    return self.workshop.build_model(settings, kept)
                except RefusedError:
                    return None

            model = self.workshop.build_model(make_settings("float", fused=fused))
            self.progress(len(self.trial_log.trials), self.trials, "candidates, now which layers suffer most")
            self._groups[fused] = rank(model, self.outputs, self.feeds, make_except, self.seconds * RANKING)
            worst = [f"{', '.join(group.nodes)}: {group.harm:.2g}" for group in self._groups[fused][:5]]
            self.log.info("most harmful when quantized:\n  %s", "\n  ".join(worst))
        return self._groups[fused]

    def _keep_the_worst(self) -> None:
        """Find, for each cheap recipe that misses the goal, the fewest groups that must stay in float."""
        trials = self.trial_log.trials.values()
        short = [trial for trial in trials if not trial.refused and not self._reaches_goal(trial)]
        for trial in sorted((trial for trial in short if not trial.settings.kept), key=self._compute_cost):
            if self._over or trial.settings.method == "float":
                continue
            if self._compute_cost(trial) >= self._find_best_cost():
                break  # layers in float only make it dearer, and the next recipes are dearer still
            self._bisect(trial.settings)

    def _bisect(self, recipe: Settings) -> None:
        low, high = (
            0,
            len(self._rank_groups(recipe.fused)),
        )  # `low` groups miss the goal; with all it is the float model
        while high - low > 1 and not self._over:
            middle = (low + high) // 2
            if self._reaches_goal(self._try(replace(recipe, kept=middle))):
                high = middle
            else:
                low = middle

    def _explore(self) -> None:
        """Let Optuna's TPE choose recipes and numbers of groups in float (Bergstra et al. 2011)."""
        import optuna

        trials = [self.trial_log.trials[recipe] for recipe in self.recipes]
        usable = [trial for trial in trials if not trial.refused and trial.settings.method != "float"]
        quantized = [trial.settings for trial in sorted(usable, key=self._compute_cost)]  # the cheapest first
        if self._over or not quantized:
            return
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self.judge.seed)
        study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        most = max(len(self._rank_groups(fused)) for fused in {recipe.fused for recipe in quantized})
        if not most:
            return  # the model has no layers that could be quantized, so that the recipes are all there is
        space = {
            "recipe": optuna.distributions.CategoricalDistribution(range(len(quantized))),
            "kept": optuna.distributions.IntDistribution(0, most - 1),
        }
        for trial in self.trial_log.trials.values():
            if trial.settings.recipe in quantized and math.isfinite(self._compute_cost(trial)):
                chosen = {"recipe": quantized.index(trial.settings.recipe), "kept": trial.settings.kept}
                values = [self._compute_cost(trial), self.judge.goal.measure_gap(trial.accuracy)]
                study.add_trial(optuna.trial.create_trial(params=chosen, distributions=space, values=values))
        idle = 0
        while not self._over and idle < PATIENCE:
            best = self._find_best_cost()
            proposal = study.ask(space)
            trial = self._try(replace(quantized[proposal.params["recipe"]], kept=proposal.params["kept"]))
            if math.isfinite(self._compute_cost(trial)):
                study.tell(proposal, [self._compute_cost(trial), self.judge.goal.measure_gap(trial.accuracy)])
            else:
                study.tell(proposal, state=optuna.trial.TrialState.FAIL)
            idle = 0 if self._find_best_cost() < best else idle + 1

    def _list_front(self) -> list[Trial]:
        """Return the trials that no other beats in both cost and accuracy, the cheapest first."""
        trials = self.trial_log.trials.values()
        costed = (trial for trial in trials if not trial.refused and math.isfinite(self._compute_cost(trial)))
        result: list[Trial] = []
        for trial in sorted(costed, key=self._compute_cost):
            if not result or self.judge.goal.is_better(trial.accuracy, result[-1].accuracy):
                result.append(trial)
        return result

    def _choose_final(self) -> Trial:
        """Return the cheapest candidate that reaches the goal on all examples; for latency, time finalists again."""
        reaching = sorted(
            (trial for trial in self.trial_log.trials.values() if self._reaches_goal(trial)), key=self._compute_cost
        )
        judged: list[Trial] = []
        for trial in reaching:
            if len(judged) == FINALISTS:
                break
            self.progress(self.trials, self.trials, f"candidates, finalist {trial.settings.title}")
            accuracy = self.judge.measure_accuracy(*self._place(trial), everything=True)
            if self.judge.goal.measure_gap(accuracy):
                self.log.info("%s: %s %.5g on all examples", trial.settings.title, self.judge.goal.metric, accuracy)
                continue
            judged.append(replace(trial, accuracy=accuracy))
        if not judged:
            raise self._build_unreached_error()
        if self.objective == "size":
            return min(judged, key=self._compute_cost)
        return self._choose_fastest(judged)

    def _choose_fastest(self, finalists: Sequence[Trial]) -> Trial:
        """Time the finalists alternately, for a quarter as long as the search: earlier times are of other minutes."""

        def report_round(rounds: int) -> None:
            self.progress(self.trials, self.trials, f"candidates, finalists in round {rounds}")

        searched = time.monotonic() - self._began
        seconds = FINAL * min(self.seconds, searched / (1 - FINAL))
        spent = self.judge.time_finalists([self._place(trial) for trial in finalists], seconds, report_round)
        judged = [replace(trial, time=each) for trial, each in zip(finalists, spent, strict=True)]
        for trial in judged:
            self.log.info("undisturbed: %s takes %.3f of the time of float", trial.settings.title, trial.time)
        return min(judged, key=self._compute_cost)

    def _place(self, trial: Trial) -> tuple[Path, Target]:
        return self.workshop.build_model(trial.settings, trial.kept), self.places[trial.settings.place]

    def _build_unreached_error(self) -> StageFailed:
        trials = self.trial_log.trials.values()
        judged = [trial for trial in trials if not trial.refused]
        refusals = dict.fromkeys(trial.refused for trial in trials if trial.refused)
        nearest = sorted(judged, key=lambda trial: self.judge.goal.measure_gap(trial.accuracy))[:NEAREST]
        goal = self.judge.goal
        return self.workshop.context.failed(
            f"none of {len(self.trial_log.trials)} candidates reaches the goal",
            why="\n".join(f"{trial.settings.title}: {goal.metric} {trial.accuracy:.5g}" for trial in nearest)
            or "\n".join([*refusals][:NEAREST]),
            hint="lower the goal, or allow more `time` and `trials`",
        )
