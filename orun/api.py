"""The public functions of orun, but for `orun.init`: load, plan, explain, run, history, verify, watch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from orun.core.activity import report
from orun.core.events import Notice
from orun.core.renderers import load_renderer, register
from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.environment.call_cache import forget
from orun.errors import MissingPackages, UsageError
from orun.eventlog import Journal, Listener, forward_activities, ignore
from orun.noop.answer import answer, build_request
from orun.remote.options import Remote
from orun.store.layout import is_writable, locate_store
from orun.text.api_arguments import PathLike, as_list, format_values, require_limits, require_path

if TYPE_CHECKING:
    from orun.drift.release import Release
    from orun.drift.result import WatchResult
    from orun.history import Series
    from orun.noop.fleet_check import FleetState
    from orun.pipeline.model import Pipeline
    from orun.planning.plan import Plan, Step
    from orun.planning.planner import Planner
    from orun.remote.settings import Settings
    from orun.runner.fleet import Fleet, FleetRun
    from orun.runner.reproducibility import Rebuilt
    from orun.stages.release._bundle_check import BundleCheck

register("write_html", "orun.report.notebook", "write_html")
register("to_frame", "orun.report.frame", "to_frame")
register("notebook_html", "orun.report.notebook", "render_html")
register("notebook_progress", "orun.report.notebook", "create_progress")
register("plan_html", "orun.report.notebook", "render_plan")
register("reason_text", "orun.report.facts", "describe_fact")


def load(file: PathLike, set: Mapping[str, Any] | None = None) -> Pipeline:  # noqa: A002 - the word of `--set`
    """Read, check and expand a pipeline file; nothing that it names is run.

    Args:
        file: path of the YAML file.
        set: values that replace those of the file, by dotted path (`{"vars.sequence": 64}`): JSON or paths.

    Raises:
        PipelineError: with every mistake of the file.
    """
    from orun.pipeline import load as load_file

    forget()
    return load_file(Path(require_path("file", file)), format_values(set))


def plan(  # noqa: PLR0913 - the options of the command line
    file: PathLike | Pipeline,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of `--set`
    only: str | Collection[str] = (),
    from_: str | Collection[str] = (),
    to: str | Collection[str] = (),
    force: str | Collection[str] = (),
    fresh: bool = False,
    store: PathLike | None = None,
    remote: Remote | str | None = None,
    executor: Fleet | str | None = None,
) -> Plan:
    """Return what a run would do and why; runs nothing.

    Args:
        file: a pipeline file, or a loaded pipeline.
        set: as for `load`.
        only: ids of stages to look at alone; a single id may be a text, here and below.
        from_: ids of stages to look at with all after them.
        to: ids of stages to look at with all before them.
        force: ids of stages to run whatever is stored.
        fresh: measure again what is bound to this host.
        store: the store's folder; see `locate_default_store`.
        remote: as for `run`; only a plan for several machines needs it.
        executor: as for `run`. The machines get the project, and say what their results depend on.

    Raises:
        PipelineError: with every mistake of the file.
        UsageError: when a stage of that name is not in it, or the machines cannot be used.
    """
    with _open_planner(_load_pipeline(file, set), store, force, remote, executor, fresh=fresh) as planner:
        chosen = _select(planner.pipeline, only, from_, to)
        complete = planner.plan(chosen)
    return replace(complete, steps=tuple(step for step in complete.steps if step.stage.id in chosen))


def explain(
    file: PathLike | Pipeline,
    stage: str,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of `--set`
    store: PathLike | None = None,
    remote: Remote | str | None = None,
    executor: Fleet | str | None = None,
) -> Step:
    """Return the decision on one stage with the components of its key, and its implicit dependencies, then and now.

    Args:
        file: a pipeline file, or a loaded pipeline.
        stage: its id.
        set: as for `load`.
        store: the store's folder; see `locate_default_store`.
        remote: as for `plan`.
        executor: as for `plan`.

    Raises:
        PipelineError: with every mistake of the file.
        UsageError: when there is no stage of that name, or the machines cannot be used.
    """
    from orun.planning.explanation import explain_stage

    if not isinstance(stage, str):
        raise UsageError(f"stage must be the id of a stage, not {stage!r}")
    with _open_planner(_load_pipeline(file, set), store, (), remote, executor) as planner:
        return explain_stage(planner, stage)


def run(  # noqa: PLR0913 - the options of the command line
    file: PathLike | Pipeline,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of `--set`
    only: str | Collection[str] = (),
    from_: str | Collection[str] = (),
    to: str | Collection[str] = (),
    force: str | Collection[str] = (),
    fresh: bool = False,
    keep_going: bool = False,
    past_gates: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    gpus: int | None = None,
    store: PathLike | None = None,
    remote: Remote | str | None = None,
    executor: Fleet | str | None = None,
    wait: float = 0.0,
    reports: PathLike | Collection[PathLike] = (),
    on_event: Listener | None = None,
) -> RunResult:
    """Bring a pipeline up to date and judge its gates.

    Args:
        file: a pipeline file, or a loaded pipeline.
        set: values that replace those of the file, as for `load`.
        only: ids of stages to run alone; those before them must be up to date. A single id may be a text, here and
            below.
        from_: ids of stages to run with all after them; those before them must be up to date.
        to: ids of stages to run with all before them.
        force: ids of stages to run whatever is stored.
        fresh: measure again what is bound to this host.
        keep_going: whether a failed stage stops only what is after it.
        past_gates: whether stages that only measure or check run behind a failed gate; `--keep-going` sets both.
        strict: whether every gate must pass: one that is undecided, or not judged because its stage is skipped, fails
            the run then, and keeps back the releases that it guards.
        jobs: cores to keep busy; all usable ones when None.
        gpus: GPUs to use; all visible ones when None.
        store: the store's folder; see `locate_default_store`.
        remote: the store that is shared with other machines, or its URL; what `$ORUN_REMOTE` or the project's
            `pyproject.toml` says when None.
        executor: other machines that run the stages, or their URL (`ray://head:6379`); what `$ORUN_ON` or the
            project's `pyproject.toml` says when None; `off` for none. They need a remote.
        wait: seconds that a stage waits for a machine that can run it, at the start of the run and during it.
        reports: files that the caller writes after the run; one that the run reads is refused.
        on_event: called with each event as it happens. When None, a notebook shows a line for each stage that ends,
            and other programs show nothing.

    Returns:
        What became of each stage and gate; `exit_code` sums it up. A failed stage or gate is a result, not an error.

    Raises:
        PipelineError: with every mistake of the file, and all that its stages lack on this machine.
        StoreError: when the store cannot be used.
        NoMachine: when a stage must run and none of the machines can run it.
        UsageError: when a stage of that name is not in the file, the remote cannot be as it is asked for, or a report
            would replace what the run reads.
        RunInterrupted: a `KeyboardInterrupt`, when the user stops the run, which has ended in order; its `result` says
            what became of each stage.
    """
    _require_posix("orun.run")
    require_limits(jobs, gpus, wait)
    started_at = time()
    listener = on_event or choose_listener()
    remote = Remote(remote) if isinstance(remote, str) else remote
    part = only or from_ or to or force or fresh
    request = None if part else build_request(file, set, store, remote, executor, strict=strict)
    paths = [Path(path) for path in as_list("reports", reports)]
    if request and (answered := answer(request, paths, listener, started_at)):
        return answered
    with ExitStack() as planning:
        planning.enter_context(forward_activities(listener))
        pipeline = _load_pipeline(file, set)
        from orun.environment.resources import find_available_resources
        from orun.noop import overwrites
        from orun.noop.record import write_record
        from orun.planning.open_planner import open_planner
        from orun.remote.settings import resolve
        from orun.runner.output_checkouts import require_distinct_folders
        from orun.runner.preflight import require
        from orun.runner.run_session import RunSession, require_up_to_date

        root = locate_store(store, pipeline.root)
        read_only = not is_writable(root)
        if paths:
            overwrites.refuse_before_planning(paths, pipeline, remote or Remote(), root)
        planner = open_planner(
            pipeline.to_strict() if strict else pipeline,
            root,
            as_list("force", force),
            fresh=fresh,
            read_only=read_only,
            past_gates=past_gates,
        )
        require_distinct_folders(planner.store, planner.pipeline)
        chosen = _select(planner.pipeline, only, from_, to)
        shared = resolve(remote or Remote(), planner.pipeline.project)
        machines = "" if read_only else _choose_executor(executor, planner.pipeline)
        with _plan_with_fleet(machines, planner, shared, chosen, wait, listener) as (planned, fleet):
            if paths:
                overwrites.refuse(paths, overwrites.list_stage_files(planner, planned))
            run_name = f"{planner.pipeline.name}{planner.pipeline.run_suffix}"
            here = find_available_resources(jobs, gpus, memory=any(step.stage.memory for step in planned.steps))
            if read_only:
                require_up_to_date(planned, chosen, root)
                folder = planner.store.choose_next_run_folder(run_name)
            else:
                require(planned, chosen, here)
                folder = planner.store.create_run(run_name)
            with Journal(folder, listener, started_at, recorded=not read_only) as journal:
                planning.close()  # from here on, events tell what happens
                session = RunSession(planner, planned, chosen, here, journal, None if read_only else shared, fleet)
                result, runner = session.run(keep_going=keep_going)
    offered = runner.remote is None or runner.remote.uploads.complete
    if request and offered and runner.outcome.complete and not read_only:
        write_record(
            request, planner, runner.outcome.done, result, _collect_fleet_state(machines, fleet, planner, shared)
        )
    return result


def rebuild(
    file: PathLike | Pipeline,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of `--set`
    only: str | Collection[str] = (),
    store: PathLike | None = None,
    on_result: Callable[[Rebuilt], None] = lambda _: None,
) -> tuple[Rebuilt, ...]:
    """Build stages that are up to date once more, in processes with another hash seed, and compare; stores nothing.

    Args:
        file: a pipeline file, or a loaded pipeline.
        set: as for `load`.
        only: ids of stages; all when empty.
        store: the store's folder; see `locate_default_store`.
        on_result: called with each stage as soon as it is known.

    Raises:
        PipelineError: with every mistake of the file, and all that its stages lack on this machine.
        UsageError: when a stage of that name is not in the file, or nothing is stored to compare with.
    """
    from orun.planning.open_planner import open_planner
    from orun.runner.reproducibility import rebuild as build_again

    _require_posix("orun.api.rebuild")

    pipeline = _load_pipeline(file, set)
    planner = open_planner(pipeline, locate_store(store, pipeline.root))
    with planner.store:
        return build_again(planner, _select(planner.pipeline, only, (), ()), on_result)


def history(metric: str = "", *, pipeline: str = "", store: PathLike | None = None) -> tuple[Series, ...]:
    """Return what runs have measured over time: a series for each pipeline, stage, metric and machine.

    Args:
        metric: `p50`, or `latency.p50` of one stage; every metric when empty.
        pipeline: name of a pipeline; every pipeline when empty.
        store: the store's folder; see `locate_default_store`.

    Raises:
        StoreError: when the history cannot be read.
        UsageError: when there is no such measurement.
    """
    from orun.history import History, group_points, locate_history
    from orun.history.search import find_points

    root = locate_store(store)
    return group_points(find_points(History(locate_history(root)), metric, pipeline))


def verify(bundle: PathLike) -> BundleCheck:
    """Check that every file of a bundle matches its manifest, as `orun verify` does.

    Args:
        bundle: the folder of a stage of `release/bundle`, or a copy of it.

    Returns:
        The problems, and the SHA-256 of each file if there is none. A folder that is no bundle is a problem, too.
    """
    from orun.stages.release._bundle_check import check_bundle

    return check_bundle(Path(bundle))


def watch(
    log: PathLike | Sequence[PathLike],
    release: PathLike | Release,
    *,
    learn: Mapping[str, int] | None = None,
    alpha: float = 0.01,
    per: float = 0.0,
    state: PathLike | None = None,
    follow: bool = False,
) -> WatchResult:
    """Look for drift of a server's log from its release, as `orun watch` does.

    Args:
        log: the sampled log of the server, or several, the oldest first.
        release: folder of a bundle or of a server, with a `reference.json`.
        learn: for names of statistics, with wildcards, the number of records at the start of the log that become their
            references; 0 for the release's examples, which are the reference of all but the latency: `{"latency": 0}`.
        alpha: probability of ever naming a statistic that has not drifted, whenever and however often one looks.
        per: seconds of a period of which one record counts; 0 if every record counts.
        state: file with the state of the test, which goes on with each call; a new test of the whole log when None.
        follow: whether to wait for further records until a statistic has drifted.

    Returns:
        The verdict on each statistic; `drifted` has those that have drifted.

    Raises:
        UsageError: when the log, the release or the state cannot be read, where it names the line; or when the state
            cannot be written.
        MissingPackages: without NumPy.
    """
    if find_spec("numpy") is None:
        raise MissingPackages("orun watch needs NumPy, which is not installed", ["numpy"])
    from orun.drift.release import Release, load_release
    from orun.drift.state import open_state, restore, save
    from orun.drift.watcher import Watcher, watch_logs
    from orun.noop.overwrites import refuse_here

    if not 0 < alpha < 1:
        raise UsageError(f"alpha must be above 0 and below 1, not {alpha:g}")
    if per < 0:
        raise UsageError(f"a period has no {per:g} seconds")
    logs = as_list("log", log)
    if not logs:
        raise UsageError("no log was named", hint="name the sampled log of a server: requests.jsonl")
    known = release if isinstance(release, Release) else load_release(Path(release))
    watcher = Watcher(known, learn or {}, alpha, per)
    if not state:
        return watch_logs(watcher, logs, follow=follow)
    restore(watcher, Path(state))
    refuse_here([Path(state)])
    with open_state(Path(state)) as file:
        try:
            return watch_logs(watcher, logs, follow=follow)
        finally:
            save(watcher, file)


def choose_listener() -> Listener:
    """Return the listener of a run whose caller names none: lines of progress in a notebook, else nothing."""
    return load_renderer("notebook_progress")() if "ipykernel" in sys.modules else ignore


def _require_posix(function: str) -> None:
    if sys.platform == "win32":
        from orun.environment.platforms import require_posix

        require_posix(function)


def _collect_fleet_state(
    executor: Fleet | str, run: FleetRun | None, planner: Planner, remote: Settings | None
) -> FleetState | None:
    """Return what a no-op record has of a run on several machines; None of any other run."""
    if not (run and remote and isinstance(executor, str)):
        return None
    from orun.noop.fleet_check import build_state

    return build_state(executor, run, planner, remote.url)


def _load_pipeline(file: PathLike | Pipeline, values: Mapping[str, Any] | None) -> Pipeline:
    from orun.pipeline.model import Pipeline

    if isinstance(file, Pipeline):
        return file
    report(f"reading {os.fspath(require_path('file', file))}")
    return load(file, values)


@contextmanager
def _open_planner(
    pipeline: Pipeline,
    store: PathLike | None,
    force: Collection[str],
    remote: Remote | str | None,
    executor: Fleet | str | None,
    *,
    fresh: bool = False,
) -> Iterator[Planner]:
    """Yield the planner of a plan without a run, with the facts of other machines if they are asked for."""
    from orun.planning.open_planner import open_planner

    root, forced = locate_store(store, pipeline.root), as_list("force", force)
    machines = _choose_executor(executor, pipeline)
    if not machines:
        yield open_planner(pipeline, root, forced, fresh=fresh, read_only=True)
        return
    from orun.agent.fleet_planning import join_fleet
    from orun.remote.settings import resolve

    planner = open_planner(pipeline, root, forced, fresh=fresh)
    shared = resolve((Remote(remote) if isinstance(remote, str) else remote) or Remote(), pipeline.project)
    with join_fleet(machines, planner, shared):
        yield planner


def _choose_executor(executor: Fleet | str | None, pipeline: Pipeline) -> Fleet | str:
    """Return the machines that a run uses, or their URL; empty for this machine alone."""
    if executor is not None and not isinstance(executor, str):
        return executor
    from orun.remote.settings import read_fleet_url

    return read_fleet_url(executor, pipeline.project)


@contextmanager
def _plan_with_fleet(
    executor: Fleet | str,
    planner: Planner,
    remote: Settings | None,
    chosen: Collection[str],
    wait: float,
    listener: Listener,
) -> Iterator[tuple[Plan, FleetRun | None]]:
    """Yield the plan of a run, and the fleet with whose facts it was made, if there is one."""
    if not executor:
        yield planner.plan(), None
        return
    from orun.agent.fleet_planning import join_fleet, plan_on_fleet

    with join_fleet(executor, planner, remote, wait) as fleet:
        assert remote  # noqa: S101 - there is no fleet without one
        yield plan_on_fleet(fleet, planner, remote, chosen, lambda text: listener(Notice("info", text))), fleet


def _select(pipeline: Pipeline, only: Collection[str], from_: Collection[str], to: Collection[str]) -> Collection[str]:
    """Return the ids of the stages that were asked for; all when nothing was said."""
    from orun.pipeline.graph import select

    chosen = select(pipeline, only=as_list("only", only), from_=as_list("from_", from_), to=as_list("to", to))
    return {stage.id for stage in chosen}
