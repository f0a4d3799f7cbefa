"""The search: single recipes first, then the best of them with the worst layers left out, then Optuna."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from orun.core.serialization import replace
from orun.core.targets import Target
from orun.errors import OrunError, StageFailed
from orun.stages.contract import MODEL
from orun.stages.quantize._tuning.build import RefusedError, Workshop
from orun.stages.quantize._tuning.harm import Group, rank
from orun.stages.quantize._tuning.judge import Judge
from orun.stages.quantize._tuning.ledger import Ledger, Trial
from orun.stages.quantize._tuning.settings import Settings, settings

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FINALISTS = 4
NEAREST = 3  # candidates that are told when none reaches the goal
PATIENCE = 10  # trials of Optuna without a better model, after which it ends
RANKING = 0.25  # of the time, at most, for finding out which layers harm most
FINAL = 0.2  # of the time, for the finalists

Objective = Literal["latency", "size"]


@dataclass
class Search:
    """One search.

    Attributes:
        workshop: makes candidates.
        judge: judges them.
        places: where a candidate may run.
        ledger: what was tried so far.
        recipes: where to begin.
        objective: what is to be small.
        trials, seconds: after which no further candidate is tried.
        outputs: names of the model's outputs.
        feeds: inputs of a few real examples.
        log, progress: of the stage.
    """

    workshop: Workshop
    judge: Judge
    places: Mapping[str, Target]
    ledger: Ledger
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
        """The chosen candidate, judged on all examples, and those that no other beats in both time and accuracy.

        Raises:
            StageFailed: when no candidate reaches the goal.
        """
        self._began = time.monotonic()
        for one in self.recipes:
            self._try(one)
        self._keep_the_worst()
        self._explore()
        return self._final(), front(list(self.ledger.trials.values()), self.judge, self._cost)

    @property
    def _over(self) -> bool:
        return len(self.ledger.trials) >= self.trials or time.monotonic() > self._began + self.seconds * (1 - FINAL)

    def _cost(self, trial: Trial) -> float:
        return trial.time if self.objective == "latency" else float(trial.size)

    def _reaches(self, trial: Trial) -> bool:
        return not trial.refused and self.judge.goal.short(trial.accuracy) == 0

    def _best(self) -> float:
        """The least cost of a candidate that reaches the goal."""
        costs = [self._cost(one) for one in self.ledger.trials.values() if self._reaches(one)]
        return min((cost for cost in costs if math.isfinite(cost)), default=math.inf)

    def _try(self, wanted: Settings) -> Trial:
        """Make and judge a candidate, unless that was done before."""
        if wanted in self.ledger.trials:
            return self.ledger.trials[wanted]
        self.progress(len(self.ledger.trials), self.trials, wanted.title)
        trial = self._judged(wanted)
        self.ledger.add(trial)
        told = (
            trial.refused or f"{self.judge.goal.metric} {trial.accuracy:.5g}, time {trial.time:.3f}, {trial.size} bytes"
        )
        self.log.info("%s: %s", wanted.title, told)
        if not self._reaches(trial):
            self.workshop.drop(wanted)
        return trial

    def _judged(self, wanted: Settings) -> Trial:
        kept = self._kept(wanted)
        try:
            model = self.workshop.model(wanted, kept)
            accuracy = self.judge.accuracy(model, self.places[wanted.place])
            useful = self.objective == "latency" and (self.judge.goal.short(accuracy) == 0 or not wanted.kept)
            spent = self.judge.time(model, self.places[wanted.place]) if useful else math.nan
        except (RefusedError, OrunError) as error:
            if wanted == settings("float"):  # the model as it was given, on the CPU: no other will do better
                raise
            return Trial(wanted, math.nan, math.nan, 0, str(error).partition("\n")[0] or type(error).__name__, kept)
        return Trial(wanted, accuracy, spent, _size(model), kept=kept)

    def _kept(self, wanted: Settings) -> tuple[str, ...]:
        if not wanted.kept:
            return ()
        return tuple(name for group in self._ranked(wanted.fused)[: wanted.kept] for name in group.nodes)

    def _ranked(self, fused: bool) -> list[Group]:
        """The groups of the model, or of the fused one, the most harmful first."""
        if fused not in self._groups:
            probe = settings("dynamic", fused=fused, per_channel=True)

            def only(kept: Sequence[str]) -> Path | None:
                marked = replace(probe, kept=-1)  # no candidate: never remembered under a name of one
                try:
                    return self.workshop.model(
                        replace(marked, options=(*probe.options, ("exclude", tuple(kept)))), kept
                    )
                except RefusedError:
                    return None

            model = self.workshop.model(settings("float", fused=fused))
            self.progress(len(self.ledger.trials), self.trials, "which layers suffer most")
            self._groups[fused] = rank(model, self.outputs, self.feeds, only, self.seconds * RANKING)
            worst = [f"{', '.join(group.nodes)}: {group.harm:.2g}" for group in self._groups[fused][:5]]
            self.log.info("most harmful when quantized:\n  %s", "\n  ".join(worst))
        return self._groups[fused]

    def _keep_the_worst(self) -> None:
        """For each recipe that is cheap and not good enough, the fewest groups that must stay in float."""
        short = [one for one in self.ledger.trials.values() if not one.refused and not self._reaches(one)]
        for trial in sorted((one for one in short if not one.settings.kept), key=self._cost):
            if self._over or trial.settings.method == "float":
                continue
            if self._cost(trial) >= self._best():
                break  # leaving layers out only makes it dearer, and the next ones are dearer still
            self._bisect(trial.settings)

    def _bisect(self, recipe: Settings) -> None:
        low, high = 0, len(self._ranked(recipe.fused))  # with `low` groups it falls short, with all it is in float
        while high - low > 1 and not self._over:
            middle = (low + high) // 2
            if self._reaches(self._try(replace(recipe, kept=middle))):
                high = middle
            else:
                low = middle

    def _explore(self) -> None:
        """Let Optuna's TPE choose recipes and how much of them to leave out (Bergstra et al. 2011)."""
        import optuna

        quantized = [one for one in self._seeds() if one.method != "float"]
        if self._over or not quantized:
            return
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self.judge.seed)
        study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        most = max(len(self._ranked(fused)) for fused in {one.fused for one in quantized})
        space = {
            "recipe": optuna.distributions.CategoricalDistribution(range(len(quantized))),
            "kept": optuna.distributions.IntDistribution(0, most - 1),
        }
        for trial in self.ledger.trials.values():
            if trial.settings.recipe in quantized and math.isfinite(self._cost(trial)):
                chosen = {"recipe": quantized.index(trial.settings.recipe), "kept": trial.settings.kept}
                values = [self._cost(trial), self.judge.goal.short(trial.accuracy)]
                study.add_trial(optuna.trial.create_trial(params=chosen, distributions=space, values=values))
        idle = 0
        while not self._over and idle < PATIENCE:
            best = self._best()
            asked = study.ask(space)
            tried = self._try(replace(quantized[asked.params["recipe"]], kept=asked.params["kept"]))
            if math.isfinite(self._cost(tried)):
                study.tell(asked, [self._cost(tried), self.judge.goal.short(tried.accuracy)])
            else:
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
            idle = 0 if self._best() < best else idle + 1

    def _seeds(self) -> list[Settings]:
        """The recipes that could be made, the cheapest first."""
        made = [self.ledger.trials[one] for one in self.recipes if one in self.ledger.trials]
        return [one.settings for one in sorted((one for one in made if not one.refused), key=self._cost)]

    def _final(self) -> Trial:
        """The cheapest of those that reach the goal on all examples; in time, the fastest of the likeliest."""
        reaching = sorted((one for one in self.ledger.trials.values() if self._reaches(one)), key=self._cost)
        judged: list[Trial] = []
        for trial in reaching:
            if len(judged) == FINALISTS:
                break
            self.progress(self.trials, self.trials, f"finalist: {trial.settings.title}")
            accuracy = self.judge.accuracy(*self._placed(trial), everything=True)
            if self.judge.goal.short(accuracy):
                self.log.info("%s: %s %.5g on all examples", trial.settings.title, self.judge.goal.metric, accuracy)
                continue
            judged.append(replace(trial, accuracy=accuracy))
        if not judged:
            raise self._unreached()
        if self.objective == "size":
            return min(judged, key=self._cost)
        return self._fastest(judged)

    def _fastest(self, finalists: Sequence[Trial]) -> Trial:
        """Their times so far are of different minutes: now they take turns, for a quarter as long as was searched."""

        def progress(rounds: int) -> None:
            self.progress(self.trials, self.trials, f"the finalists in turn, round {rounds}")

        searched = time.monotonic() - self._began
        seconds = FINAL * min(self.seconds, searched / (1 - FINAL))
        spent = self.judge.undisturbed([self._placed(one) for one in finalists], seconds, progress)
        judged = [replace(trial, time=each) for trial, each in zip(finalists, spent, strict=True)]
        for trial in judged:
            self.log.info("undisturbed: %s takes %.3f of the time of float", trial.settings.title, trial.time)
        return min(judged, key=self._cost)

    def _placed(self, trial: Trial) -> tuple[Path, Target]:
        return self.workshop.model(trial.settings, trial.kept), self.places[trial.settings.place]

    def _unreached(self) -> StageFailed:
        made = [one for one in self.ledger.trials.values() if not one.refused]
        refused = dict.fromkeys(one.refused for one in self.ledger.trials.values() if one.refused)
        near = sorted(made, key=lambda one: self.judge.goal.short(one.accuracy))[:NEAREST]
        goal = self.judge.goal
        return StageFailed(
            self.workshop.context.stage,
            f"none of {len(self.ledger.trials)} candidates reaches the goal",
            why="\n".join(f"{one.settings.title}: {goal.metric} {one.accuracy:.5g}" for one in near)
            or "\n".join([*refused][:NEAREST]),
            hint="ask for less, or give it more `time` and `trials`",
        )


def front(trials: Sequence[Trial], judge: Judge, cost: Callable[[Trial], float]) -> list[Trial]:
    """The trials that no other beats in both cost and distance from the goal's far side, the cheapest first."""
    known = sorted((one for one in trials if not one.refused and math.isfinite(cost(one))), key=cost)
    better = judge.goal.better
    found: list[Trial] = []
    for trial in known:
        if not found or better(trial.accuracy, found[-1].accuracy):
            found.append(trial)
    return found


def _size(model: Path) -> int:
    folder = model.parent
    if model.name != MODEL:
        raise ValueError(f"{model} is no artifact")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
