"""orun store: what is in a store, whether it is damaged, what it keeps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from orun.cli import options
from orun.cli.store_gc import gc
from orun.cli.verb import HELP_NAMES, Verb
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.report.figures import format_age
from orun.report.stages import SHORT
from orun.report.table import Cell, Column, render
from orun.report.terminal import detect
from orun.text.counts import count
from orun.text.suggestions import show_path
from orun.text.units import show

if TYPE_CHECKING:
    from orun.store import Store
    from orun.store.pins import Pin

F = TypeVar("F", bound=Callable[..., object])
DAMAGED = 1
USAGE = (Column("folder"), Column("files", "right"), Column("on disk", "right"))
PINS = (Column("pin"), Column("artifact"), Column("made by"), Column("since"))


@click.group("store", context_settings={"help_option_names": HELP_NAMES})
def command() -> None:
    """The store of this project, or the one that --store names: its size, its state, what it keeps.

    All of this is safe while runs go on.
    """


command.add_command(gc)


def verb(name: str, *examples: tuple[str, str]) -> Callable[[F], click.Command]:
    """Return a verb of this group, with --store and --json."""

    def decorate(function: F) -> click.Command:
        decorated = options.store_option(options.json_option(function))
        return command.command(name, cls=Verb, examples=examples)(decorated)

    return decorate


@verb("stats", ("orun store stats", "how much is in it, and where"))
def stats(store: Path | None, as_json: bool) -> int:
    """Show how many files the store has and what they take on the disk, folder by folder.

    A file that has several names, as the checkouts in `out/` may share theirs with `objects/`, counts once.
    """
    from orun.store.stats import measure_usage as measure

    with options.open_store(store) as opened:
        usage = measure(opened)
        runs = len(opened.list_runs())
        records = sum(1 for _ in opened.parts.actions.iter_all())
        root = opened.root
    size = sum(folder.size for folder in usage.values())
    if as_json:
        options.show_json({"store": root, "size": size, "runs": runs, "records": records, "folders": usage})
        return 0
    rows = [
        (Cell(name, "strong"), Cell(str(folder.files)), Cell(show(folder.size, "B"))) for name, folder in usage.items()
    ]
    held = f"{count(records, 'result')} of stages, {count(runs, 'run')}, {show(size, 'B')} on disk"
    options.show([*render(USAGE, rows, detect(sys.stdout)), "", f"{show_path(str(root))}: {held}"])
    return 0


@verb("verify", ("orun store verify", "read everything; exit 1 when something was damaged"))
def verify(store: Path | None, as_json: bool) -> int:
    """Read every object and record of the store again and name what is damaged or missing.

    Damaged files go to `quarantine/`. The next run that needs one makes it again. The exit code is 1 if anything is
    damaged.
    """
    from orun.remote.known_results import ResultsOfRemotes
    from orun.store.verify import verify as read_all

    with options.open_store(store) as opened:
        check = read_all(opened, ResultsOfRemotes(opened.root))
    if as_json:
        options.show_json({"ok": not check.problems, **vars(check)})
    else:
        read = f"{count(check.objects, 'object')} ({show(check.size, 'B')}) and {count(check.records, 'record')} read"
        outcome = f"{count(len(check.problems), 'problem')}; the next run makes again what it needs of it"
        left = f" ({count(check.remote, 'result')} in a remote only)" if check.remote else ""
        options.show([*check.problems, f"{read}{left}: {outcome if check.problems else 'OK'}"])
    return DAMAGED if check.problems else 0


@verb(
    "pin",
    ("orun store pin v1.2-candidate bert/int8", "keep what the stage int8 of the pipeline bert made last"),
    ("orun store pin first-try 1f0c9a2b7d3e", "keep an artifact by the beginning of its digest (orun FILE --verbose)"),
)
@click.argument("name")
@click.argument("artifact")
def pin(name: str, artifact: str, store: Path | None, as_json: bool) -> int:
    """Keep ARTIFACT under NAME until it is unpinned, whatever `orun store gc` removes.

    ARTIFACT is `pipeline/stage`, for its latest result, or the beginning of a digest. A NAME that exists moves to
    ARTIFACT.
    """
    from orun.store.pins import pin as keep

    with options.open_store(store) as opened:
        pinned = keep(opened, name, _find_tree(opened, artifact))
    if as_json:
        options.show_json(pinned)
    else:
        options.show([f"pinned {pinned.tree[:SHORT]} as {name}"])
    return 0


@verb("unpin", ("orun store unpin v1.2-candidate", "no longer keep it for its own sake"))
@click.argument("name")
def unpin(name: str, store: Path | None, as_json: bool) -> int:
    """Give up the pin NAME; nothing is removed before the next `orun store gc`."""
    from orun.store.pins import unpin as give_up

    with options.open_store(store) as opened:
        give_up(opened, name)
    if as_json:
        options.show_json({"name": name})
    else:
        options.show([f"unpinned {name}"])
    return 0


@verb("pins", ("orun store pins", "what is pinned, and since when"))
def pins(store: Path | None, as_json: bool) -> int:
    """List the pins."""
    import time

    from orun.store.pins import list_pins as all_pins

    with options.open_store(store) as opened:
        pinned = all_pins(opened)
        makers = _find_makers(opened)
    if as_json:
        options.show_json({"pins": pinned})
        return 0
    rows = [
        (
            Cell(entry.name, "strong"),
            Cell(entry.tree[:SHORT]),
            Cell(_choose_maker(entry, makers.get(entry.tree, []))),
            Cell(format_age(time.time() - entry.at)),
        )
        for entry in pinned
    ]
    options.show(render(PINS, rows, detect(sys.stdout)) or ["nothing is pinned"])
    return 0


def _find_makers(store: Store) -> dict[str, list[tuple[str, str]]]:
    """Return the stages that made each artifact, with their pipelines; no stage of an investigation.

    Pipelines may share a result. Its record names only the first of them, and each has a pointer to it.
    """
    from orun.core.run_record import INVESTIGATIONS

    names = [(pipeline, stage) for pipeline, stage, _ in store.parts.actions.iter_pointers()]
    results = [(*name, latest.tree) for name in names if (latest := store.find_latest(*name))]
    results += [(action.pipeline, action.stage, action.tree) for _, _, action in store.parts.actions.iter_all()]
    makers: dict[str, list[tuple[str, str]]] = {}
    for pipeline, stage, tree in results:
        if not pipeline.endswith(INVESTIGATIONS):
            makers.setdefault(tree, []).append((pipeline, stage))
    return makers


def _choose_maker(pin: Pin, makers: Sequence[tuple[str, str]]) -> str:
    """Return which stage made a pinned artifact: of a baseline's model, a stage of its pipeline if there is one."""
    from orun.gates.pinned import is_of

    best = [maker for maker in makers if is_of(pin, maker[0])] or makers
    return "/".join(best[0]) if best else ""


def _find_tree(store: Store, artifact: str) -> str:
    """Return the digest of the artifact that is meant.

    Raises:
        StoreError: when the store cannot be read.
        UsageError: when it is none, or not one alone.
    """
    from orun.fs.os_errors import convert_os_errors

    with convert_os_errors("read what is in the store", store.root):
        stages = {
            f"{pipeline}/{stage}": (pipeline, stage) for pipeline, stage, _ in store.parts.actions.iter_pointers()
        }
        if artifact in stages and (latest := store.find_latest(*stages[artifact])):
            return latest.tree
        trees = sorted(
            {action.tree for _, _, action in store.parts.actions.iter_all() if action.tree.startswith(artifact)}
        )
    if len(trees) == 1:
        return trees[0]
    if trees:
        raise UsageError(f"{len(trees)} artifacts begin with {artifact!r}", why="\n".join(trees))
    from orun.text.suggestions import format_choices, list_nearest

    close = list_nearest(artifact, stages)
    raise UsageError(
        f"no artifact {artifact!r} is in the store",
        why=f"did you mean {format_choices(close)}?"
        if close
        else f"expected the beginning of a digest, or {format_choices(sorted(stages))}",
        hint=f"orun store pin NAME {quote(close[0] if close else 'PIPELINE/STAGE')}",
    )
