"""Ledger of candidates on disk, so that an interrupted search resumes.

A line of JSON for each trial, in the user's cache, in a file named by the digest of all that a trial depends on: what
the stage's result does (the model, the parameters, orun's code, the tools and the machine) and the examples. It is
removed when the search is over; one that was broken off and not taken up again goes with a later search.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from orun.environment.user_cache import cache_folder
from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.stages.quantize._tuning.settings import Settings

KEPT_SECONDS = 30 * 24 * 3600.0  # since the last trial of a search that was broken off


@dataclass(frozen=True)
class Trial:
    """A candidate that was tried.

    Attributes:
        settings: how it was made and where it ran.
        accuracy: the metric, on the few examples; not a number when it was refused.
        time: relative to the model in float; not a number when it was not measured.
        size: bytes of its files.
        refused: why it could not be made or run; empty when it could.
        kept: names of the nodes that stayed in float.
    """

    settings: Settings
    accuracy: float
    time: float
    size: int
    refused: str = ""
    kept: tuple[str, ...] = ()


def name_of(key: str, datasets: Iterable[Dataset]) -> str:
    """Digest of what the trials of a search depend on.

    Args:
        key: of the stage, which does not know yet what the functions of the datasets read without saying so.
        datasets: what these functions returned.
    """
    digest = hashlib.sha256(key.encode())
    for dataset in datasets:
        parts = [*dataset.inputs.items(), *(dataset.candidates or {}).items(), *dataset.fields.items()]
        if dataset.labels is not None:
            parts.append(("label", dataset.labels))
        for name, values in parts:
            for one in [values] if isinstance(values, np.ndarray) else values:
                digest.update(f"{name} {one.dtype} {one.shape} ".encode())
                digest.update(repr(one.tolist()).encode() if one.dtype.hasobject else one.tobytes())
    return digest.hexdigest()


class Ledger:
    """The trials of one search, in their order.

    Args:
        name: see `name_of`.

    Raises:
        UsageError: when there is no folder to keep them in.
    """

    def __init__(self, name: str) -> None:
        self.path = folder() / f"{name}.jsonl"
        self.trials: dict[Settings, Trial] = {trial.settings: trial for trial in self._read()}

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is in the file when this returns."""
        self.trials[trial.settings] = trial
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(trial))}\n")

    def remove(self) -> None:
        """Remove the file: the search is over, its result an artifact. Those that nobody goes on with go, too."""
        self.path.unlink(missing_ok=True)
        for path in self.path.parent.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # another search removes it, too
                if path.stat().st_mtime < time.time() - KEPT_SECONDS:
                    path.unlink()

    def _read(self) -> Iterator[Trial]:
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                told = json.loads(line)
                found = told["settings"]
                found["options"] = tuple((name, value) for name, value in found["options"])
                yield Trial(**{**told, "settings": _hashable(Settings(**found)), "kept": tuple(told["kept"])})
            except (ValueError, KeyError, TypeError):  # the line that a killed process did not finish
                continue


def _hashable(settings: Settings) -> Settings:
    options = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in settings.options)
    return Settings(settings.method, options, settings.place, settings.fused, settings.kept)


def folder() -> Path:
    """Where searches that are not over are kept: in the user's cache.

    Raises:
        UsageError: when there is none, or it cannot be written to.
    """
    found = cache_folder() / "tuning"
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"trials cannot be kept in {found}", why=str(error), hint="name another place: export XDG_CACHE_HOME=FOLDER"
        ) from error
    return found
