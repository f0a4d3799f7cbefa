"""Correctness of incremental runs: a project is edited at random, and each result is compared with a clean run's.

The stages read a folder of data, a file that may be missing, a link, an environment variable, modules (two imports
deep, on `PYTHONPATH`, in a checkout next to the project, of a plug-in, optional ones), a program and a module that they
run, and more in workers of pools (see `edited_project`). Byte code exists of earlier texts, some with the same size and
time.

One to three changes happen between two runs: edits that keep size and time, renames, swaps, a return to an earlier
state, runs of a part, killed runs, garbage collections. Then `out/` is compared with that of a copy of the project, run
with an empty store. A further run must have nothing to do.

    python -m benchmarks.edits --n 200 --seed 5             a few seconds each

Exit status 1 means that a run differed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from random import Random

from benchmarks.edited_project import FILES, INSTALLED, PLACES, VALUES, Project

DIGITS = [name for name, text in FILES.items() if any(letter.isdigit() for letter in text)]
KILL_WITHIN = 1.0  # seconds; by then a run has begun
OFTEN = (True, True, False)


def _digit(project: Project) -> None:
    """Change a digit of a file."""
    name = project.random.choice([name for name in DIGITS if (project.folder / name).is_file()])
    text = (project.folder / name).read_text()
    place = project.random.choice([at for at, letter in enumerate(text) if letter.isdigit()])
    digit = project.random.choice("123456789")
    project.write(name, text[:place] + digit + text[place + 1 :], quietly=project.random.choice(OFTEN))


def _longer(project: Project) -> None:
    name = project.random.choice([name for name in FILES if (project.folder / name).is_file()])
    more = "\n# a comment\n" if name.endswith(".py") else " "
    project.write(name, (project.folder / name).read_text() + more, quietly=project.random.choice(OFTEN))


def _value(project: Project) -> None:
    name = project.random.choice(list(VALUES))
    project.values[name] = project.random.choice(VALUES[name])


def _stage_name(project: Project) -> None:
    place = project.random.randrange(len(project.names))
    project.names[place] = f"{project.random.choice('abcde')}{place}"


def _order(project: Project) -> None:
    project.random.shuffle(project.order)


def _matrix(project: Project) -> None:
    project.matrix = not project.matrix


def _variable(project: Project) -> None:
    project.word = project.random.choice([None, "", "one", "two"])


def _data(project: Project) -> None:
    """Add, remove or rename a data file, or swap two."""
    files = sorted((project.folder / "data").glob("*.txt"))
    change = project.random.choice(["new", "gone", "named", "swapped"]) if len(files) > 1 else "new"
    if change == "new":
        project.write(f"data/{project.random.choice('cdef')}.txt", f"new{project.random.randrange(9)}")
        return
    first, second = project.random.sample(files, 2)
    if change == "gone":
        first.unlink()
    elif change == "named":
        first.rename(first.with_name(f"{project.random.choice('mno')}.txt"))
    else:
        temporary = first.with_name("temporary")
        first.rename(temporary)
        second.rename(first)
        temporary.rename(second)


def _there_or_not(project: Project) -> None:
    """Add or remove a file that the stages do not need: settings, a module, a module that hides another."""
    name, text = project.random.choice(
        [
            ("one.json", '{"one": 2}'),
            ("two.json", '{"two": 1}'),
            ("optional.py", "TEXT = 'optional'\n"),
            ("sparing.py", "TEXT = 'spared'\n"),
            ("working/__init__.py", "def text():\n    return 'hides'\n"),
            ("../lib/developed.py", "def word():\n    return 'hides'\n"),
            ("package/deeper/__init__.py", "VALUE = 'hides'\n"),
        ]
    )
    path = project.folder / name
    if not path.exists():
        project.write(name, text)
    elif path.name == "__init__.py":
        shutil.rmtree(path.parent)
    else:
        path.unlink()


def _link(project: Project) -> None:
    link = project.folder / "link"
    link.unlink(missing_ok=True)
    if project.random.choice(OFTEN):
        link.symlink_to(project.random.choice(["one.json", "nowhere", "data"]))


def _attributes(project: Project) -> None:
    """Change a time or a mode, or remove byte code: no change of content."""
    path = project.folder / project.random.choice(["helper.py", "words.json", "data/../program.py"])
    change = project.random.choice(["time", "mode", "byte code"])
    if change == "time":
        os.utime(path)
    elif change == "mode":
        path.chmod(path.stat().st_mode ^ 0o111)
    else:
        for folder in sorted(project.folder.parent.rglob("__pycache__")):
            shutil.rmtree(folder)


def _keep(project: Project) -> None:
    folder = project.store.with_name(f"kept{len(project.kept)}")
    shutil.copytree(project.folder, folder, symlinks=True)
    state = {name: deepcopy(getattr(project, name)) for name in ("values", "names", "order", "matrix")}
    project.kept.append((folder, state))


def _back(project: Project) -> None:
    """Return to an earlier state, with its times."""
    if project.kept:
        folder, state = project.random.choice(project.kept)
        shutil.rmtree(project.folder)
        shutil.copytree(folder, project.folder, symlinks=True)
        vars(project).update(deepcopy(state))


def _moved(project: Project) -> None:
    project.folder = project.folder.rename(
        project.folder.with_name("here" if project.folder.name != "here" else "there")
    )


def _output(project: Project) -> None:
    """Remove a file of `out/`."""
    if files := sorted((project.store / "out").rglob("text")):
        path = project.random.choice(files)
        path.parent.chmod(0o755)
        path.unlink()


def _part(project: Project) -> None:
    """Run a part, or everything again."""
    project.save()
    project.run(*project.random.choice([("--only", project.names[0]), ("--to", project.names[2]), ("--force",)]))


def _killed(project: Project) -> None:
    project.save()
    with subprocess.Popen(
        project.command(),
        cwd=project.folder,
        env=project.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(project.random.uniform(0, KILL_WITHIN))
        process.kill()


def _collection(project: Project) -> None:
    options = project.random.choice([[], ["--max-size", "1kB"], ["--max-age", "0s"]])
    subprocess.run(
        [sys.executable, "-m", "orun", "store", "gc", "--store", str(project.store), *options],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        check=False,
    )


EDITS: Sequence[Callable[[Project], None]] = (
    *(_digit, _digit, _digit, _longer, _value, _value, _stage_name, _order, _matrix, _variable, _data, _data),
    *(_there_or_not, _there_or_not, _link, _attributes, _keep, _back, _moved, _output, _part, _killed, _collection),
)


def campaign(folder: Path, seed: str) -> Iterator[tuple[Sequence[str], str]]:
    """Edit and run without end; yield the edits, and how the run was wrong or an empty text."""
    random = Random(seed)
    project = Project(folder / "there", folder / "store", random)
    for name, text in {**FILES, **INSTALLED}.items():
        project.write(name, text)
    project.save()
    while True:
        done = random.choices(EDITS, k=random.choice((1, 1, 2, 3)))
        for edit in done:
            edit(project)
        project.save()
        yield [edit.__name__ for edit in done], _compared(project, folder / "clean")


def _compared(project: Project, clean: Path) -> str:
    """Return how a run differs from a clean run of a copy, or what a further run would do; else an empty text."""
    ended = project.run("--json")
    shutil.rmtree(clean, ignore_errors=True)
    shutil.copytree(project.folder, clean / "project", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for place in PLACES:
        shutil.copytree(project.folder.parent / place, clean / place, ignore=shutil.ignore_patterns("__pycache__"))
    other = project.run("--json", folder=clean / "project", store=clean / "store")
    if ended.returncode != other.returncode:
        return f"exit {ended.returncode}, and {other.returncode} in a clean run:\n{ended.stdout}{ended.stderr}"
    if ended.returncode:
        return ""
    actual, right = _texts(project.store / "out"), _texts(clean / "store" / "out")
    if actual != right:
        names = sorted(name for name in {*actual, *right} if actual.get(name) != right.get(name))
        return "".join(f"{name}: {actual.get(name)!r}, and {right.get(name)!r} in a clean run\n" for name in names)
    again = project.run("--json")
    return again.stdout if '"built"' in again.stdout else ""


def _texts(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): path.read_text() for path in sorted(out.rglob("*")) if path.is_file()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the campaign, and print what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100, help="runs")
    parser.add_argument("--seed", default=str(time.time_ns()), help="seed of all choices")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="orun-edits-") as folder:
        for number, (done, problem) in enumerate(islice(campaign(Path(folder), options.seed), options.n)):
            if problem:
                wrong += 1
                print(f"WRONG {number}: {', '.join(done)}\n{problem}", flush=True)
    print(f"{options.n} runs, {wrong} wrong")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
