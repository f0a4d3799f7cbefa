"""No-op record: what the result of a fully up-to-date run depends on, read by `noop.check`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import value_of
from orun.core.reason import reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import RunResult
from orun.core.serialization import Record, encode, replace
from orun.core.targets import Target
from orun.environment import distributions, venvs
from orun.environment.env_vars import reproducible_settings, value_told
from orun.environment.secret_variables import SECRET
from orun.errors import PipelineError, StoreError
from orun.fs.durable import replace_file
from orun.fs.observed_state import ABSENT, digest_file, listing_digest, value_digest
from orun.fs.signatures import CLOCK, Signature
from orun.gates import baselines
from orun.noop.check import FORMAT, Request, around, noted, signature
from orun.planning import cache_key
from orun.planning.kind_code import reached
from orun.planning.plan import Done
from orun.planning.planner import Planner
from orun.remote.options import VARIABLES, config_file
from orun.store import StatCache
from orun.store.checksummed_json import encode_checksummed

PACKAGE = Path(__file__).parents[1]  # orun itself
SECOND = 1_000_000_000  # nanoseconds


def remember(request: Request, planner: Planner, done: Mapping[str, Done], result: RunResult) -> None:
    """Note what a run rests on in which every stage is up to date.

    Nothing is noted when something of it has moved or the note cannot be written: the next run looks at everything.

    Args:
        request: the run.
        planner: what decided.
        done: every stage of the pipeline.
        result: what the run came to.
    """
    with suppress(OSError, StoreError, PipelineError):  # of a baseline that is none any more
        if note := _note(planner, done, result):
            temporary = planner.store.make_session_folder("note") / "new"
            replace_file(str(request.note), encode_checksummed(note), str(temporary))


def _note(planner: Planner, done: Mapping[str, Done], result: RunResult) -> dict[str, Any] | None:
    looked = _look(planner, done)
    code = {path: signature(path) for path in _code(planner)}
    records = _records(planner, done)
    artifacts = {name: one.action.tree for name, one in done.items()}
    stored = planner.store.take_snapshot(planner.pipeline.name, artifacts)
    if looked is None or records is None or stored is None:
        return None
    if not all(_is_older(seen, result.started_at) for seen in code.values()):
        return None
    # A file that changed just now may change again within the same tick of a coarse clock, and one that a process has
    # mapped without any: these are noted by their contents.
    moment, known = time() - CLOCK / SECOND, planner.store.files
    fresh = {
        path for path, seen in looked.files.items() if seen and not (_is_older(seen, moment) and known.knows(seen))
    }
    contents = _contents(planner, done, looked, fresh)
    if contents is None or not _is_settled(_config(planner), result):
        return None
    targets = [encode(target) for target in {json.dumps(encode(t)): t for t in _targets(done)}.values()]
    files = {path: seen for path, seen in looked.files.items() if path not in fresh}
    return {
        "format": FORMAT,
        "targets": targets,
        "around": around(targets),
        "read": noted(files | code | records, looked.folders | _listed(planner, done)),
        "contents": contents | {_config(planner): digest_file(_config(planner))},
        "variables": _variables(done),
        "modules": _modules(done),
        "secrets": reproducible_settings(),
        "probed": _probed(planner, done),
        "result": encode(_again(result)),
        "artifacts": artifacts,
        "stored": noted(stored.files, stored.folders),
    }


def _code(planner: Planner) -> Iterator[str]:
    """The files of orun itself, and of the plug-ins that stages are of: whoever edits one raises no version."""
    yield from map(str, PACKAGE.rglob("*.py"))
    for use in planner.pipeline.kinds.values():
        if use.origin == "plug-in":
            yield from (path for _, path, _ in reached(use.entry))


def _records(planner: Planner, done: Mapping[str, Done]) -> dict[str, Signature | None] | None:
    """The signatures of the records of what was done, and of what names them as the last ones.

    None when another process has put another in the place of one.
    """
    store, pipeline = planner.store, planner.pipeline.name
    actions = {name: one.action for name, one in done.items()}
    paths = [*map(store.record_of, actions.values()), *(store.pointer_of(pipeline, name) for name in actions)]
    found = {str(path): signature(str(path)) for path in paths}
    whole = all(action in store.actions(action.key) for action in actions.values())
    return found if whole and all(store.latest(pipeline, name) == one for name, one in actions.items()) else None


class Look(Record, frozen=True):
    """The user's files (path -> signature) and folders (path -> digest of names), found to be what was decided upon.

    That is `read`: files and folders by the digests of their contents.
    """

    files: dict[str, Signature | None]
    folders: dict[str, str]
    read: dict[str, str]


def _look(planner: Planner, done: Mapping[str, Done]) -> Look | None:
    """Signatures first, then contents, then signatures again: None when anything moved since it was decided upon."""
    read = _read(planner, done)
    seen = {path: signature(path) for path in _expanded(read, planner.store.files)}
    folders = {path: listing_digest(path) for path in seen if Path(path).is_dir()}
    if any(_content(planner, path) != digest for path, digest in read.items()):
        return None
    if baselines.read(planner.pipeline) != planner.baseline or any(signature(path) != seen[path] for path in seen):
        return None
    return Look({path: one for path, one in seen.items() if path not in folders}, folders, read)


def _contents(planner: Planner, done: Mapping[str, Done], looked: Look, fresh: set[str]) -> dict[str, str] | None:
    """The digests of such files as were decided upon, which they may be no longer; None when that cannot be known."""
    found = {path: looked.read.get(path) or digest_file(path) for path in sorted(fresh)}
    within = not looked.read.keys() >= fresh  # of a folder only its digest is known: nothing of it may have moved
    return None if within and _look(planner, done) != looked else found


def _is_settled(path: str, result: RunResult) -> bool:
    """Whether a file that a run reads when it begins did not change since."""
    seen = signature(path)
    return seen is None or seen[4] < result.started_at * SECOND  # by its ctime: its mtime may be of any time


def _config(planner: Planner) -> str:
    """The file that may name a remote."""
    return str(config_file(planner.pipeline.project))


def _targets(done: Mapping[str, Done]) -> Iterator[Target | None]:
    return (target for one in done.values() for target in one.step.stage.targets or (None,))


def _listed(planner: Planner, done: Mapping[str, Done]) -> dict[str, str]:
    """The folders that stages listed, as they found them."""
    found = (item for one in done.values() for item in one.action.discovered.folders.items())
    return {str(planner.pipeline.root / name): digest for name, digest in found}


def _probed(planner: Planner, done: Mapping[str, Done]) -> dict[str, str]:
    """What stages asked for, as they found it."""
    found = (item for one in done.values() for item in one.action.discovered.probed.items())
    return {str(planner.pipeline.root / name): what for name, what in found}


def _variables(done: Mapping[str, Done]) -> dict[str, str]:
    """Environment variables as stages are told them: those they looked up as they found them, of keys and our own.

    Secrets are none of them.
    """
    found = {name: value_digest(name, value_told(name)) for name in VARIABLES}
    for one in done.values():
        found |= {name: state for name, state in one.action.discovered.environment.items() if state != SECRET}
        found |= {name: value_digest(name, value_told(name)) for name in cache_key.variables(one.step.stage)}
    return found


def _modules(done: Mapping[str, Done]) -> dict[str, bool]:
    """Modules by whose presence among the installed ones stages decided, not by a distribution: name -> presence."""
    found = (one.action.discovered.packages for one in done.values() if not one.step.stage.environment)
    told = (item for packages in found for item in packages.items())
    return {
        name: version == distributions.PRESENT
        for name, version in told
        if version in (distributions.ABSENT, distributions.PRESENT)
    }


def _read(planner: Planner, done: Mapping[str, Done]) -> dict[str, str]:
    """Every file and folder that the result rests on -> its digest when it was decided upon."""
    root = planner.pipeline.root
    found = dict(planner.pipeline.sources)
    baseline = str(baselines.path_for(planner.pipeline))
    found[baseline] = _content(planner, baseline)  # compared as it was read, by the caller
    for one in done.values():
        for environment in one.step.stage.environments:
            record = str(venvs.record_of(environment))
            found[record] = _content(planner, record)
        for reference in one.step.stage.references:
            content = value_of(one.step.components, ComponentKind.CONTENT, reference.parameter)
            found[str(root / reference.path)] = content or ABSENT
        found |= {str(root / name): digest for name, digest in one.action.discovered.files.items()}
    return found


def _expanded(read: Iterable[str], files: StatCache) -> Iterator[str]:
    """The files and folders, and everything in the folders that counts."""
    for path in read:
        yield from files.below(path) if Path(path).is_dir() else (path,)


def _content(planner: Planner, path: str) -> str:
    try:
        return planner.store.files.digest_path(path)
    except StoreError:
        return ABSENT


def _is_older(seen: Signature | None, moment: float) -> bool:
    """Whether a file was last changed before a moment, by mtime and ctime."""
    return seen is not None and max(seen[3:]) < moment * SECOND


def _again(result: RunResult) -> RunResult:
    """The same result as the next run will have it: all of it from the store."""
    stages = tuple(
        replace(stage, inputs=(), reasons=tuple(item for item in stage.reasons if item.code != ReasonCode.FETCHED))
        if stage.outcome == "cached"
        else replace(stage, outcome="cached", reasons=(reason(ReasonCode.UP_TO_DATE),), inputs=())
        for stage in result.stages
    )
    return replace(result, stages=stages, repeats=result.run)
