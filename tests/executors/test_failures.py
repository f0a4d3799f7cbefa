from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from orun.core.serialization import replace
from orun.environment.install_commands import choose_installer
from orun.errors import OutputRefused, StageCrashed, StageError, StageFailed, UnknownName
from orun.executors import Job, LocalExecutor
from orun.executors.failures import LESS_MEMORY, from_end, from_trouble
from orun.executors.local.failure_location import write
from orun.executors.local.messages import Ended, Trouble
from orun.executors.tracing.scope import Scope
from orun.stages.contract import Port, Spec
from tests import project as pipelines
from tests.executors.support import Project, failure, log_of, outcomes, result, until_progress
from tests.site_packages import Site

CODE = """
import ctypes, os, shutil, sys
from orun.errors import UsageError

def raises(context):
    check({})

def check(labels):
    raise KeyError("label 'x'")

def many_lines(context):
    raise RuntimeError("\\n".join(f"line {number}" for number in range(12)))

def silent(context):
    raise NotImplementedError

def explained(context):
    raise UsageError("the sequence is too long", why="512 at most", hint="set sequence: 512")

def exits(context):
    sys.exit("enough")

def vanishes(context):
    os._exit(0)

def segfault(context):
    ctypes.string_at(0)

def aborts(context):
    os.abort()

def reads_text(context):
    import json
    json.loads("{")

def number(context):
    return 5

def nan(context):
    return {"p50": float("nan")}

def controls(context):
    raise ValueError("\\x1b[31mred\\x07\\ttab \\udcff")

class Shy(Exception):
    def __str__(self):
        raise RuntimeError

def shy(context):
    raise Shy

def scribbles(context):
    os.chmod(context.inputs["model"] / "x", 0o644)
    (context.inputs["model"] / "x").write_text("mine")

def renumbers(context):
    shutil.copy2(context.inputs["model"] / "x", "copy")
    os.replace("copy", context.inputs["model"] / "x")
    return {"size": (context.inputs["model"] / "x").stat().st_size}
"""


@pytest.fixture
def code(project: Project) -> Path:
    return project.write("pipelines/mine.py", CODE)


def message_of(error: StageError, job: Job) -> str:
    """The message but for the two hints at its end, which every failure has; ROOT is the pipeline's folder."""
    last = f"\n  hint: Its log: {job.log}\n  hint: Run it alone: orun {job.root}/release.yaml --only {job.stage}"
    message = str(error)
    assert message.endswith(last)
    return message.removesuffix(last).replace(job.root, "ROOT")


MESSAGES = {
    "raises": """\
raises raised KeyError: "label 'x'"
  at ROOT/mine.py:9 in check""",
    "many_lines": """\
many_lines raised RuntimeError: line 0
  line 1
  line 2
  line 3
  line 4
  line 5
  line 6
  line 7
  ... 4 lines more
  at ROOT/mine.py:12 in many_lines""",
    "silent": """\
silent raised NotImplementedError
  at ROOT/mine.py:15 in silent""",
    "explained": """\
the sequence is too long
  512 at most
  at ROOT/mine.py:18 in explained
  hint: set sequence: 512""",
    "exits": """\
exits called sys.exit('enough') before its function returned
  at ROOT/mine.py:21 in exits""",
    "vanishes": """\
vanishes ended its process with exit status 0 before its function returned
  something in it called os._exit, or the like in native code""",
    "segfault": """\
segfault crashed: SIGSEGV (Segmentation fault)
  in native code, called at ROOT/mine.py:27 in segfault""",
    "aborts": """\
aborts crashed: SIGABRT (Aborted)
  in native code, called at ROOT/mine.py:30 in aborts""",
    "reads_text": """\
reads_text raised JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
  at ROOT/mine.py:34 in reads_text""",
    "number": """\
number returned an int, which holds no metrics
  hint: Return a mapping of names to finite numbers or orun.Metric""",
    "nan": """\
nan returned a metric 'p50' that is not finite
  value is nan
  hint: Return a mapping of names to finite numbers or orun.Metric""",
    "controls": """\
controls raised ValueError: \\x1b[31mred\\x07 tab \\udcff
  at ROOT/mine.py:43 in controls""",
    "shy": """\
shy raised Shy: (its message cannot be shown: RuntimeError)
  at ROOT/mine.py:50 in shy""",
}
KINDS = {"segfault": StageCrashed, "aborts": StageCrashed, "number": OutputRefused, "nan": OutputRefused}


@pytest.mark.parametrize("function", MESSAGES)
@pytest.mark.usefixtures("code")
def test_the_message_of_a_failure(executor: LocalExecutor, project: Project, function: str) -> None:
    job = project.job(f"mine.py:{function}")
    error = failure(executor, job)
    assert type(error) is KINDS.get(function, StageFailed)
    assert message_of(error, job) == MESSAGES[function]
    assert (error.stage, error.log) == (function, job.log)


@pytest.mark.usefixtures("code")
def test_the_whole_traceback_is_in_the_log(executor: LocalExecutor, project: Project) -> None:
    job = project.job("mine.py:raises")
    failure(executor, job)
    log = log_of(job)
    assert log.startswith("Traceback (most recent call last):\n")
    plain = "".join(line for line in log.splitlines(keepends=True) if line.strip(" ~^\n"))  # marks, from 3.13 on
    assert plain.endswith(
        f'  File "{job.root}/mine.py", line 6, in raises\n'
        "    check({})\n"
        f'  File "{job.root}/mine.py", line 9, in check\n'
        "    raise KeyError(\"label 'x'\")\n"
        "KeyError: \"label 'x'\"\n"
    )


def test_code_that_is_no_python_is_shown_at_its_line(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import helper\n\ndef f(context): pass\n")
    project.write("pipelines/helper.py", "\n\nx = = 1\n")
    job = project.job("mine.py:f")
    assert message_of(failure(executor, job), job) == ("f raised SyntaxError: invalid syntax\n  at ROOT/helper.py:3")


ELSEWHERE = "It is in {0}, where Python does not look: PYTHONPATH={0} orun ..."


@pytest.mark.parametrize(
    ("files", "module", "hint"),
    [
        pytest.param([], "no_such_module.deep", f"{choose_installer()} no_such_module", id="it is nowhere"),
        pytest.param(["pipelines/helpers.py"], "helprs", "Did you mean helpers?", id="a similar name beside the code"),
        pytest.param(
            ["pipelines/no_such_module/image.txt"],
            "no_such_modules",
            f"{choose_installer()} no_such_modules",
            id="a folder without code has a similar name",
        ),
        pytest.param(
            ["backends/no_such_module/upload.py"],
            "no_such_module",
            f"{choose_installer()} no_such_module",
            id="a folder about the package has its name",
        ),
        pytest.param(
            [".venv/shared.py", "lib/shared.py"],
            "shard",
            f"{choose_installer()} shard",
            id="a package may have a similar name",
        ),
        pytest.param(["shared/nets.py"], "shared.nets", ELSEWHERE.format("PROJECT"), id="at the top of the project"),
        pytest.param(
            [".venv/shared.py", "lib/shared.py"], "shared", ELSEWHERE.format("PROJECT/lib"), id="a file in a folder"
        ),
        pytest.param(["lib/shared/__init__.py"], "shared", ELSEWHERE.format("PROJECT/lib"), id="a package in a folder"),
        pytest.param(
            ["pipelines/lib/shared.py"], "shared", ELSEWHERE.format("PROJECT/pipelines/lib"), id="below the pipeline"
        ),
        pytest.param(
            ["pipelines/shared/nets.py"], "shared.net", "Did you mean shared.nets?", id="a similar name in its package"
        ),
        pytest.param(
            ["pipelines/shared/nets.py"],
            "shared.data",
            "shared is there, and has no data in it",
            id="its package has none of such a name",
        ),
    ],
)
def test_the_hint_about_a_module_that_is_missing(
    executor: LocalExecutor, project: Project, files: list[str], module: str, hint: str
) -> None:
    for file in files:
        project.write(file, "")
        if "shared/" in file:
            project.write(f"{file.rpartition('/')[0]}/__init__.py", "")
    project.write("pipelines/mine.py", f"def f(context): import {module}\n")
    error = failure(executor, project.job("mine.py:f"))
    assert error.hint.splitlines()[0] == hint.replace("PROJECT", str(project.folder))


MISSING = """
from orun.errors import MissingPackages

def f(context):
    raise MissingPackages("reading x needs obstore, which is not installed", ["obstore"])
"""


def test_a_package_that_a_parameter_needs(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", MISSING)
    job = project.job("mine.py:f")
    assert message_of(failure(executor, job), job) == (
        "reading x needs obstore, which is not installed\n"
        "  at ROOT/mine.py:5 in f\n"
        f"  hint: {pipelines.install_hint('remote')}"
    )
    isolated = replace(job, interpreter="/env/bin/python")
    trouble = Trouble("StageFailed", "reading x needs obstore, which is not installed", packages=("obstore",))
    assert from_trouble(isolated, trouble).hint.startswith("List obstore among the packages of its environment\n")


def test_what_orun_refuses_of_a_call_is_told_up_to_that_call(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import orun\ndef f(context): orun.Dataset({})\n")
    job = project.job("mine.py:f")
    assert failure(executor, job).problem == "the inputs of a dataset must map the names of a model's inputs to arrays"
    assert [line for line in log_of(job).splitlines() if "measure/dataset.py" in line] == []


def test_what_leads_to_the_user_s_function_is_not_in_the_log(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "def f(context):\n    g()\n\ndef g():\n    raise ValueError('text')\n")
    job = project.job("mine.py:f")
    assert failure(executor, job).problem == "f raised ValueError: text"
    frames = [line.split("/")[-1] for line in log_of(job).splitlines() if line.startswith('  File "')]
    assert frames == ['mine.py", line 2, in f', 'mine.py", line 5, in g']


def test_an_input_that_is_not_declared(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "def f(context): context.inputs['data']\n")
    job = project.job("mine.py:f")
    assert message_of(failure(executor, job), job) == (
        "f raised KeyError: 'data'\n"
        "  its inputs are none: `@stage(inputs=...)` says which there are\n"
        "  at ROOT/mine.py:1 in f"
    )


@pytest.mark.parametrize("lookup", ["os.environ['MY_LOGIN']", "os.environb[b'MY_LOGIN']"])
def test_a_variable_that_is_not_set(lookup: str, executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", f"import os\n\ndef f(context):\n    {lookup}\n")
    job = project.job("mine.py:f")
    raised = f"KeyError: {'b' * ('environb' in lookup)}'MY_LOGIN'"
    assert message_of(failure(executor, job), job) == (
        f"f raised {raised}\n  the environment variable is not set\n  at ROOT/mine.py:4 in f\n"
        "  hint: export MY_LOGIN=..."
    )
    frames = [line for line in log_of(job).splitlines() if line.startswith('  File "')]
    assert frames == [f'  File "{job.root}/mine.py", line 4, in f']


def test_notes_of_an_exception_are_told(executor: LocalExecutor, project: Project) -> None:
    code = "def f(context):\n    error = KeyError('y')\n    error.add_note('it has x')\n    raise error\n"
    project.write("pipelines/mine.py", code)
    job = project.job("mine.py:f")
    assert message_of(failure(executor, job), job) == "f raised KeyError: 'y'\n  it has x\n  at ROOT/mine.py:4 in f"


def test_a_file_that_lies_beside_the_pipeline_is_found_by_its_code(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "def f(context): open('data/train.csv')\ndef g(context): open('gone.csv')\n")
    project.write("pipelines/data/train.csv", "1")
    job = project.job("mine.py:f")
    assert message_of(failure(executor, job), job) == (
        "f raised FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'\n"
        "  at ROOT/mine.py:1 in f\n"
        "  hint: A stage runs in an empty folder of its own: Path(__file__).parent / 'data/train.csv'"
    )
    job = project.job("mine.py:g")
    assert message_of(failure(executor, job), job) == (
        "g raised FileNotFoundError: [Errno 2] No such file or directory: 'gone.csv'\n  at ROOT/mine.py:2 in g"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("beside_pipeline.csv", "Path(__file__).parent / '../beside_pipeline.csv'"),
        ("beside_code.csv", "Path(__file__).parent / 'beside_code.csv'"),
        ("beside_both.csv", "Path(__file__).parent / 'beside_both.csv'"),
    ],
)
def test_the_path_of_a_file_is_shown_from_the_code_file_that_names_it(
    executor: LocalExecutor, project: Project, name: str, hint: str
) -> None:
    project.write("pipelines/src/export.py", f"def f(context): open({name!r})\n")
    for file in ("beside_pipeline.csv", "src/beside_code.csv", "beside_both.csv", "src/beside_both.csv"):
        project.write(f"pipelines/{file}", "1")
    error = failure(executor, project.job("src/export.py:f"))
    assert error.hint.splitlines()[0] == f"A stage runs in an empty folder of its own: {hint}"


@pytest.mark.parametrize(
    ("raises", "is_told"),
    [
        ("OSError('the hub cannot be reached')", True),  # as transformers says of a folder that is not there
        ("ValueError('File not found: bert')", True),  # as Keras does
        ("ValueError('hidden_size must be above 0')", False),
        ("ValueError('bert', 'is no name of a layer')", False),  # is no file, whatever is in the project
        ("PermissionError(13, 'Permission denied')", False),
        ("type('Shy', (Exception,), {'__str__': lambda self: 1 / 0})()", False),  # nor can its message be shown
    ],
)
def test_a_folder_that_a_library_did_not_find_lies_beside_the_pipeline(
    executor: LocalExecutor, project: Project, raises: str, *, is_told: bool
) -> None:
    project.write("pipelines/library.py", f"def from_pretrained(name): raise {raises}\n")
    code = "from library import from_pretrained\ndef f(context): from_pretrained('bert')\n"
    project.write("pipelines/mine.py", code)
    project.write("pipelines/bert/config.json", "{}")
    hint = "A stage runs in an empty folder of its own: Path(__file__).parent / 'bert'"
    error = failure(executor, project.job("mine.py:f"))
    assert error.problem.startswith("f raised ")
    assert (hint in error.hint) is is_told


def test_a_file_that_a_parameter_names_is_opened_by_the_parameter(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/src/mine.py", "def f(context, *, table): open(table)\n")
    for file in ("rows.csv", "src/rows.csv"):
        project.write(f"pipelines/{file}", "1")
    error = failure(executor, project.job("src/mine.py:f", params={"table": "rows.csv"}))
    assert error.hint.splitlines()[0] == "A stage runs in an empty folder of its own: context.root / table"


def test_a_failure_inside_a_kind_is_placed_there(executor: LocalExecutor, project: Project) -> None:
    params = {"path": "gone.onnx"}
    spec = Spec(output="onnx")
    job = project.job("orun.stages.convert.onnx", origin="built-in", spec=spec, params=params, stage="model[a=1]")
    error = failure(executor, job)
    gone = f"{job.root}/gone.onnx"
    assert error.problem == f"model[a=1] raised FileNotFoundError: [Errno 2] No such file or directory: '{gone}'"
    assert re.fullmatch(r"at orun/stages/_graph/io\.py:\d+ in load_graph", error.why)
    assert error.hint.splitlines()[1] == f"Run it alone: orun {job.file} --only 'model[a=1]'"


@pytest.mark.usefixtures("code")
def test_inputs_are_not_to_be_written(executor: LocalExecutor, project: Project) -> None:
    model = project.work / "model"
    model.mkdir(parents=True)
    (model / "x").write_text("weights")
    (model / "x").chmod(0o444)
    spec = Spec(inputs={"model": Port(("files",), "a model")}, output="metrics")
    job = project.job("mine.py:scribbles", spec=spec, inputs={"model": str(model)})
    error = failure(executor, job)
    assert isinstance(error, OutputRefused)
    assert error.problem == "scribbles wrote into its inputs"
    assert error.why == "they are read-only, and it changed model/x"


@pytest.mark.usefixtures("code")
def test_numbers_of_files_count_where_they_last(executor: LocalExecutor, project: Project) -> None:
    """Elsewhere a file has another one each time that the kernel has forgotten it."""
    model = project.work / "model"
    model.mkdir(parents=True)
    (model / "x").write_text("weights")
    spec = Spec(inputs={"model": Port(("files",), "a model")}, output="metrics")
    job = project.job("mine.py:renumbers", spec=spec, inputs={"model": str(model)})
    assert failure(executor, job).problem == "renumbers wrote into its inputs"
    numbered = result(executor, replace(job, stable_inodes=False))
    assert {name: metric.value for name, metric in numbered.metrics.items()} == {"size": 7}


def test_a_stage_that_is_killed_from_outside(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        """
import os, time
def sleep(context):
    context.progress(os.getpid(), 0, "")
    time.sleep(600)
""",
    )
    job = project.job("mine.py:sleep")
    executor.start(job)
    os.kill(until_progress(executor)[0].done, signal.SIGKILL)
    error = outcomes(executor, 1)["sleep"]
    assert isinstance(error, StageCrashed)
    assert error.problem == "sleep was killed: SIGKILL (Killed)"
    assert error.why.startswith("from outside, or because memory ran out: its largest process had ")
    assert error.hint.startswith("If memory is short, run fewer stages side by side (-j 1), or give this one less")


def test_a_kill_for_want_of_memory_says_so(project: Project) -> None:
    job = project.job("mine.py:f")
    ended = Ended(signal.SIGKILL, 1.0, 1.0, 12_300_000_000, out_of_memory=True)
    assert from_end(job, ended).why.startswith(
        "the kernel ended it because memory ran out: its largest process had 12.3 GB of"
    )


def test_a_stage_cannot_start_without_its_log(executor: LocalExecutor, project: Project) -> None:
    job = project.job("mine.py:f")
    Path(job.log).mkdir()
    error = failure(executor, job)
    assert error.problem == "f could not start"
    assert error.why == f"[Errno 21] Is a directory: '{job.log}'"


def test_paths_below_the_working_folder_are_shown_as_one_types_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    job = project.job("mine.py:f")
    error = from_trouble(job, Trouble("StageFailed", "f raised E", file=f"{job.root}/mine.py", line=3, function="f"))
    assert error.why == "at pipelines/mine.py:3 in f"
    assert error.hint.endswith("Run it alone: orun pipelines/release.yaml --only f")


@pytest.mark.parametrize(
    ("code", "problem", "why"),
    [
        (
            "with failing(context, 'tool cannot convert', 'try opset'): raise OSError(28, 'No space left on device')",
            "the disk is full",
            "tool cannot convert\nOSError: [Errno 28] No space left on device\nat {file}:4 in f",
        ),
        (
            "raise RuntimeError('writer failed: (No space left on device)')",
            "the disk is full",
            "f raised RuntimeError: writer failed: (No space left on device)\nat {file}:4 in f",
        ),
        (
            "raise MemoryError('Unable to allocate 7.28 TiB')",
            "there is not enough memory",
            "f raised MemoryError: Unable to allocate 7.28 TiB\nat {file}:4 in f",
        ),
    ],
)
def test_what_the_machine_has_run_out_of_is_the_failure(
    executor: LocalExecutor, project: Project, code: str, problem: str, why: str
) -> None:
    """Not the library that met it, nor what its hint would change."""
    file = project.root / "shortage.py"
    file.write_text(f"from orun.stages.library_errors import failing\n\ndef f(context):\n    {code}\n")
    error = failure(executor, project.job("shortage.py:f"))
    assert (error.problem, error.why) == (problem, why.format(file=file))
    advice = "Nothing that was stored is lost. Free some space" if problem == "the disk is full" else LESS_MEMORY
    assert error.hint.startswith(advice)


def test_a_signal_without_a_name(project: Project) -> None:
    error = from_end(project.job("mine.py:f"), Ended(signal.SIGRTMIN + 3, 1.0, 1.0, 1))
    assert error.problem == f"f crashed: signal {signal.SIGRTMIN + 3} (Real-time signal 3)"


PLUG_IN = """
from dataclasses import dataclass

from orun.stages.contract import Spec

SPEC = Spec(output="files")


@dataclass(frozen=True)
class Params:
    pass


def run(context, params):
    raise KeyError("missing")
"""


def test_a_plug_in_of_one_file(tmp_path: Path) -> None:
    """What it raised was lost: its process ended over the folder that only a package has."""
    project = pipelines.Project.make(tmp_path / "project", "stages: {mine: {uses: example/mine}}\n")
    site = Site.make(tmp_path)
    metadata = site.install("example_kinds", "1.0", PLUG_IN)
    (metadata / "entry_points.txt").write_text("[orun.stages]\nexample/mine = example_kinds\n")
    failure = site.run(project)["mine"]["failure"]
    assert failure["problem"] == "mine raised KeyError: 'missing'"
    assert failure["why"] == f"at {site.folder}/example_kinds.py:15 in run"


@pytest.mark.parametrize(("name", "why"), [("idz", "did you mean 'ids'?"), ("zebra", "it has x, ids")])
def test_the_closest_of_known_names_is_offered(project: Project, name: str, why: str) -> None:
    trouble = Trouble("StageFailed", f"data.npz has no {name!r}", why="it has x, ids", name=name, known=("x", "ids"))
    assert from_trouble(project.job("mine.py:f"), trouble).why == why


def test_a_name_that_is_not_there_is_told_with_the_known_ones(executor: LocalExecutor, project: Project) -> None:
    code = "from orun.errors import UnknownName\ndef f(context):\n    raise UnknownName('no rows', 'rosw', ['rows'])\n"
    (project.root / "names.py").write_text(code)
    assert failure(executor, project.job("names.py:f")).why.startswith("did you mean 'rows'?")


def test_the_log_of_an_unknown_name_says_no_more_than_the_failure(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    error = UnknownName("no rows", "rosw", ["rows"], why="it has 1 such name", hint="look")
    write(Scope([str(project.root)]), error)
    assert capsys.readouterr().err == "no rows\n  hint: look\n"
