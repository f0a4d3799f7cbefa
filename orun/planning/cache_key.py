"""Cache key of a stage: the components that its result depends on, and the digest over them.

The parameters, inputs and code come from the project; versions, device and variables from the machine (`facts.py`).

Content counts by digest: an input by its tree, a code file or path by its bytes, never by the key that made it or by a
time. Paths count too; a path into the project is relative, so that the project can move.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.fs.observed_state import to_portable_name
from orun.pipeline.model import Pipeline, Reference, Stage
from orun.planning.kind_code import Digest, digest_stage_code

FORMAT = 21  # raise it when the meaning of a component changes, or code that runs in every stage's process

OWN = "uses"  # stands for a parameter where a stage is the user's own function


def compose(
    pipeline: Pipeline,
    stage: Stage,
    inputs: Mapping[str, str],
    digest: Digest,
    surroundings: Components,
    cache: dict[str, Components],
) -> Components:
    """Return the components of the key of a stage.

    `cache` has the parameters of stages by id; this call adds those of the stage.
    """
    use = pipeline.kinds[stage.uses]
    name = stage.uses if use.origin != "file" else use.entry.rpartition(":")[2]
    code = digest_stage_code(use, digest)
    if stage.id not in cache:
        cache[stage.id] = tuple(_iter_parameters(pipeline, stage))
    return (
        KeyComponent(ComponentKind.KIND, value=name),
        *([KeyComponent(ComponentKind.STAGE_CODE, value=code)] if code else []),
        *cache[stage.id],
        *(KeyComponent(ComponentKind.INPUT, port, value=tree) for port, tree in inputs.items()),
        *(
            KeyComponent(ComponentKind.CONTENT, item.parameter, value=digest(pipeline.root / item.path))
            for item in stage.references
        ),
        *surroundings,
    )


def digest_components(components: Iterable[KeyComponent]) -> str:
    """Return the key: BLAKE3 over the sorted components, each field with its length before it. 64 hex digits."""
    fields = [field.encode() for item in sorted(components) for field in (*item.identity, item.value)]
    sized = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
    return blake3(f"orun key {FORMAT}".encode() + sized).hexdigest()


def _iter_parameters(pipeline: Pipeline, stage: Stage) -> Iterator[KeyComponent]:
    """Yield each parameter as JSON, which keeps `1`, `1.0`, `"1"` and `true` apart, and the path of the user's code.

    The place and the name of a file decide what is read from its folder: weights, a module, or what
    `Path(__file__).with_suffix(".json")` names.
    """
    names = {reference.path: _make_relative(pipeline, reference) for reference in stage.references}
    for name, value in stage.params.items():
        # Mappings in their own order, which code can see.
        text = json.dumps(_replace(value, names), ensure_ascii=False, separators=(",", ":"))
        yield KeyComponent(ComponentKind.PARAMETER, name, value=text)
    if path := next((names[item.path] for item in stage.references if item.parameter == OWN), ""):
        yield KeyComponent(ComponentKind.CODE_FILE, OWN, value=Path(os.path.normpath(path)).as_posix())


def _make_relative(pipeline: Pipeline, reference: Reference) -> str:
    """Return an absolute path into the project relative to the pipeline's folder; any other as it is written."""
    path = Path(reference.path)
    return to_portable_name(path, pipeline.root, pipeline.project) if path.is_absolute() else reference.path


def _replace(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        path, colon, function = value.rpartition(":")
        return names.get(value) or (f"{names[path]}{colon}{function}" if path in names else value)
    if isinstance(value, Mapping):
        return {key: _replace(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace(item, names) for item in value]
    return value
