"""Notes on models that gates do not judge: those of a release, and those that are compared with themselves."""

from __future__ import annotations

from collections.abc import Mapping

from orun.pipeline.guards import is_compared, iter_released, judges
from orun.pipeline.model import Stage
from orun.pipeline.nodes import Map
from orun.pipeline.problems import Problems
from orun.stages.contract import Spec
from orun.stages.registry import FILE_KIND


def note_unjudged_releases(
    tree: Map, stages: Mapping[str, Stage], specs: Mapping[str, Spec], problems: Problems
) -> None:
    """Note each release of a model that no gate of the file judges, although it has gates.

    The figures that a bundle holds are those of another model then. A file without gates says so when it has run.
    """
    judging = [stage for stage in stages.values() if stage.gates]
    if not judging:
        return
    for release in stages.values():
        if not specs[release.id].releases or any(specs[name].releases for name in release.needs.values()):
            continue  # of what another release has made, that one is noted
        models = {name for name in iter_released(stages, release) if not specs[name].releases}
        is_judged = any(judges(stage, specs[stage.id], models) for stage in judging)
        if not models or is_judged or any(stages[name].gates for name in models):
            continue
        model = next(name for name in release.needs.values() if name in models)
        problems.add_note(
            tree.map("stages").entries[release.id].key,
            f"no gate judges {model!r}, which {release.id!r} gives away",
            hint=f"{judging[0].id!r} judges another model; a gate guards exactly the artifact that was measured",
        )


def note_comparisons_with_itself(tree: Map, stages: Mapping[str, Stage], problems: Problems) -> None:
    """Note each stage of the library that compares a model with the same model, run in the same way."""
    for stage in stages.values():
        if stage.sources or stage.extra_targets or FILE_KIND.fullmatch(stage.uses):
            continue
        judged = {name for port, name in stage.needs.items() if not is_compared(port)}
        if same := [port for port, name in stage.needs.items() if is_compared(port) and name in judged]:
            entry = tree.map("stages").entries[stage.id]
            message = f"{stage.id!r} compares {stage.needs[same[0]]!r} with itself: it is the {same[0]!r}, too"
            problems.add_note(entry.key, message)
