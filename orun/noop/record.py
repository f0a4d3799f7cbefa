"""No-op record: what the result of a fully up-to-date run depends on, read by `noop.check`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import find_value
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import RunResult
from orun.core.serialization import Record, encode, replace
from orun.environment import distributions, venvs
from orun.environment.env_vars import list_signing_keys, read_stage_value
from orun.environment.python_path import PACKAGE
from orun.environment.secret_variables import SECRET
from orun.errors import PipelineError, StoreError
from orun.fs.durable import replace_file
from orun.fs.observed_state import ABSENT, digest_file, digest_listing, digest_value
from orun.fs.signatures import CLOCK, Signature, read_signature
from orun.gates import baselines
from orun.gates.baseline_file import locate_baseline
from orun.noop.check import FORMAT, Request, build_snapshot, read_surroundings
from orun.noop.fleet_check import FleetState
from orun.planning.facts import list_variables
from orun.planning.kind_code import PAGES, find_reachable
from orun.planning.plan import Done
from orun.planning.planner import Planner
from orun.remote.options import VARIABLES, locate_config
from orun.remote.settings import list_trusted_files
from orun.store import StatCache
from orun.store.checksummed_json import encode_checksummed

SECOND = 1_000_000_000  # nanoseconds


def write_record(
    request: Request, planner: Planner, done: Mapping[str, Done], result: RunResult, fleet: FleetState | None
) -> None:
    """Write the no-op record of a run in which every stage is up to date.

    Nothing is written if something changed meanwhile or the record cannot be written: the next run checks everything.
    """
    with suppress(OSError, StoreError, PipelineError):  # the baseline may have become unreadable
        if data := _build_record(planner, done, result):
            data["fleet"] = encode(fleet)
            temporary = planner.store.make_session_folder("note") / "new"
            replace_file(str(request.record_path), encode_checksummed(data), str(temporary))


def _build_record(planner: Planner, done: Mapping[str, Done], result: RunResult) -> dict[str, Any] | None:
    observed = _observe(planner, done)
    code = {path: read_signature(path) for path in list_code(planner)}
    records = _read_record_signatures(planner, done)
    artifacts = {stage.stage: stage.tree for stage in result.stages if stage.out}  # others are left in a remote
    stored = planner.store.take_snapshot(planner.pipeline.name, artifacts)
    if observed is None or records is None or stored is None:
        return None
    if not all(_is_older(seen, result.started_at) for seen in code.values()):
        return None
    # A file that changed just now may change again within the same tick of a coarse clock, and a mapped file without a
    # new time. The record holds the contents of these.
    stat_cache = planner.store.files
    moment = time() - CLOCK / SECOND
    fresh = {
        path
        for path, seen in observed.files.items()
        if seen and not (_is_older(seen, moment) and stat_cache.knows(seen))
    }
    contents = _digest_fresh(planner, done, observed, fresh)
    if contents is None or not _is_settled(_locate_config(planner), result):
        return None
    keys = [str(path) for path in list_trusted_files(planner.pipeline.project)]
    if not all(_is_settled(path, result) for path in keys):
        return None
    targets = [encode(target) for item in _list_local(done) for target in item.step.stage.targets or (None,)]
    targets = list({json.dumps(target): target for target in targets}.values())
    files = {path: seen for path, seen in observed.files.items() if path not in fresh}
    listed, probed = dict[str, str](), dict[str, str]()
    for item in done.values():
        listed |= _make_absolute(planner, item, item.action.implicit_deps.folders)
        probed |= _make_absolute(planner, item, item.action.implicit_deps.probed)
    return {
        "format": FORMAT,
        "targets": targets,
        "surroundings": read_surroundings(targets),
        "read": build_snapshot(files | code | records, observed.folders | listed),
        "contents": contents | {path: digest_file(path) for path in (_locate_config(planner), *keys)},
        "variables": _digest_variables(done),
        "modules": _list_modules(done),
        "secrets": list_signing_keys(),
        "probed": probed,
        "result": encode(_as_cached(result)),
        "artifacts": artifacts,
        "stored": build_snapshot(stored.files, stored.folders),
    }


def list_code(planner: Planner) -> Iterator[str]:
    """Yield the files of orun itself, of plug-in kinds and of plug-in providers: editing them changes no version."""
    for folder, folders, names in os.walk(PACKAGE):
        folders[:] = (name for name in folders if name != "__pycache__")
        yield from (f"{folder}/{name}" for name in names if name.endswith((".py", *PAGES)))
    modules = {use.entry for use in planner.pipeline.kinds.values() if use.origin == "plug-in"}
    for target in {target.name: target for stage in planner.pipeline.stages for target in stage.targets}.values():
        modules |= {provider.spec.module for provider in target.providers if provider.spec}
    for module in sorted(modules):
        yield from (path for _, path, _ in find_reachable(module))


def _read_record_signatures(planner: Planner, done: Mapping[str, Done]) -> dict[str, Signature | None] | None:
    """Return the signatures of the stages' action records, and of the pointers to them.

    None if another process has replaced a record.
    """
    store, pipeline = planner.store, planner.pipeline.name
    actions = {name: item.action for name, item in done.items()}
    paths = [*map(store.locate_record, actions.values()), *(store.locate_pointer(pipeline, name) for name in actions)]
    signatures = {str(path): read_signature(str(path)) for path in paths}
    stored = all(action in store.list_actions(action.key) for action in actions.values())
    latest = all(store.find_latest(pipeline, name) == action for name, action in actions.items())
    return signatures if stored and latest else None


class Observed(Record, frozen=True):
    """State of the user's files and folders, equal to the state that the decisions are based on.

    Attributes:
        files: path -> signature.
        folders: path -> digest of its names.
        read: path -> digest of the content that the decisions are based on.
    """

    files: dict[str, Signature | None]
    folders: dict[str, str]
    read: dict[str, str]


def _observe(planner: Planner, done: Mapping[str, Done]) -> Observed | None:
    """Return the state of files and folders; None if anything changed since the decisions.

    Signatures are read first, then contents, then signatures again.
    """
    read = _read(planner, done)
    seen = {path: read_signature(path) for path in _expand(read, planner.store.files)}
    folders = {path: digest_listing(path) for path in seen if Path(path).is_dir()}
    if any(_digest_content(planner, path) != digest for path, digest in read.items()):
        return None
    if baselines.read(planner.pipeline) != planner.baseline or any(read_signature(path) != seen[path] for path in seen):
        return None
    return Observed({path: state for path, state in seen.items() if path not in folders}, folders, read)


def _digest_fresh(
    planner: Planner, done: Mapping[str, Done], observed: Observed, fresh: set[str]
) -> dict[str, str] | None:
    """Return the contents that the decisions are based on of files that changed just now; None if not known."""
    digests = {path: observed.read.get(path) or digest_file(path) for path in sorted(fresh)}
    inside_folder = not observed.read.keys() >= fresh  # of which only one digest is known: nothing in it may change
    return None if inside_folder and _observe(planner, done) != observed else digests


def _is_settled(path: str, result: RunResult) -> bool:
    """Return whether a file has not changed since the run began."""
    seen = read_signature(path)
    return seen is None or seen[4] < result.started_at * SECOND  # its ctime: the mtime can be set


def _locate_config(planner: Planner) -> str:
    """Return the path of the file that may name a remote."""
    return str(locate_config(planner.pipeline.project))


def _list_local(done: Mapping[str, Done]) -> Iterator[Done]:
    """Yield the stages that depend on the packages, variables and devices of this machine, not of another one."""
    return (item for item in done.values() if not item.step.machine)


def _make_absolute(planner: Planner, item: Done, states: Mapping[str, str]) -> dict[str, str]:
    """Return the absolute paths that a stage saw with their states; of another machine those in the project alone."""
    root, on_another = planner.pipeline.root, bool(item.step.machine)
    return {str(root / path): state for path, state in states.items() if not (on_another and path.startswith("/"))}


def _digest_variables(done: Mapping[str, Done]) -> dict[str, str]:
    """Return the environment variables that stages, keys and the remote depend on, without secrets."""
    digests = {name: digest_value(name, read_stage_value(name)) for name in VARIABLES}
    for item in _list_local(done):
        digests |= {name: state for name, state in item.action.implicit_deps.environment.items() if state != SECRET}
        digests |= {name: digest_value(name, read_stage_value(name)) for name in list_variables(item.step.stage)}
    return digests


def _list_modules(done: Mapping[str, Done]) -> dict[str, bool]:
    """Return the modules whose mere presence stages depend on, and whether they were there."""
    packages = (item.action.implicit_deps.packages for item in _list_local(done) if not item.step.stage.environment)
    versions = (version for imported in packages for version in imported.items())
    return {
        name: version == distributions.PRESENT
        for name, version in versions
        if version in (distributions.ABSENT, distributions.PRESENT)
    }


def _read(planner: Planner, done: Mapping[str, Done]) -> dict[str, str]:
    """Return every file and folder that the result depends on, with the digest that the decisions are based on."""
    root = planner.pipeline.root
    digests = dict(planner.pipeline.sources)
    baseline = str(locate_baseline(planner.pipeline.file))
    digests[baseline] = _digest_content(planner, baseline)  # the caller compares it as it was read
    for item in done.values():
        for environment in item.step.stage.environments:
            record = str(venvs.locate_record(environment))
            digests[record] = _digest_content(planner, record)
        for reference in item.step.stage.references:
            content = find_value(item.step.components, ComponentKind.CONTENT, reference.parameter)
            digests[str(root / reference.path)] = content or ABSENT
        digests |= _make_absolute(planner, item, item.action.implicit_deps.files)
    return digests


def _expand(read: Iterable[str], files: StatCache) -> Iterator[str]:
    """Yield files and folders, and every file that counts in the folders."""
    for path in read:
        yield from files.iter_below(path) if Path(path).is_dir() else (path,)


def _digest_content(planner: Planner, path: str) -> str:
    try:
        return planner.store.files.digest_path(path)
    except StoreError:
        return ABSENT


def _is_older(seen: Signature | None, moment: float) -> bool:
    """Return whether a file was last changed before a moment, by mtime and ctime."""
    return seen is not None and max(seen[3:]) < moment * SECOND


def _as_cached(result: RunResult) -> RunResult:
    """Return the result as the next run will have it: all of it from the store."""
    origins = ReasonCode.FETCHED, ReasonCode.ON_MACHINE
    stages = tuple(
        replace(stage, inputs=(), reasons=tuple(item for item in stage.reasons if item.code not in origins))
        if stage.outcome == "cached"
        else replace(stage, outcome="cached", reasons=(build_reason(ReasonCode.UP_TO_DATE),), inputs=())
        for stage in result.stages
    )
    return replace(result, stages=stages, repeats=result.run)
