"""Real files of each kind that orun reads: mutated at random, and read by orun.

Bundle, records and baseline come from a small pipeline that runs once a process.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Protocol

import yaml
from blake3 import blake3

from benchmarks.mutants import mutated, mutated_bytes, mutated_lines, places_of
from orun.cli.main import group
from orun.core.serialization import to_json
from orun.pipeline import load
from orun.remote.options import Remote
from orun.remote.settings import resolve

ROOT = Path(__file__).parent.parent
SOMETIMES, IN_BYTES, MOSTLY = 0.1, 0.3, 0.8  # probabilities
FOLDERS = ("pipelines", "tests/cases/valid", "tests/cases/invalid")
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
JSON_VALUES: Sequence[Any] = (
    *(value for value in VALUES if not isinstance(value, bytes)),
    *(2**63, 2**64, -(2**63), 1e-320, -0.0, "\ud800", "\0", "a\nb", "\x1b[31m", "inf", "-inf", "x" * 100_000),
    *("../../x", "/etc/passwd", ".", "manifest.json", "a/b", "2026-02-30T00:00:00", "9999-12-31", [0] * 1000),
    *({"value": 1}, {"value": "inf", "unit": "s"}, {"low": 1, "high": 0}, {"low": "nan", "high": "nan"}),
)
JSON_KEYS = (
    "format",
    "digest",
    "files",
    "path",
    "size",
    "blake3",
    "stages",
    "verdicts",
    "version",
    "event",
    "",
    "\0",
    "é",
)
SETTINGS = """[project]
name = "bert"
dependencies = ["orun[remote]==1.0", "numpy>=2"]

[tool.orun.remote]
url = "s3://bucket/path"
mode = "read"
required = true
trusted-keys = ["keys/ci.pem"]

[tool.ruff]
line-length = 120
"""
SETTINGS_LINES = (
    *(
        "[tool]",
        "[tool.orun]",
        "[[tool.orun]]",
        "[[tool.orun.remote]]",
        "remote = 5",
        "orun = []",
        "tool = 1",
        "[",
        "=",
        "",
    ),
    *(
        "url = 5",
        "url = ''",
        "url = 'off'",
        'url = "s3://["',
        "url = 'file:///'",
        "url = 'http://%00/x'",
        "url.a.b = 1",
    ),
    *("url = 'file:///\\u0000'", 'url = "file:///a\\u0000b"', "url = 'gs://a b'", "url = 's3://x?y'", "mode = 'both'"),
    *("required = 1979-05-27", "required = nan", "trusted-keys = [[]]", 'trusted-keys = ["\\u0000"]', "mode = [1]"),
    *(
        "trusted-keys = ['none', '/dev/zero', '.']",
        "x = " + "[" * 5000,
        "x" + ".a" * 500 + " = 1",
        "x = 1" + "0" * 5000,
    ),
    *("x = '''", 'x = """', "x = {a = {b = 1}}", "# orun", "\ufeff", "x = 0x", "x = 9999-99-99", "'orun' = 1"),
)
REQUIREMENTS = (
    "-r more.txt\n-c limits.txt\nnumpy==2.4.6 \\\n    --hash=sha256:00\nonnx==1.23.2  # why\n--index-url https://x/y\n"
)
REQUIREMENTS_LINES = (
    *(
        "-r requirements.txt",
        "-r more.txt",
        "-rmore.txt",
        "-c=limits.txt",
        "--constraint limits.txt",
        "-r .",
        "-r /dev/zero",
    ),
    *(
        "-r none.txt",
        "-r a\0b",
        "-r https://x/y.txt",
        "-e .",
        "./x",
        "a @ file:///x",
        "x.whl",
        "\\",
        "x \\",
        "#",
        "-r",
        "-c",
    ),
    *(
        "numpy",
        "a==",
        "[",
        "é==1",
        " " * 10_000,
        "x" * 10_000,
        "\ufeff",
        "--hash=sha256:",
        "a[b,c]==1; python_version<'3'",
    ),
)
PIPELINE = """name: small
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  simplify: {uses: optimize/simplify, needs: import}
  size:
    uses: measure/size
    needs: {model: simplify, reference: import}
    gate: {size: {max_regression: 5%, max: 1MB}}
  release: {uses: release/bundle, needs: [simplify, size], with: {version: "1"}}
"""


class Corpus(Protocol):
    """Files of one kind, in a separate folder."""

    def write(self, random: Random) -> str:
        """Write a file with mistakes; return its text, or a description of the damage."""

    def read(self) -> int:
        """Let orun read the file; return 0 if orun accepts it."""


class Pipelines:
    """Pipeline files, loaded as by `orun validate`."""

    def __init__(self, folder: Path) -> None:
        for name in FOLDERS:
            shutil.copytree(ROOT / name, folder / name)
        files = sorted(path for name in FOLDERS for path in (folder / name).glob("*.yaml"))
        self._bases = [(path.parent, document) for path in files if (document := _plain(path)) is not None]
        self._file = folder / "mutated.yaml"

    def write(self, random: Random) -> str:
        """See `Corpus`."""
        self._file.unlink(missing_ok=True)  # or suggestions would name it
        folder, document = random.choice(self._bases)
        text = yaml.dump(mutated(document, VALUES, KEYS, random), sort_keys=False, allow_unicode=True)
        self._file = folder / "mutated.yaml"
        self._file.write_text(text, encoding="utf-8")
        return text

    def read(self) -> int:
        """See `Corpus`."""
        load(self._file)
        return 0


class Bundles:
    """A bundle of `release/bundle` with its manifest, read by `orun verify`."""

    def __init__(self, folder: Path) -> None:
        release = _project(folder) / "artifacts" / "out" / "small" / "release"
        self._files = {path.name: path.read_bytes() for path in release.iterdir()}
        self._bundle = folder / "bundle"

    def write(self, random: Random) -> str:
        """See `Corpus`."""
        shutil.rmtree(self._bundle, ignore_errors=True)
        self._bundle.mkdir()
        for name, content in self._files.items():
            (self._bundle / name).write_bytes(content)
        manifest = self._manifest(random) if random.random() < MOSTLY else self._files["manifest.json"]
        (self._bundle / "manifest.json").write_bytes(manifest)
        damage = random.choice(tuple(DAMAGES)) if random.random() < IN_BYTES else ""
        name = random.choice(tuple(self._files))
        if damage:
            DAMAGES[damage](self._bundle / name)
        return f"{damage} {name}\n{manifest.decode(errors='backslashreplace')}"

    def _manifest(self, random: Random) -> bytes:
        if random.random() < IN_BYTES:
            return mutated_bytes(self._files["manifest.json"], random)
        manifest = mutated(json.loads(self._files["manifest.json"]), JSON_VALUES, JSON_KEYS, random)
        if isinstance(manifest, dict) and random.random() < MOSTLY:
            content = {key: value for key, value in manifest.items() if key != "digest"}
            text = json.dumps(content, sort_keys=True, separators=(",", ":"))
            manifest["digest"] = blake3(text.encode()).hexdigest()
        return json.dumps(manifest).encode()

    def read(self) -> int:
        """See `Corpus`."""
        return _command("verify", str(self._bundle))


class Records:
    """The record of a run, its event log and the output of `--json`, each compared with the run by `orun diff`."""

    def __init__(self, folder: Path) -> None:
        project = _project(folder)
        self._record = next((project / "artifacts" / "runs").glob("*/record.json"))
        self._files = {name: (self._record.parent / name).read_bytes() for name in ("record.json", "events.jsonl")}
        self._files["printed.json"] = to_json(json.loads(self._files["record.json"])["record"])
        self._file = folder

    def write(self, random: Random) -> str:
        """See `Corpus`."""
        name = random.choice(tuple(self._files))
        content = self._content(name, self._files[name], random)
        self._file = self._record.parents[3] / name
        self._file.write_bytes(content)
        return f"{name}\n{content.decode(errors='backslashreplace')}"

    def _content(self, name: str, content: bytes, random: Random) -> bytes:
        if random.random() < IN_BYTES:
            return mutated_bytes(content, random)
        if name == "events.jsonl":
            lines = content.splitlines()
            at = random.randrange(len(lines))
            lines[at] = json.dumps(mutated(json.loads(lines[at]), JSON_VALUES, JSON_KEYS, random)).encode()
            return b"\n".join(lines)
        if name == "printed.json":
            return json.dumps(mutated(json.loads(content), JSON_VALUES, JSON_KEYS, random)).encode()
        body = json.dumps(mutated(json.loads(content)["record"], JSON_VALUES, JSON_KEYS, random)).encode()
        return b'{"seal":"%b","record":%b}\n' % (blake3(body).hexdigest().encode(), body)

    def read(self) -> int:
        """See `Corpus`."""
        return _command("diff", str(self._record), str(self._file))


class Baselines:
    """A baseline, read by `orun baseline show`."""

    def __init__(self, folder: Path) -> None:
        self._pipeline = _project(folder) / "p.yaml"
        self._file = self._pipeline.with_name("p.baseline.json")
        self._content = self._file.read_bytes()

    def write(self, random: Random) -> str:
        """See `Corpus`."""
        if random.random() < IN_BYTES:
            content = mutated_bytes(self._content, random)
        else:
            content = json.dumps(mutated(json.loads(self._content), JSON_VALUES, JSON_KEYS, random)).encode()
        self._file.write_bytes(content)
        return content.decode(errors="backslashreplace")

    def read(self) -> int:
        """See `Corpus`."""
        return _command("baseline", "show", str(self._pipeline))


class Settings:
    """Settings of a project in `pyproject.toml`, read as a run reads them."""

    def __init__(self, folder: Path) -> None:
        (folder / "keys").mkdir()
        (folder / "keys" / "ci.pem").write_text("-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n")
        self._folder = folder
        self._bases = (SETTINGS, SETTINGS, (ROOT / "pyproject.toml").read_text("utf-8") + SETTINGS.partition("\n\n")[2])

    def write(self, random: Random) -> str:
        """See `Corpus`."""
        text = mutated_lines(random.choice(self._bases), SETTINGS_LINES, random)
        return _written(self._folder / "pyproject.toml", text, random)

    def read(self) -> int:
        """See `Corpus`."""
        resolve(Remote(), self._folder, {})
        return 0


class RequirementsFiles:
    """Requirements files of an environment, read with the pipeline file."""

    def __init__(self, folder: Path) -> None:
        (folder / "p.yaml").write_text("environments: {e: {requirements: requirements.txt}}\n" + PIPELINE, "utf-8")
        for name, text in (
            ("more.txt", "sympy==1.14\n-c limits.txt\n"),
            ("limits.txt", "protobuf<7\n"),
            ("model.onnx", ""),
        ):
            (folder / name).write_text(text, "utf-8")
        locked = (ROOT / "requirements.lock").read_text("utf-8").splitlines()[:200]
        self._folder = folder
        self._bases = (REQUIREMENTS, REQUIREMENTS, (ROOT / "requirements.in").read_text("utf-8"), "\n".join(locked))

    def write(self, random: Random) -> str:
        """See `Corpus`."""
        text = mutated_lines(random.choice(self._bases), REQUIREMENTS_LINES, random)
        return _written(self._folder / "requirements.txt", text, random)

    def read(self) -> int:
        """See `Corpus`."""
        load(self._folder / "p.yaml")
        return 0


CORPORA: Mapping[str, Callable[[Path], Corpus]] = {
    "pipelines": Pipelines,
    "bundles": Bundles,
    "records": Records,
    "baselines": Baselines,
    "pyproject": Settings,
    "requirements": RequirementsFiles,
}


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "pipe": _pipe,
    "device": lambda path: _link(path, "/dev/zero"),
    "ring": lambda path: _link(path, path.name),
    "link": lambda path: _link(path, "/proc/self/environ"),
    "folder": _folder,
    "missing": Path.unlink,
    "large": lambda path: os.truncate(path, 20 * 2**30),
    "empty": lambda path: os.truncate(path, 0),
    "odd name": lambda path: Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff\n\x1b[31m")).touch(),
}


def _project(folder: Path) -> Path:
    """Make a project whose pipeline has run and was accepted as the baseline."""
    shutil.copytree(_accepted_project(), folder, dirs_exist_ok=True)
    return folder


@cache
def _accepted_project() -> Path:
    """Make such a project once a process; it is removed at its end."""
    import onnx
    from onnx import TensorProto, helper

    folder = Path(tempfile.mkdtemp(prefix="orun-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], [1.0] * 16)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), folder / "model.onnx"
    )
    (folder / "pyproject.toml").touch()
    (folder / "p.yaml").write_text(PIPELINE, "utf-8")
    for verb in (("run",), ("baseline", "accept")):
        _command(*verb, str(folder / "p.yaml"))
    return folder


def _command(*arguments: str) -> int:
    """Run a command line in this process; errors are raised."""
    with contextlib.redirect_stdout(io.StringIO()), group.make_context("orun", list(arguments)) as context:
        return int(group.invoke(context) or 0)


def _written(file: Path, text: str, random: Random) -> str:
    """Write a text, sometimes with a few bytes changed; return what was written."""
    content = text.encode(errors="surrogatepass")
    content = mutated_bytes(content, random) if random.random() < SOMETIMES else content
    file.write_bytes(content)
    return content.decode(errors="backslashreplace")


def _plain(path: Path) -> Any:
    """Return the mapping in a file; None if there is none, or it contains itself."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return deepcopy(document) if isinstance(document, dict) and len(list(places_of(document))) > 1 else None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return None
