"""Choice of the machine that a stage of a run on several machines starts on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orun.environment.resources import Resources, to_resources
from orun.pipeline.model import Stage
from orun.planning.assignment import Assignment
from orun.planning.plan import Done, Step
from orun.planning.planner import Planner
from orun.runner.scheduler import Schedule


@dataclass
class MachineChoice:
    """Choice among the machines that can run a stage."""

    planner: Planner
    assignment: Assignment

    def list_resources(self) -> dict[str, Resources]:
        """Return what stages may use of each machine."""
        return {name: to_resources(machine) for name, machine in self.assignment.machines.items()}

    def runs_here(self, stage: Stage) -> bool:
        """Return whether a stage runs on this machine."""
        return "" in self.planner.find_candidates(stage).machines

    def choose(self, step: Step, schedule: Schedule, done: Mapping[str, Done]) -> str:
        """Return the machine that a stage starts on now; empty if all that can run it are busy.

        The machine that has a result comes first, then one with the facts of the decision, then one without GPUs that
        the stage does not need, then the one that built most bytes of its inputs, then the one with the most free
        cores.
        """
        stage, machines = step.stage, self.assignment.machines
        sizes = _sum_input_sizes(stage, done)

        def rank(name: str, *, equal: bool) -> tuple[bool, bool, bool, int, int]:
            spare = machines[name].cores - schedule.count_busy_cores(name)
            return (
                name != step.holder,
                not equal,
                machines[name].gpus > 0 and not stage.gpus,
                -sizes.get(name, 0),
                -spare,
            )

        ranked = []
        for group in self.planner.find_candidates(stage).classes:
            names = [facts.machine for facts in group]
            free = (name for name in names if self._is_free(step, name, schedule))
            ranked += [(rank(name, equal=step.machine in names), name) for name in free]
        return min(ranked, key=lambda item: item[0])[1] if ranked else ""

    def are_alike(self, stage: Stage, *machines: str) -> bool:
        """Return whether machines have the same facts about a stage, and so the same key."""
        classes = ({facts.machine for facts in group} for group in self.planner.find_candidates(stage).classes)
        return any(group.issuperset(machines) for group in classes)

    def _is_free(self, step: Step, machine: str, schedule: Schedule) -> bool:
        """Return whether a stage can start on a machine now; one that has its result only pushes that.

        A measurement has its machine to itself.
        """
        running, kinds = schedule.list_running(machine), self.planner.pipeline.kinds
        if running and any(kinds[item.uses].spec.exclusive for item in (step.stage, *running)):
            return False
        return machine == step.holder or schedule.fits(step.stage, machine)


def _sum_input_sizes(stage: Stage, done: Mapping[str, Done]) -> dict[str, int]:
    """Return the bytes of a stage's inputs by the machine that built them, in this run or an earlier one."""
    sizes: dict[str, int] = {}
    for name in dict.fromkeys(stage.needs.values()):
        action = done[name].action
        machine = action.host.get("machine", "")
        sizes[machine] = sizes.get(machine, 0) + max(action.size, 1)
    return sizes
