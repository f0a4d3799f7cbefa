"""Bundles by the last run of their pipeline: why one is not there, or is of an earlier run."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from orun.cli import options
from orun.errors import UsageError
from orun.fs.observed_state import FOLDER, observe_presence, stat_presence
from orun.fs.os_errors import quote
from orun.report.gates import explain_unjudged, explain_verdict, format_located_title
from orun.report.run_options import format_run_options
from orun.report.summary import iter_skip_reasons
from orun.store.layout import VERSION_FILE, to_safe_name
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.core.run_record import RunResult, StageResult

BUNDLE = "expected the folder of a stage of release/bundle, or a copy of it"
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
PIPELINES = (".yaml", ".yml")
SEARCHED = 100  # newest runs that are searched for one of the pipeline


def build_no_bundle_error(target: str, store: Path | None) -> UsageError:
    """Return the error of a path that is not a folder: why there is no bundle, and the next command."""
    from orun.stages.release._manifest import MANIFEST

    look = f"ls {options.format_outputs_folder(_find_store_above(target) or store)}"
    if not os.path.lexists(target):
        return _find_not_built_error(target) or UsageError(f"there is no bundle {target}", why=BUNDLE, hint=look)
    path = Path(target)
    folder = next((target[: -len(ending)] for ending in ARCHIVES if target.lower().endswith(ending)), "")
    if folder:
        unpack = f"unzip {quote(target)} -d" if path.suffix.lower() == ".zip" else f"tar -xf {quote(target)} -C"
        steps = f"mkdir {quote(folder)} && {unpack} {quote(folder)} && orun verify {quote(folder)}"
        return UsageError(f"{target} is an archive, not a bundle", why=f"{BUNDLE}: unpack it first", hint=steps)
    described = "a file" if path.is_file() else "no file or folder"
    if observe_presence(path.parent / MANIFEST):
        hint = f"orun verify {quote(str(path.parent))}"
    else:
        hint = f"orun verify --rebuild {quote(target)}" if path.suffix in PIPELINES else look
    return UsageError(f"{target} is {described}, not a bundle", why=BUNDLE, hint=hint)


def find_bundle_near(folder: Path) -> Path | None:
    """Return the first bundle in or beside a folder that is not a bundle itself; None if there is none."""
    from orun.stages.release._manifest import MANIFEST

    if observe_presence(folder / MANIFEST):
        return None
    bundles = [path.parent for place in (folder, folder.parent) for path in sorted(place.glob(f"*/{MANIFEST}"))]
    return bundles[0] if bundles else None


def note_earlier_run(target: str) -> str:
    """Return a note, without its label, if the last run did not build the bundle of a checkout; else an empty text."""
    run, stage = _find_last_build(target)
    if run is None or stage is None or stage.outcome in ("built", "cached"):
        return ""
    file = quote(show_path(run.file))
    return f"it is of an earlier run, as the last run of {file} built none: {'; '.join(_list_causes(run, stage))}"


def _find_not_built_error(target: str) -> UsageError | None:
    """Return the error of a checkout that the last run left out; None for another path."""
    run, stage = _find_last_build(target)
    if run is None or stage is None:
        return None
    file = quote(show_path(run.file))
    again = f"orun {file}{format_run_options(run)}"
    if stage.outcome in ("built", "cached"):
        return UsageError(f"there is no bundle {target}", why="it was removed after the last run", hint=again)
    why = "\n".join([f"the last run of {file} built none:", *_list_causes(run, stage)])
    return UsageError(f"there is no bundle {target}", why=why, hint=f"correct that, then: {again}")


def _find_last_build(target: str) -> tuple[RunResult | None, StageResult | None]:
    """Return the last run and the stage of a checkout `STORE/out/PIPELINE/STAGE`; None where there is none."""
    root = _find_store_above(target)
    if root is None:
        return None, None
    path = _make_absolute(target)
    run = _find_last_run(root, path.parent.name)
    return run, next((stage for stage in run.stages if to_safe_name(stage.stage) == path.name), None) if run else None


def _find_store_above(target: str) -> Path | None:
    """Return the store of a path `STORE/out/PIPELINE/STAGE`, which need not be there; None for another path."""
    path = _make_absolute(target)
    root = path.parents[2] if len(path.parents) > 2 else None  # noqa: PLR2004
    return root if root and path.parents[1].name == "out" and stat_presence(root / VERSION_FILE) else None


def _make_absolute(target: str) -> Path:
    return Path(os.path.abspath(target))  # noqa: PTH100 - without `..`, of a path that need not be there


def _find_last_run(root: Path, pipeline: str) -> RunResult | None:
    """Return the newest ended run of the pipeline whose checkouts are in the folder of this name."""
    from orun.eventlog import read_result
    from orun.store import Store

    if observe_presence(root / "runs") != FOLDER:
        return None
    results = map(read_result, islice(Store.open(root, read_only=True).iter_ended_runs(), SEARCHED))
    return next((result for result in results if to_safe_name(result.pipeline) == pipeline), None)


def _list_causes(run: RunResult, stage: StageResult) -> list[str]:
    """Return a line for each failed stage and each gate that blocks releases; else why the stage did not run."""
    failures = [f"stage {failed.stage} failed: {failed.failure.problem}" for failed in run.stages if failed.failure]
    blocking = [verdict for verdict in run.verdicts if verdict.blocks and not verdict.depth]
    gates = [f"{format_located_title(verdict)}: {explain_verdict(verdict)}" for verdict in blocking]
    return failures + gates or [*iter_skip_reasons(run)] or [explain_unjudged(stage)]
