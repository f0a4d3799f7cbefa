"""Stored results of a stage's key: which of them may be used again, and why the others may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orun.core.activity import report
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.pipeline.model import Pipeline, Stage
from orun.planning.facts import Facts
from orun.planning.implicit_deps import list_changes
from orun.planning.key_diff import list_key_changes
from orun.planning.plan import Step
from orun.store import Action, ActionSet, Store


@dataclass
class StoredResults:
    """Results of the stages of one pipeline in one store.

    Attributes:
        pipeline: the pipeline.
        store: the store.
        in_remote: results whose files are in the remote of a fleet, and need not be in the store.
        activity: what the planner is at, for those who wait.
    """

    pipeline: Pipeline
    store: Store
    in_remote: ActionSet = ()
    activity: str = ""

    def look_up(self, step: Step, machines: tuple[Facts, ...]) -> Step:
        """Return the decision to use a stored result again, or to run the stage, with the reasons."""
        stale: list[tuple[Action, list[Reason]]] = []
        present, holder = [facts.machine for facts in machines], ""
        for action in self.store.list_actions(step.key):
            facts, problems = self.find_agreement(step.stage, action, machines)
            if facts and not (problems := self.find_damage(action)):
                reasons = (self._explain_origin(step, action),)
                return replace(step, action="cached", reasons=reasons, cached_action=action, machine=facts.machine)
            stale.append((action, problems))
            if facts and (maker := action.host.get("machine", "")) in present:
                holder = holder or maker
        return replace(step, reasons=self._explain(step, stale), holder=holder)

    def _explain(self, step: Step, stale: list[tuple[Action, list[Reason]]]) -> tuple[Reason, ...]:
        """Return what has changed since the stage was last done.

        Args:
            step: the decision so far.
            stale: the results under its key, the newest first, and why each is no longer valid. A result that is newer
                than the last run may be of a git branch that was left since.
        """
        latest = self.store.find_latest(self.pipeline.name, step.stage.id)
        if last := next((problems for action, problems in stale if action == latest), None):
            return tuple(last)
        changed = list_step_changes(step)
        if changed and stale:
            return (*changed, build_reason(ReasonCode.EARLIER_RESULT_STALE, *stale[0][1]))
        return tuple(changed or (stale[0][1] if stale else [build_reason(ReasonCode.RESULT_MISSING)]))

    def find_agreement(
        self, stage: Stage, action: Action, machines: Iterable[Facts]
    ) -> tuple[Facts | None, list[Reason]]:
        """Return the first machine that still has what a stage saw when it ran; else what differs on the last machine.

        The machines may have other packages and variables.
        """
        seen = action.implicit_deps
        differences = [build_reason(ReasonCode.RESULT_MISSING)]  # for no machine
        for facts in machines:
            report(f"{self.activity}: looking at what its last run read")
            differences = list_changes(seen, facts.observe_state(stage, seen, self.store.files))
            if not differences:
                return facts, []
        return None, differences

    def find_damage(self, action: Action) -> list[Reason]:
        """Return what is wrong with the artifact of a result; empty if it is intact, or left in the remote."""
        report(f"{self.activity}: checking its stored result")
        problems = self.store.check(action.tree)
        if problems and action in self.in_remote:
            return []
        if problems and self.store.read_tree(action.tree) is None:
            return [build_reason(ReasonCode.RESULT_MISSING)]
        return [build_reason(ReasonCode.RESULT_DAMAGED, problem=problem) for problem in problems]

    def _explain_origin(self, step: Step, action: Action) -> Reason:
        if (action.pipeline, action.stage) == (self.pipeline.name, step.stage.id):
            return build_reason(ReasonCode.UP_TO_DATE)
        pipeline = None if action.pipeline == self.pipeline.name else action.pipeline
        return build_reason(ReasonCode.UP_TO_DATE, stage=action.stage, pipeline=pipeline)


def list_step_changes(step: Step) -> list[Reason]:
    """Return how the key of a stage differs from that of its last run."""
    return list_key_changes(step.stage, step.previous, step.components)
