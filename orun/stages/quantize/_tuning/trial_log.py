"""Log of trials on disk, so that an interrupted search resumes.

The log is a file in the user's cache with a line of JSON for each trial. Its name is the digest of everything that a
trial depends on: the stage's key (model, parameters, orun's code, tools and machine) and the examples. The file is
removed when the search is over. A later search removes the logs of interrupted searches that nobody resumed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from orun.environment.user_cache import locate_cache
from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.stages.quantize._tuning.settings import Settings

KEPT_SECONDS = 30 * 24 * 3600.0  # after the last trial of an interrupted search


@dataclass(frozen=True)
class Trial:
    """Result of one candidate.

    Attributes:
        settings: how it was made and where it ran.
        accuracy: the metric on the few examples; NaN when it was refused.
        time: relative to the float model; NaN when it was not measured.
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


def hash_search(key: str, datasets: Iterable[Dataset]) -> str:
    """Return the digest of everything that the trials of a search depend on.

    The stage's key does not cover undeclared files that the functions of the datasets read.
    """
    digest = hashlib.sha256(key.encode())
    for dataset in datasets:
        parts = [*dataset.inputs.items(), *(dataset.candidates or {}).items(), *dataset.fields.items()]
        if dataset.labels is not None:
            parts.append(("label", dataset.labels))
        for name, values in parts:
            for array in [values] if isinstance(values, np.ndarray) else values:
                digest.update(f"{name} {array.dtype} {array.shape} ".encode())
                digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes())
    return digest.hexdigest()


class TrialLog:
    """Trials of one search, in their order.

    The name is that of `hash_search`.

    Raises:
        UsageError: when the folder of the logs, in the user's cache, cannot be made.
    """

    def __init__(self, name: str) -> None:
        folder = locate_cache() / "tuning"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "name another place: export XDG_CACHE_HOME=FOLDER"
            raise UsageError(f"trials cannot be kept in {folder}", why=str(error), hint=hint) from error
        self.path = folder / f"{name}.jsonl"
        self.trials: dict[Settings, Trial] = {trial.settings: trial for trial in self._read()}

    def add(self, trial: Trial) -> None:
        """Add a trial, to the file as well."""
        self.trials[trial.settings] = trial
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(trial))}\n")

    def remove(self) -> None:
        """Remove the file of a search that is over, and files of old interrupted searches."""
        self.path.unlink(missing_ok=True)
        for path in self.path.parent.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # another search removed it
                if path.stat().st_mtime < time.time() - KEPT_SECONDS:
                    path.unlink()

    def _read(self) -> Iterator[Trial]:
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                fields = json.loads(line)
                options = fields["settings"]["options"]
                hashable = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in options)
                settings = Settings(**{**fields["settings"], "options": hashable})
                yield Trial(**{**fields, "settings": settings, "kept": tuple(fields["kept"])})
            except (ValueError, KeyError, TypeError):  # the unfinished line of a killed process
                continue
