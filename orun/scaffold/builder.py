"""Builder of the pipeline that `orun init` writes: without the stages that refuse the model, or towards a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orun import api
from orun.core.run_record import BY_INIT, RunResult, StageResult
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.errors import StageFailed, UsageError
from orun.eventlog import Listener
from orun.fs.os_errors import quote
from orun.scaffold.goal import Condition, build_gates, list_objectives
from orun.scaffold.left_out import explain_failure, is_in_users_code
from orun.scaffold.pipeline_text import format_pipeline
from orun.scaffold.recipe import Gates, list_stages
from orun.scaffold.request import Request
from orun.scaffold.thresholds import REDUCED, measure_likeness

NO_GATES: Gates = {}


@dataclass(frozen=True)
class Builder:
    """Builder of the pipeline that `orun init` writes.

    Results go to the project's store when `store` is None.
    """

    file: Path
    store: Path | None
    write: Callable[[Path, str], None]
    listener: Listener

    def write_pipeline(self, request: Request, gates: Gates = NO_GATES) -> None:
        """Write the pipeline file with these gates."""
        self.write(self.file, format_pipeline(self.file, request, gates))

    def run(self, to: Sequence[str] = ()) -> RunResult:
        """Run the pipeline as it is written, or the stages up to some."""
        pipeline = replace(api.load(self.file), run_suffix=BY_INIT)
        return api.run(pipeline, store=self.store, to=to, on_event=self.listener)

    def require(self, stage: StageResult) -> None:
        """Raise the failure of a stage that the pipeline needs, if it failed."""
        failure = stage.failure
        if failure is None:
            return
        hints = [failure.hint] if failure.hint else []
        file = quote(self.file)
        hints.append(
            f"Edit {file}, which has no gates yet, then: orun {file}. Or mend the model, then: rm {file}, and the same "
            "command again"
        )
        message = f"stage {stage.stage}: {failure.problem}"
        raise StageFailed(stage.stage, message, why=failure.why, hint="\n".join(hints), log=failure.log)

    def search_goal(self, request: Request) -> tuple[Request, RunResult, tuple[Verdict, ...]]:
        """Search for the goal by each objective until one meets it.

        Returns:
            The request with the objective that misses the fewest conditions, the run that measured its model, and the
            verdicts on it.
        """
        attempts = []
        for objective in list_objectives(request.goal):
            attempt, measured = self.build_and_measure(replace(request, objective=objective))
            self.write_pipeline(attempt, build_gates(request.goal))
            verdicts = self.run().verdicts
            attempts.append((attempt, measured, verdicts))
            if not count_missed(request.goal, verdicts):
                break
        return min(attempts, key=lambda attempt: count_missed(request.goal, attempt[2]))

    def build_and_measure(self, request: Request) -> tuple[Request, RunResult]:
        """Build the pipeline, again without each optional stage that refuses the model.

        Returns:
            The request with the stages that were left out, and the run of the others.
        """
        while True:
            self.write_pipeline(request)
            result = self.run()
            stages = {stage.name: stage for stage in list_stages(request, {})}
            failed = next((stage for stage in result.stages if stage.failure), None)
            reduced = next((name for name in REDUCED if name in stages), "")
            if failed is None:
                _require_search(request, result)
                metric, value, least = measure_likeness(result) or ("", 0.0, 0.0)
                if value >= least or not reduced:
                    return request, result
                why = f"its outputs differ too much from the original's: {metric} {value:.2f}"
                left_out = {reduced: f"{why}. Next: `--goal` searches for a mix"}
            elif request.has_own_data and is_in_users_code(failed):
                raise _build_data_error(request, failed)
            elif not stages[failed.stage].optional:
                self.require(failed)
            elif failed.stage == "accuracy" and (batched := _list_batched(request)):
                request = replace(request, outputs=batched)
                continue
            elif failed.stage == "accuracy" and request.label_metric:
                request = replace(request, label_refusal=explain_failure(failed))
                continue
            else:
                left_out = {failed.stage: explain_failure(failed)}
                if failed.stage == "accuracy" and reduced:
                    left_out[reduced] = (
                        f"nothing here can compare its outputs with the original's{_suggest_next_examples(request)}"
                    )
            request = replace(request, left_out={**request.left_out, **left_out})


def count_missed(goal: tuple[Condition, ...], verdicts: tuple[Verdict, ...]) -> int:
    """Return how many conditions of a goal no verdict calls passed."""
    return len(goal) - sum(verdict.outcome == "passed" for verdict in verdicts)


def _build_data_error(request: Request, stage: StageResult) -> UsageError:
    """Return the error of a function for examples that failed in a stage: the model is not to blame."""
    assert stage.failure  # noqa: S101 - the caller has looked
    failure = stage.failure
    why = "\n".join(filter(None, [failure.problem, failure.why]))
    return UsageError(f"{request.data_source} failed in the stage {stage.stage}", why=why, hint=failure.advice)


def _suggest_next_examples(request: Request) -> str:
    """Return which examples may compare the outputs of two models, after others did not."""
    if not request.has_own_data:
        return ". Next: name examples of your own: --data data.py:examples"
    return f": the examples of {request.data_source} do not serve, for the reason of accuracy. Next: change them"


def _list_batched(request: Request) -> tuple[str, ...]:
    """Return the outputs with a batch axis if some have none and none was left out yet."""
    graph = request.facts.graph
    return graph.batched if graph and not request.outputs and graph.batched != graph.outputs else ()


def _require_search(request: Request, result: RunResult) -> None:
    """Refuse a goal whose search was skipped because its provider is missing."""
    if any(stage.stage == "tune" and stage.outcome == "skipped" for stage in result.stages):
        target = request.target.name
        raise UsageError(
            f"the goal cannot be searched for: this machine has no {target}",
            why="the search times candidates on the target",
            hint="run orun init on a machine that has it, or leave out --target",
        )
