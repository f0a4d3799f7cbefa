"""Loader of a pipeline file: read, expand, validate against the schema, then check names, files and wiring."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from orun.errors import PipelineError
from orun.pipeline import overrides as overriding
from orun.pipeline import schema
from orun.pipeline.axes import require_axes
from orun.pipeline.environments import Environments
from orun.pipeline.expressions import Expressions
from orun.pipeline.files import Files
from orun.pipeline.gate_targets import require_judged
from orun.pipeline.graph import sort_topologically
from orun.pipeline.guards import add_guards
from orun.pipeline.instances import Axes, Instance
from orun.pipeline.judged_models import note_comparisons_with_itself, note_unjudged_releases
from orun.pipeline.matrix import Expansion
from orun.pipeline.model import KindUse, Pipeline, Stage
from orun.pipeline.nodes import Entry, Map, Scalar
from orun.pipeline.placement import read_shipped, read_target_labels
from orun.pipeline.problems import Problems
from orun.pipeline.providers import list_known_providers
from orun.pipeline.secrets import read_secrets
from orun.pipeline.sources import connect_sources
from orun.pipeline.stages import make
from orun.pipeline.targets import read_targets
from orun.pipeline.unused import note_unused
from orun.pipeline.validate import validate
from orun.pipeline.values import Surroundings, localize
from orun.stages import registry
from orun.stages.codefile import CodeFiles
from orun.stages.kind import Kind
from orun.text.suggestions import Unknown


class Loader:
    """Loader of a pipeline file; see `orun.pipeline.load`."""

    def __init__(self, path: Path, overrides: Mapping[str, str]) -> None:
        self.file = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links away from the file's folder
        self.overrides = overrides
        self.problems = Problems()
        self.files = Files(self.problems)
        self.code = CodeFiles()
        self.environments = Environments(self.problems)
        self.kinds: dict[str, Kind] = {}

    @property
    def root(self) -> Path:
        """Folder that paths are relative to."""
        return self.file.parent

    def load(self) -> Pipeline:
        """Return the pipeline; raise a PipelineError with every problem."""
        tree = self.files.read(self.file)
        if tree is None:
            self.problems.check()
        tree = overriding.apply(cast("Map", tree), self.overrides, self.problems)
        instances, tree = self._expand(tree)
        providers = list_known_providers(tree.map("targets"), self.problems)
        unsound = validate(tree, schema.build(self.kinds.values(), providers), self.problems)
        self.environments.read(tree.map("environments"), self.root, unsound)
        named = read_targets(tree.map("targets"), providers, self.environments, self.root, unsound, self.problems)
        labels = read_target_labels(tree.map("targets"), unsound)
        surroundings = Surroundings(self.root, tuple(named), labels, self.code, unsound, self.problems)
        by_id = {instance.id: instance for instance in instances}
        stages = {
            instance.id: make(instance, instance.kind, by_id, named, self.environments, surroundings)
            for instance in instances
            if instance.kind
        }
        stages = connect_sources(instances, stages, self.problems)
        require_judged(instances, stages, named, self.problems)
        require_axes(instances, stages, unsound, self.problems)
        self.secrets = read_secrets(tree, instances, self.problems)
        self.ship = read_shipped(tree, self.root, unsound, self.problems)
        self.problems.suggest(self.foreign)
        self.problems.check()
        return self._build_pipeline(tree, stages, {instance.id: instance.axes for instance in instances})

    def _expand(self, tree: Map) -> tuple[list[Instance], Map]:
        """Return the stages of the graph, and the tree with them in place of the file's stages."""
        expressions = Expressions(tree.map("vars"), self.problems)
        self.used, self.foreign = expressions.used, expressions.foreign
        entries = dict(tree.entries)
        for key, entry in tree.entries.items():
            if key == "vars" and isinstance(entry.value, Map):
                entries[key] = Entry(entry.key, expressions.resolve_variables())
            elif key != "stages":
                entries[key] = Entry(entry.key, expressions.substitute(entry.value))
        declared = tree.get("stages")
        if not isinstance(declared, Map):
            return [], tree.with_entries(entries)
        self._check_names(declared)
        instances = Expansion(declared, expressions, self._find_kind, self.problems).list_instances()
        expanded: dict[str, Entry] = {instance.id: Entry(instance.key, instance.node) for instance in instances}
        bases = {instance.base for instance in instances}
        expanded |= {name: entry for name, entry in declared.entries.items() if name not in bases}
        entries["stages"] = Entry(entries["stages"].key, declared.with_entries(expanded))
        return instances, cast("Map", expressions.require_bounded(tree.with_entries(entries)))

    def _check_names(self, declared: Map) -> None:
        for name, entry in declared.entries.items():
            if "[" in name:
                self.problems.add(
                    entry.key,
                    f"{name!r} cannot be a name here",
                    expected=f"{schema.NAME_WORDS}; axes come from `matrix`",
                )

    def _find_kind(self, uses: Scalar) -> Kind | None:
        """Return the kind of a stage; None for an unknown one, which is noted."""
        if uses.broken or not isinstance(uses.value, str):
            return None  # reported already, or later by the schema
        name = localize(uses, self.root) if registry.FILE_KIND.fullmatch(uses.text) else uses.text
        if name not in self.kinds:
            try:
                self.kinds[name] = registry.find(name, self.root, self.code)
            except Unknown as error:
                near = error.suggestion
                self.problems.add(uses.span, error.problem, expected=error.expected, suggestion=near, hint=error.hint)
            except PipelineError as error:
                self.problems.extend(error.problems)
        return self.kinds.get(name)

    def _build_pipeline(self, tree: Map, stages: Mapping[str, Stage], axes: Mapping[str, Axes]) -> Pipeline:
        edges = [(before, stage.id) for stage in stages.values() for before in stage.upstream]
        order, _ = sort_topologically(tuple(stages), edges)
        note_comparisons_with_itself(tree, stages, self.problems)
        if any(kind.spec.releases for kind in self.kinds.values()):
            specs = {name: self.kinds[stage.uses].spec for name, stage in stages.items()}
            note_unjudged_releases(tree, stages, specs, self.problems)
            stages = add_guards(stages, specs, axes, order)
            edges += [(guard, stage.id) for stage in stages.values() for guard in stage.guards]
            order, _ = sort_topologically(tuple(stages), edges)
        note_unused(tree, str(self.file), self.used, stages.values(), self.problems)
        name, seed = tree.get("name"), tree.get("seed")
        return Pipeline(
            name=name.text if isinstance(name, Scalar) else self.file.stem,
            file=self.file,
            stages=tuple(stages[name] for name in order),
            seed=int(cast("float", seed.value)) if isinstance(seed, Scalar) else 0,
            sources={**self.files.digests, **self.code.digests, **self.environments.digests},
            kinds={
                name: KindUse(kind.origin, kind.entry, kind.spec, kind.distribution)
                for name, kind in self.kinds.items()
            },
            overrides=self.overrides,
            notes=self.problems.notes,
            secrets=self.secrets,
            ship=self.ship,
        )
