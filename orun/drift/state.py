"""File with the state of a test, so that the next call goes on with it instead of beginning anew."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.drift.e_process import BETS, DriftTest
from orun.drift.sample_log import Sample
from orun.drift.watcher import Group, Watcher
from orun.errors import UsageError
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.fs.os_errors import quote
from orun.fs.output_file import OutputFile

FORMAT = 1
ZIP, FIRST = b"PK\x03\x04", b"facts.npy"  # a state begins as an archive, with this file
FIRST_AT = 30  # bytes of the archive before the name of its first file
ARRAYS = ("times", "counted", "peak", "since", "detected", "latest")  # of a watcher


def open_state(path: Path) -> OutputFile:
    """Return the file of a state, before the test; UsageError if it cannot be written."""
    try:
        return OutputFile(path)
    except OSError as error:
        raise _build_write_error(path, error) from error


def save(watcher: Watcher, file: OutputFile) -> None:
    """Write the state of a test; it replaces the file as a whole.

    Raises:
        UsageError: when it cannot be written.
    """
    watcher.flush()
    chosen = watcher.chosen
    facts: dict[str, Any] = {
        "format": FORMAT,
        "settings": watcher.settings,
        "records": watcher.records,
        "last": watcher.position.last,
        "random": watcher.random.bit_generator.state,
        "groups": [group.random.bit_generator.state for group in watcher.groups],
        "period": watcher.period,
        "chosen": chosen and chosen.time,
    }
    arrays = {name: getattr(watcher, name) for name in ARRAYS}
    if chosen:
        arrays["chosen"] = chosen.values
    for number, group in enumerate(watcher.groups):
        arrays[f"{number}/seen"] = group.seen
        if group.test:
            arrays |= {f"{number}/{name}": values for name, values in group.test.to_arrays().items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, facts=np.array(json.dumps(facts)), **arrays)
    try:
        file.write(buffer.getvalue())
    except OSError as error:
        raise _build_write_error(file.path, error) from error


def _build_write_error(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write the state {path}", why=error.strerror or str(error))


def restore(watcher: Watcher, path: Path) -> None:
    """Go on with the test in a file; a new test stays as it is if there is no such file.

    Raises:
        UsageError: when it is no state, is of another release or of other settings, or is damaged.
    """
    try:
        content = read_bounded(path, RECORD_LIMIT)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot read the state {path}", why=error.strerror or str(error)) from error
    if not (content.startswith(ZIP) and content.startswith(FIRST, FIRST_AT)):
        raise UsageError(f"{path} is not the state of a test", hint="name another file: --state watch.state")
    begin_anew = f"to begin a new test: rm {quote(path)}"
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        facts = json.loads(str(arrays.pop("facts")))
        if facts["format"] != FORMAT:
            raise UsageError(
                f"the state {path} has format {facts['format']}, and this orun knows {FORMAT}", hint=begin_anew
            )
        for name, value in watcher.settings.items():
            if facts["settings"][name] != value:
                why = f"its {name} was {facts['settings'][name]}, and is {value} now"
                raise UsageError(f"the state {path} is of another test", why=why, hint=begin_anew)
        _restore(watcher, facts, arrays)
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"the state {path} is damaged", why=str(error), hint=begin_anew) from error


def _restore(watcher: Watcher, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    for name in ARRAYS:
        setattr(watcher, name, arrays[name])
    watcher.records = facts["records"]
    watcher.position.last = facts["last"]
    watcher.random.bit_generator.state = facts["random"]
    watcher.period = tuple(facts["period"])
    if facts["chosen"] is not None:
        watcher.chosen = Sample(facts["chosen"], arrays["chosen"])
    for number, (group, random) in enumerate(zip(watcher.groups, facts["groups"], strict=True)):
        own = {name.partition("/")[2]: values for name, values in arrays.items() if name.startswith(f"{number}/")}
        _restore_group(group, own)
        group.random.bit_generator.state = random


def _restore_group(group: Group, arrays: dict[str, NDArray[Any]]) -> None:
    group.seen = arrays.pop("seen")
    if not arrays:
        return
    if arrays["capital"].shape != (len(group.columns), BETS):
        raise ValueError("another version of orun wrote it")
    if group.learnt:
        group.references = group.collect_references()
    group.test = DriftTest(group.random, **arrays)
