"""orun verify: whether a bundle is what its manifest says, and whether stages make the same bytes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.complete import complete_file, complete_stage
from orun.cli.selection import ALL, SelectingVerb
from orun.errors import StageError
from orun.fs.observed_state import FOLDER, observe_presence
from orun.fs.os_errors import quote
from orun.text.counts import count
from orun.text.markdown import escape_unprintable
from orun.text.units import show
from orun.text.wording.reasons import describe_reasons

if TYPE_CHECKING:
    from orun.runner.reproducibility import Changed, Rebuilt

EXAMPLES = (
    ("orun verify artifacts/out/bert/release", "before shipping it, and wherever it was carried"),
    ("orun verify --rebuild pipelines/bert.yaml", "does every stage make the same bytes again?"),
    ("orun verify pipelines/bert.yaml --rebuild int8 --rebuild fuse --json", "two stages, for a program"),
)
DAMAGED = 1


@click.command("verify", cls=SelectingVerb, examples=EXAMPLES)
@click.argument("target", shell_complete=complete_file)
@click.option(
    "--rebuild",
    multiple=True,
    is_flag=False,
    flag_value=ALL,
    metavar="[STAGE]",
    shell_complete=complete_stage,
    help="Build this stage of a pipeline file again and compare; without STAGE, every one. Repeatable.",
)
@options.set_option
@options.store_option
@options.json_option
def command(target: str, rebuild: Sequence[str], overrides: Sequence[str], store: Path | None, as_json: bool) -> int:
    """Check that TARGET is what it should be: a folder that `release/bundle` made, or with --rebuild a pipeline file.

    A bundle is OK if no file was changed, removed or added since it was made. Then the SHA-256 of each file is printed.
    That of manifest.json, which lists all other files, identifies the bundle. Packages that its models need beside ONNX
    Runtime are named.

    A stage is deterministic if a process with another hash seed makes the same bytes and metrics of the stored inputs.
    The stored result is not touched. Measurements cannot be rebuilt, and the report says so.

    The exit code is 1 if a bundle does not match its manifest, or if a stage differs although its kind does not allow
    it. It is 3 if a stage fails.
    """
    if rebuild:
        names = [] if ALL in rebuild else rebuild
        return _rebuild(target, names, options.parse_overrides(overrides), store, as_json=as_json)
    if observe_presence(target) != FOLDER:
        from orun.cli.bundle_checkout import build_no_bundle_error

        raise build_no_bundle_error(target, store)
    return _verify_bundle(Path(target), as_json=as_json)


def _verify_bundle(bundle: Path, *, as_json: bool) -> int:
    from orun.api import verify
    from orun.cli.bundle_checkout import find_bundle_near, note_earlier_run

    check = verify(bundle)
    note = note_earlier_run(str(bundle)) if check.ok else ""
    if as_json:
        options.show_json(
            {
                "bundle": str(bundle),
                "ok": check.ok,
                "problems": check.problems,
                "sha256": dict(check.sha256),
                "requires": dict(check.requires),
                "note": note,
            }
        )
    elif check.ok:
        digests = [f"{digest}  {escape_unprintable(path)}" for path, digest in check.sha256.items()]
        packages = [escape_unprintable(f"{name} {version}".strip()) for name, version in check.requires.items()]
        needs = [f"its sessions need {', '.join(packages)} beside ONNX Runtime"] if packages else []
        notes = [f"note: {note}"] if note else []
        options.show([f"{bundle} is OK: all files match the manifest", *needs, *notes, "", "SHA-256", *digests])
    else:
        hints = [f"  hint: orun verify {quote(str(near))}"] if (near := find_bundle_near(bundle)) else []
        problems = (f"  {escape_unprintable(text)}" for text in check.problems)
        options.show([f"{bundle} does not match its manifest:", *problems, *hints])
    return 0 if check.ok else DAMAGED


def _rebuild(file: str, names: Sequence[str], overrides: dict[str, str], store: Path | None, *, as_json: bool) -> int:
    from orun.api import rebuild
    from orun.cli.signals import stop_signals

    def report(stage: Rebuilt) -> None:
        if not as_json:
            options.show(format_comparison(stage))

    with stop_signals():
        stages = rebuild(file, only=names, set=overrides, store=store, on_result=report)
    if as_json:
        options.show_json({"file": file, "good": all(stage.good for stage in stages), "stages": stages})
    else:
        counts = Counter(_name_verdict(stage) for stage in stages)
        options.show(
            ["", f"{count(len(stages), 'stage')}: {', '.join(f'{number} {word}' for word, number in counts.items())}"]
        )
    if any(stage.verdict == "failed" for stage in stages):
        return StageError.exit_code
    return 0 if all(stage.good for stage in stages) else DAMAGED


def format_comparison(stage: Rebuilt, builds: tuple[str, str] = ("stored", "rebuilt")) -> list[str]:
    """Return what became of one stage, and below it each difference between its two builds, which have these names."""
    verdict = f"{stage.stage}: {_name_verdict(stage)}"
    if why := stage.why or "; ".join(describe_reasons(stage.reasons)):
        return [f"{verdict}: {why}"]
    if stage.verdict == "identical":
        return [f"{verdict}, {show(stage.size, 'B')}"]
    first, second = builds
    metrics = [
        f"  metric {name}: {_format_value(old)} {first}, {_format_value(new)} {second}"
        for name, (old, new) in stage.metrics.items()
    ]
    return [verdict, *(_format_file(file, first, second) for file in stage.files), *metrics]


def _name_verdict(stage: Rebuilt) -> str:
    return "differs, as its kind says it may" if stage.verdict == "differs" and stage.declared else stage.verdict


def _format_file(file: Changed, first: str, second: str) -> str:
    if file.stored is None or file.rebuilt is None:
        size = file.stored if file.rebuilt is None else file.rebuilt
        return f"  {file.path}: only {first if file.rebuilt is None else second}, {show(size or 0, 'B')}"
    if file.stored == file.rebuilt:
        return f"  {file.path}: other bytes, {show(file.stored, 'B')} each"
    return f"  {file.path}: {show(file.stored, 'B')} {first}, {show(file.rebuilt, 'B')} {second}"


def _format_value(value: float | None) -> str:
    return "none" if value is None else repr(value)
