"""Facts of this machine about the stages of a pipeline, for the machine that plans."""

from __future__ import annotations

from orun.core.key_component import Components
from orun.core.machines import MachineFacts, StageFacts
from orun.environment.env_vars import build_stage_environment
from orun.environment.resources import Resources
from orun.errors import DeviceUnknown
from orun.pipeline.model import Pipeline, Stage
from orun.planning.facts import LocalFacts
from orun.planning.implicit_deps import read_package_versions
from orun.runner.preflight import find_excess, find_lacks

ISOLATED = "its isolated environment is made on the machine that plans"


def collect_facts(pipeline: Pipeline, machine: str, available: Resources) -> MachineFacts:
    """Return what this machine, by its id, knows of a pipeline loaded on it; stages may use what is available."""
    local = LocalFacts(pipeline)
    return MachineFacts.collect(
        machine,
        {stage.id: _build_stage_facts(pipeline, stage, local, available) for stage in pipeline.stages},
        packages=dict(read_package_versions(pipeline.root)),
        variables={name: pipeline.private.read_state(name) for name in build_stage_environment()},
    )


def _build_stage_facts(pipeline: Pipeline, stage: Stage, local: LocalFacts, available: Resources) -> StageFacts:
    if stage.environments:
        return StageFacts(missing=(ISOLATED,))
    missing = [problem.message for problem in (*find_lacks(pipeline, stage), *find_excess(stage, available))]
    components: Components = ()
    try:
        components = local.list_components(stage)
    except DeviceUnknown as error:
        missing = missing or [error.problem]
    return StageFacts(components, tuple(missing), local.explain_skip(stage))
