"""Baseline file: its content, and how it is read and replaced."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from orun.core.key_component import Components, KeyComponent
from orun.core.metrics import Metric
from orun.core.run_record import ChangedSetting
from orun.core.serialization import Record, decode, encode, field, replace
from orun.core.source_location import Position, Problem, abridge
from orun.errors import PipelineError
from orun.fs.bounded_reads import RECORD_LIMIT, TEXT_LIMIT, read_bounded
from orun.fs.os_errors import convert_os_errors, quote
from orun.fs.output_file import OutputFile
from orun.pipeline.files import BASELINE

VERSION = 2  # raise it when a field goes, or changes its meaning
TWINS = {".yaml": ".yml", ".yml": ".yaml"}
PIPELINE = re.compile(r"^(stages|extends)[ \t]*:", re.MULTILINE)  # by which a file of YAML is one
NEWER = "use the orun that wrote it, or remove the file and accept again: orun baseline accept FILE"
WRITABLE_CHECKOUT = (
    "it stands beside the pipeline file and is committed with it: do this in a checkout that can be written"
)
USES = "uses"  # name of a stage's kind in a pipeline file
UNKNOWN = "unknown field"  # how msgspec tells of a name that a later orun has given
HINT = "take the committed version back, or remove the file and accept again: orun baseline accept FILE"


class Accepted(Record, frozen=True):
    """Accepted figures of one stage.

    Attributes:
        model: digest of the model that the stage measured; empty if it measures no model.
        metrics: its figures, without comparisons.
        host: the machine that measured them.
        date: when it was accepted, ISO 8601 in UTC.
        who: who accepted it.
        run: id of the run that measured it.
        inputs: digests of what was measured with the model, by port.
        setup: how the figures were measured: values of key components by their kind, then by their subject, as people
            review them. None where the figures are not of a model.
    """

    model: str
    metrics: Mapping[str, Metric]
    host: Mapping[str, str]
    date: str
    who: str
    run: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    setup: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def components(self) -> Components:
        """The setup as key components."""
        return tuple(
            KeyComponent(kind, subject, value=value)
            for kind, values in self.setup.items()
            for subject, value in values.items()
        )

    @property
    def day(self) -> str:
        """The date alone: `2026-11-21`."""
        return self.date[:10]


class Baseline(Record, frozen=True):
    """Accepted figures of a pipeline.

    Attributes:
        pipeline: its name.
        stages: accepted figures by stage.
        settings: kind and parameters of every stage of the accepted run, as `Accepted.setup` has them. Empty in the
            file of an orun that did not keep them.
    """

    pipeline: str
    stages: Mapping[str, Accepted] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

    def list_changed_settings(self, stage: str, current: Components) -> tuple[ChangedSetting, ...]:
        """Return what differs in a stage, by its present key components; what only one side has does not count."""
        accepted = self.settings.get(stage, {})
        pairs = ((item, accepted.get(item.kind, {}).get(item.subject)) for item in current if not item.owner)
        return tuple(
            ChangedSetting(stage, item.subject or USES, old, item.value)
            for item, old in pairs
            if old is not None and old != item.value
        )


def locate_baseline(file: Path) -> Path:
    """Return the path of the baseline of a pipeline file: `bert.baseline.json` for `bert.yaml`."""
    return file.with_name(f"{file.stem}{BASELINE}")


def find_abandoned_baseline(file: Path) -> str:
    """Return the name of a baseline beside a pipeline file whose own pipeline file is gone; empty without one."""
    try:
        names = {path.name for path in file.parent.iterdir()}
    except OSError:  # a folder may be closed to listing
        return ""
    stems = sorted(name.removesuffix(BASELINE) for name in names if name.endswith(BASELINE))
    return next((f"{stem}{BASELINE}" for stem in stems if names.isdisjoint(f"{stem}{ending}" for ending in TWINS)), "")


def require_alone(file: Path) -> None:
    """Refuse a pipeline file that would share its baseline with another file: `bert.yml` next to `bert.yaml`.

    Raises:
        PipelineError: if there is such a file.
    """
    ending = TWINS.get(file.suffix)
    twin = file.with_suffix(ending) if ending else file
    try:
        if ending is None or twin.samefile(file) or not PIPELINE.search(read_bounded(twin, TEXT_LIMIT).decode("utf-8")):
            return
    except (OSError, UnicodeDecodeError):  # there is none, or it is no pipeline file
        return
    message = f"{file.name} and {twin.name} would have one baseline, {locate_baseline(file).name}"
    hint = f"give one of them a name of its own: mv {quote(twin.name)} {quote(f'OTHER{twin.suffix}')}"
    raise PipelineError([Problem(Position(str(file), 1, 1), message, hint=hint)])


def read_file(path: Path) -> Baseline | None:
    """Return the baseline in a file; None if there is no file.

    Raises:
        PipelineError: when it is not what `write_file` wrote, with the line as far as it is known.
    """
    try:
        text = read_bounded(path, RECORD_LIMIT).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _build_error(path, "", (1, 1), f"the baseline cannot be read: {error}") from error
    try:
        data = json.loads(text, object_pairs_hook=_require_distinct)
    except json.JSONDecodeError as error:
        raise _build_error(path, text, (error.lineno, error.colno), f"the baseline is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise _build_error(path, "", (1, 1), "the baseline is not JSON: it is nested too deep") from error
    except ValueError as error:  # a name that stands twice, as after a merge; a number of thousands of digits
        raise _build_error(path, text, (1, 1), f"the baseline is not JSON: {error}") from error
    return _decode(path, text, data)


def write_file(path: Path, baseline: Baseline) -> None:
    """Replace the file, or the target of a link, in one step: a reader sees the old or the new file.

    Raises:
        StoreError: if it cannot be written.
    """
    data = {"version": VERSION, **encode(baseline)}
    text = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    with convert_os_errors("write the baseline", path, WRITABLE_CHECKOUT), OutputFile(path) as file:
        file.write(text.encode())


def _decode(path: Path, text: str, data: object) -> Baseline:
    if not isinstance(data, dict):
        raise _build_error(path, text, (1, 1), "the baseline is not a JSON object")
    version = data.pop("version", None)
    if version != VERSION:
        has = "no version" if version is None else f"version {version!r}"
        message = f"the baseline has {has}, and this orun reads version {VERSION}"
        raise _build_error(path, text, _find(text, '"version"'), message, NEWER)
    try:
        baseline = decode(Baseline, data)
        for name, accepted in baseline.stages.items():
            _check(name, accepted)
    except ValueError as error:
        message = f"the baseline has another shape than orun writes: {error}"
        raise _build_error(path, text, (1, 1), message, NEWER if UNKNOWN in str(error) else HINT) from error
    return baseline


def group_by_kind(setup: Components) -> dict[str, dict[str, str]]:
    """Return components as `Accepted.setup` has them."""
    groups: dict[str, dict[str, str]] = {}
    for item in setup:
        groups.setdefault(str(item.kind), {})[item.subject] = item.value
    return groups


def _require_distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; ValueError if a name stands twice in it."""
    data: dict[str, Any] = {}
    for name, value in pairs:
        if name in data:
            raise ValueError(f"{name!r} stands twice in one object")
        data[name] = value
    return data


def _check(stage: str, accepted: Accepted) -> None:
    """Refuse what a gate cannot be judged by, with a ValueError."""
    for name, metric in accepted.metrics.items():
        if not math.isfinite(metric.value):
            raise ValueError(f"{name} of {stage} is {metric.value}")
        if metric.interval and not replace(metric.interval, value=metric.value).holds:
            low, high = metric.interval.low, metric.interval.high
            raise ValueError(f"{name} of {stage} is {metric.value:g}, which is not between {low:g} and {high:g}")
    try:
        datetime.fromisoformat(accepted.date)
    except ValueError as error:
        raise ValueError(f"the date of {stage} is {accepted.date!r}") from error


def _find(text: str, word: str) -> tuple[int, int]:
    """Return line and column of the first place of a word; those of the start if it is missing."""
    place = text.find(word)
    if place < 0:
        return 1, 1
    before = text[:place]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _build_error(path: Path, text: str, place: tuple[int, int], message: str, hint: str = HINT) -> PipelineError:
    line, column = place
    lines = text.split("\n")  # as json and `_find` count lines
    source = lines[line - 1] if line <= len(lines) else ""
    return PipelineError([Problem(Position(str(path), line, column), abridge(message), source, hint=hint)])
