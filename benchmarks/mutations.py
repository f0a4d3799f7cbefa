"""Pipeline files with random mistakes: each must load, or be refused with a message.

Takes pipeline files, changes a few places of each at random (a value, a key, a part moved elsewhere), and loads the
result as `orun validate` does.

    python -m benchmarks.mutations --n 20000 --seed 1

It prints how many loaded, how many were refused, and what else came of the others, with the file of the first of each.
Its status is 1 when there are others.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

from orun.errors import OrunError
from orun.pipeline import load

Place = tuple[Any, ...]  # keys and numbers from the top

ROOT = Path(__file__).parent.parent
FOLDERS = ("pipelines", "tests/cases/valid", "tests/cases/invalid")
LOADED, REFUSED = "loaded", "refused"
COUNTS = (1, 1, 1, 2, 3, 5)  # of mistakes in a file
MISTAKES = {"value": 7, "missing": 2, "another part": 3, "key": 3, "further key": 3, "letter": 2}  # how often each
VALUES: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 10**30, 0.5, float("inf"), float("nan"), 1e300, "", "x", "a.b", "null", "1_000"),
    *("${vars.x}", "${", "${{", "${matrix.a}", "${env.HOME}", "$${x}", "é", "\u202e", "a" * 300, "!!", "*", "&a"),
    *("5%", "12ms", "-5%", "1e400%", "1e400GB", "1e308h", "5 %", "0x10", "010", "2026-11-23", b"bytes"),
    *("./a.py:f", "a.py", "a.py:", "/", "..", "~", "./x/../y.py:g", "s3://b/k", "http://x", "file:///x"),
    *("measure/latency", "quantize/static", "release/bundle", "convert/onnx", "CUDAExecutionProvider", "cpu", "model"),
    *([], {}, [[]], [None], {"": 1}, {"x": None}, [1, "a", {}], {"min": 1, "max": 0}, {"max": "12ms"}, {"a": [1, 2]}),
    *({"max_regression": "5%"}, [{"a": 1}, {"a": 2}], {"include": [{"a": 1}]}, {"CUDAExecutionProvider": {"x": [1]}}),
)
KEYS = (
    *("uses", "needs", "with", "gate", "matrix", "env", "timeout", "resources", "environment", "target", "dataset"),
    *("metrics", "max", "min", "all", "any", "undecided", "name", "extends", "vars", "seed", "environments", "targets"),
    *("stages", "providers", "session", "fallback", "missing", "by", "slices", "model", "reference", "include", "url"),
    *("exclude", "path", "calibration", "cpu_arena", "p50", "cosine[label]", "model.x", "", "a b", "é", "1"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Load so many files, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=5000, help="files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    for text, outcome in outcomes(options.n, options.seed):
        found[outcome] += 1
        if outcome not in (LOADED, REFUSED) and found[outcome] == 1:
            print(f"{outcome}\n{text}")
    print(", ".join(f"{count} {outcome}" for outcome, count in found.most_common()))
    if set(found) - {LOADED, REFUSED}:
        raise SystemExit(1)


def outcomes(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Mutated files, each with what came of loading it: an error that is none of orun's by its type and place."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        bases = [(path.parent, document) for path in _copied(Path(folder)) if (document := _plain(path)) is not None]
        for _ in range(count):
            beside, document = random.choice(bases)
            text = _mutated(document, random)
            file = beside / "mutated.yaml"
            file.write_text(text, encoding="utf-8")
            yield text, _outcome(file)
            file.unlink()


def _copied(folder: Path) -> list[Path]:
    """The pipeline files with all that lies beside them, where nobody else looks."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    return sorted(path for name in FOLDERS for path in (folder / name).glob("*.yaml"))


def _plain(path: Path) -> Any:
    """The mapping that a file holds; None where it holds none, or contains itself."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return deepcopy(document) if isinstance(document, dict) and len(list(_places(document))) > 1 else None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return None


def _outcome(file: Path) -> str:
    try:
        load(file)
    except OrunError as error:
        return REFUSED if str(error) else "refused without a word"
    except Exception as error:  # noqa: BLE001 - what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
    return LOADED


def _mutated(document: Any, random: Random) -> str:
    """The text of a document with a few mistakes."""
    document = deepcopy(document)
    for _ in range(random.choice(COUNTS)):
        places = [place for place in _places(document) if place]
        if places:
            _err(document, random.choice(places), places, random)
    return yaml.dump(document, sort_keys=False, allow_unicode=True)


def _err(document: Any, place: Place, places: Sequence[Place], random: Random) -> None:
    """One mistake at a place."""
    *above, last = place
    parent, value = _at(document, above), _at(document, place)
    mistake = random.choices(tuple(MISTAKES), tuple(MISTAKES.values()))[0]
    if mistake == "value":
        parent[last] = deepcopy(random.choice(VALUES))
    elif mistake == "missing":
        del parent[last]
    elif mistake == "another part":
        parent[last] = deepcopy(_at(document, random.choice(places)))
    elif mistake == "key" and isinstance(parent, dict):
        parent[random.choice(KEYS)] = parent.pop(last)
    elif mistake == "further key" and isinstance(parent, dict):
        parent[random.choice(KEYS)] = deepcopy(random.choice(VALUES))
    elif isinstance(value, str) and value:
        at = random.randrange(len(value))
        parent[last] = value[:at] + random.choice("${}.:/%\n\t0é-") + value[at + 1 :]
    else:
        parent[last] = [value]


def _places(document: Any, above: Place = ()) -> Iterator[Place]:
    yield above
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from _places(document[key], (*above, key))


def _at(document: Any, place: Sequence[Any]) -> Any:
    for key in place:
        document = document[key]
    return document


if __name__ == "__main__":
    main()
