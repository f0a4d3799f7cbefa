"""Project of `benchmarks.edits`, whose stages read all kinds of files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

STAGES = """
import json
import os
import subprocess
import sys
from pathlib import Path

from orun import stage

import helper
import pooled
from package import deep

try:
    import optional
except ImportError:
    optional = None


def leave(context, text):
    (context.output / "text").write_text(text)


def text_of(context, port):
    return (context.inputs[port] / "text").read_text()


@stage(inputs={}, output="files")
def listing(context, *, mark: str = "a"):
    found = {path.name: path.read_text() for path in sorted((context.root / "data").glob("*.txt"))}
    leave(context, json.dumps(found) + mark + helper.word())


@stage(inputs={}, output="files")
def settings(context, *, name: str = "one.json"):
    path, link = context.root / name, context.root / "link"
    text = path.read_text() if path.exists() else "none"
    leave(context, text + (os.readlink(link) if link.is_symlink() else "") + os.environ.get("WORD", "-") + deep.value())


@stage(inputs={"left": "files", "right": "files"}, output="files")
def join(context, *, between: str = "-"):
    joined = between.join((text_of(context, "left"), text_of(context, "right")))
    leave(context, joined + (optional.TEXT if optional else ""))


@stage(inputs={"text": "files"}, output="files")
def program(context, *, times: int = 1):
    words = [sys.executable, context.root / "program.py", context.inputs["text"] / "text", str(times)]
    leave(context, subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@stage(inputs={"text": "files"}, output="files")
def module(context, *, mark: str = "a"):
    words = [sys.executable, "-m", "tool", context.inputs["text"] / "text", mark]
    leave(context, subprocess.run(words, cwd=context.root, capture_output=True, text=True, check=True).stdout)


@stage(inputs={}, output="files")
def workers(context, *, method: str = "fork"):
    leave(context, "".join(pooled.answers(method, str(context.root))))


@stage(inputs={"text": "files"}, output="files")
def measured(context, *, what: str = "length"):
    text = text_of(context, "text")
    leave(context, str(len(text)) if what == "length" else text[:2])
    return {"length": len(text)}
"""
HELPER = """
import json
import sys
from pathlib import Path

import beside

sys.path.append(str(Path(__file__).parent.parent / "checkout"))
import developed

def word():
    own = json.loads((Path(__file__).parent / "words.json").read_text())["word"]
    return own + beside.WORD + developed.word()
"""
POOLED = """
import multiprocessing
import os

BOTH = ("left", "right")

def answer(name, root):
    import working
    try:
        import sparing
    except ImportError:
        sparing = None
    found = sorted(os.listdir(root + "/data")), os.environ.get("WORD"), sparing and sparing.TEXT
    return str((name, working.text(), found))

def answers(method, root):
    if method == "loky":
        from joblib import Parallel, delayed
        return Parallel(len(BOTH))(delayed(answer)(name, root) for name in BOTH)
    with multiprocessing.get_context(method).Pool(len(BOTH)) as pool:
        return pool.starmap(answer, [(name, root) for name in BOTH])
"""
PLUG_IN = '''
"""Adds a word."""

from dataclasses import dataclass

from orun.stages.contract import Port, Spec
from plugged.words import WORD

SPEC = Spec(inputs={"text": Port(("files",), "A text.")}, output="files")
VERSION = "p1"


@dataclass(frozen=True)
class Params:
    pass


def run(context, params):
    text = (context.inputs["text"] / "text").read_text()
    (context.output / "text").write_text(text + WORD + VERSION)
    return {}
'''
FILES = {
    "stages.py": STAGES,
    "helper.py": HELPER,
    "words.json": '{"word": "x1"}',
    "package/__init__.py": "",
    "package/deep.py": "from package import deeper\n\ndef value():\n    return deeper.VALUE + 'd1'\n",
    "package/deeper.py": "VALUE = 'v1'\n",
    "program.py": "import sys\nfrom pathlib import Path\nfrom turning import turned\n"
    "print(turned(Path(sys.argv[1]).read_text(), int(sys.argv[2])))\n",
    "turning.py": "def turned(text, times):\n    return text[::-1] * times + 't1'\n",
    "tool/__init__.py": "",
    "tool/__main__.py": "import sys\nfrom pathlib import Path\nfrom tool.part import WORD\n"
    "print(Path(sys.argv[1]).read_text(), sys.argv[-1], WORD, 'm1')\n",
    "tool/part.py": "WORD = 'w1'\n",
    "pooled.py": POOLED,
    "working.py": "import beside\n\ndef text():\n    return 'k1' + beside.WORD\n",
    "../lib/beside.py": "WORD = 'b1'\n",
    "../checkout/developed/__init__.py": "from developed import inner\n\ndef word():\n    return inner.WORD + 'i1'\n",
    "../checkout/developed/inner.py": "WORD = 'n1'\n",
    "../site-packages/plugged/__init__.py": "",
    "../site-packages/plugged/kind.py": PLUG_IN,
    "../site-packages/plugged/words.py": "WORD = 'g1'\n",
    "one.json": '{"one": 1}',
    "data/a.txt": "alpha1",
    "data/b.txt": "beta1",
}
INSTALLED = {
    "../site-packages/plugged-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n",
    "../site-packages/plugged-1.0.dist-info/entry_points.txt": "[orun.stages]\nadd/word = plugged.kind\n",
}
PLACES = ("lib", "checkout", "site-packages")  # folders next to the project's
STAGE_NAMES = ("listing", "settings", "join", "program", "module", "workers", "plugged", "measured")
VALUES: Mapping[str, Sequence[Any]] = {
    "mark": ["a", "b", "c"],
    "name": ["one.json", "two.json"],
    "between": ["-", "+"],
    "times": [1, 2, 3],
    "what": ["length", "begin"],
    "method": ["fork", "spawn", "forkserver", "loky"],
}
LIMIT = 100_000  # limit of a gate that never fails


@dataclass
class Project:
    """Project that is edited.

    Attributes:
        folder: its folder, which may be renamed.
        store: its store.
        random: source of all choices.
        values: parameters of the stages.
        names, order: names of the stages, and their order in the file.
        matrix: whether a stage has a matrix.
        word: value of the environment variable `WORD`; None for not set.
        kept: earlier states: copies of the folder with their values.
    """

    folder: Path
    store: Path
    random: Random
    values: dict[str, Any] = field(default_factory=lambda: {name: some[0] for name, some in VALUES.items()})
    names: list[str] = field(default_factory=lambda: list(STAGE_NAMES))
    order: list[int] = field(default_factory=lambda: list(range(len(STAGE_NAMES))))
    matrix: bool = False
    word: str | None = None
    kept: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)

    def text(self) -> str:
        """Return the text of the pipeline file."""
        names, values = dict(zip(STAGE_NAMES, self.names, strict=True)), self.values
        once = f"with: {{times: {values['times']}}}"
        several = f"matrix: {{times: [1, {values['times'] + 1}]}}, with: {{times: '${{matrix.times}}'}}"
        both = f"{{left: {names['listing']}, right: {names['settings']}}}"
        stages = {
            "listing": f"with: {{mark: {values['mark']}}}",
            "settings": f"with: {{name: {values['name']}}}",
            "join": f"needs: {both}, with: {{between: '{values['between']}'}}",
            "program": f"needs: {names['join']}, {several if self.matrix else once}",
            "module": f"needs: {names['join']}, with: {{mark: {values['mark']}}}",
            "workers": f"with: {{method: {values['method']}}}",
            "plugged": f"needs: {names['join']}",
            "measured": f"needs: {names['join']}, with: {{what: {values['what']}}}, gate: {{length: {{max: {LIMIT}}}}}",
        }
        kinds = {stage: f"./stages.py:{stage}" for stage in stages} | {"plugged": "add/word"}
        lines = [f"  {names[stage]}: {{uses: {kinds[stage]}, {rest}}}\n" for stage, rest in stages.items()]
        return "name: edited\nstages:\n" + "".join(lines[place] for place in self.order)

    def write(self, name: str, text: str, *, quietly: bool = False) -> None:
        """Write a file, in place or by renaming a new one; with `quietly`, restore its times."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat() if path.exists() else None
        if self.random.choice((True, False)):
            path.write_text(text)
        else:
            path.with_name("new").write_text(text)
            path.with_name("new").replace(path)
        if quietly and before:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def save(self) -> None:
        """Write the pipeline file."""
        self.write("pipeline.yaml", self.text())

    def run(
        self, *options: str, folder: Path | None = None, store: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the pipeline, here or in another folder with another store."""
        return subprocess.run(
            self.command(*options, store=store),
            cwd=folder or self.folder,
            env=self.environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )

    def command(self, *options: str, store: Path | None = None) -> list[str]:
        """Return the command line of a run."""
        return [sys.executable, "-m", "orun", "pipeline.yaml", "--store", str(store or self.store), *options]

    def environment(self, folder: Path | None = None) -> dict[str, str]:
        """Return the environment of a run, here or in another folder; Python writes byte code, as by default."""
        removed = ("WORD", "ORUN_STORE", "PYTHONDONTWRITEBYTECODE")
        variables = {name: value for name, value in os.environ.items() if name not in removed}
        parent = (folder or self.folder).parent
        path = (parent / "lib", parent / "site-packages", *filter(None, [variables.get("PYTHONPATH")]))
        variables["PYTHONPATH"] = os.pathsep.join(map(str, path))
        return variables if self.word is None else {**variables, "WORD": self.word}
