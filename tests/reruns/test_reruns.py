"""One thing changes at a time: exactly these stages run again, and say why."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import orun
from orun.environment.processor import count_usable_cores
from orun.noop.check import Request, find_record
from orun.store import Store
from tests.facts import describe_reasons
from tests.project import PIPELINE, Project, built
from tests.reruns.expression_stages import code_of, make_expression_stages, texts, why

ALL = ["make", "upper", "count"]
READ = """
name: text
stages:
  beside: {uses: ./stages.py:make}
  read: {uses: ./stages.py:read, with: {name: data.txt}}
  after: {uses: ./stages.py:upper, needs: read}
"""
FOLDER = """
name: text
stages:
  beside: {uses: ./stages.py:make}
  sizes: {uses: ./folder.py:sizes, with: {folder: data}}
  names: {uses: ./folder.py:names, with: {folder: data}}
"""
SIZES_AND_NAMES = """
from orun import FilePath, stage


def files(context, folder):
    return sorted(path for path in (context.root / folder).iterdir() if path.suffix == ".bin")


@stage(inputs={}, output="files")
def sizes(context, *, folder: FilePath):
    (context.output / "text").write_text(" ".join(str(path.stat().st_size) for path in files(context, folder)))


@stage(inputs={}, output="files")
def names(context, *, folder: str):
    (context.output / "text").write_text(" ".join(path.name for path in files(context, folder)))
"""


CLASSES = """
name: text
stages:
  anywhere: {uses: ./classes.py:anywhere}
  bound: {uses: ./classes.py:bound}
  measured: {uses: ./classes.py:measured}
"""
CLASSES_CODE = """
from orun import stage


@stage(inputs={}, output="files")
def anywhere(context):
    (context.output / "text").touch()


@stage(inputs={}, output="files", stage_class="device")
def bound(context):
    (context.output / "text").touch()


@stage(inputs={}, output="files", stage_class="measurement")
def measured(context):
    (context.output / "text").touch()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    first = project.run()
    assert built(first) == ALL
    assert {describe_reasons(stage.reasons) for stage in first.stages} == {("never run before",)}
    return project


@pytest.fixture
def reader(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project", READ)
    project.write("data.txt", "one")
    assert built(project.run()) == ["beside", "read", "after"]
    return project


@pytest.fixture
def folder(tmp_path: Path) -> Project:
    """A project with two stages over a folder: one has it as a path, the other finds it by its name."""
    project = Project.make(tmp_path / "project", FOLDER)
    project.write("folder.py", SIZES_AND_NAMES)
    (project.folder / "data").mkdir()
    for name in ("a.bin", "b.bin"):
        project.write(f"data/{name}", name)
    assert built(project.run()) == ["beside", "sizes", "names"]
    return project


def edit(name: str, old: str, new: str) -> Callable[[Project], None]:
    return lambda project: project.edit(name, old, new)


def touch(project: Project) -> None:
    for path in project.folder.iterdir():
        os.utime(path, ns=(0, 0))


def write_readme(project: Project) -> None:
    project.write("README.md", "new")


ORDERS = ("{uses: ./stages.py:upper, needs: make}", "{needs: make, uses: ./stages.py:upper}")
LIMITS = ("uses: ./stages.py:upper}", "uses: ./stages.py:upper, timeout: 60s, resources: {cpus: 2}}")
NOTHING: dict[str, Callable[[Project], None]] = {
    "a comment in the file": edit("pipeline.yaml", "name: text", "# why\nname: text"),
    "the order of keys": edit("pipeline.yaml", *ORDERS),
    "times of files": touch,
    "a file that no stage reads": write_readme,
    "a limit of a stage": edit("pipeline.yaml", *LIMITS),
    "a gate that passes": edit("pipeline.yaml", "with: {text: a b}", "with: {text: a b}\n    gate: {length: {max: 3}}"),
}


def test_changes_that_rerun_nothing(project: Project) -> None:
    assert project.run().repeats
    for name, change in NOTHING.items():
        change(project)
        result = project.run()
        assert [describe_reasons(stage.reasons) for stage in result.stages] == [("up to date",)] * 3, name
        assert (built(result), result.exit_code) == ([], 0)


def test_a_parameter_reruns_its_stage_and_what_its_bytes_reach(project: Project) -> None:
    project.edit("pipeline.yaml", "text: a b", "text: c d")
    result = project.run()
    assert [(stage.outcome, *describe_reasons(stage.reasons)) for stage in result.stages] == [
        ("built", 'parameter text: "a b" -> "c d"'),
        ("built", "input text changed (from make)"),
        ("built", "input text changed (from upper)"),
    ]
    assert project.text("upper") == "C D!"


def test_equal_bytes_stop_the_rebuild(project: Project) -> None:
    project.edit("pipeline.yaml", "text: a b", "text: a  b")
    assert built(project.run()) == ["make", "upper"]


def test_the_code_of_a_stage_reruns_the_stages_of_that_file(project: Project) -> None:
    project.edit("stages.py", '"!"', '"?"')
    result = project.run()
    assert built(result) == ["make", "upper", "count"]
    assert describe_reasons(result["make"].reasons) == ("stages.py changed",)


def test_a_helper_reruns_the_stages_that_import_it(project: Project) -> None:
    """One that is imported by another as well; all three functions live in the file that imports the first."""
    for name, text in (("helper.py", "deep.split(text)"), ("deep.py", "text.split()")):
        project.edit(name, text, f"[*{text}]")
        assert why(project.run()) == dict.fromkeys(ALL, (f"{name} changed (read by the stage)",))


def test_what_has_changed_is_told_since_the_last_run_not_since_the_newest_result(project: Project) -> None:
    """Of a branch that was left, the newest result under the key had been compared with: `helper.py changed`, too."""
    project.edit("helper.py", "deep.split(text)", "[*deep.split(text)]")
    assert built(project.run()) == ALL
    project.edit("helper.py", "[*deep.split(text)]", "deep.split(text)")
    assert built(project.run()) == [], "the result of before the edit is found"
    project.edit("deep.py", "text.split()", "[*text.split()]")
    result = project.run()
    assert [describe_reasons(stage.reasons) for stage in result.stages] == [
        ("deep.py changed (read by the stage)",)
    ] * 3


def test_a_parameter_that_is_as_it_was_where_the_code_is_not(project: Project) -> None:
    project.edit("pipeline.yaml", "text: a b", "text: c d")
    project.edit("helper.py", "deep.split(text)", "[*deep.split(text)]")
    assert built(project.run()) == ALL
    project.edit("pipeline.yaml", "text: c d", "text: a b")
    assert describe_reasons(project.run()["make"].reasons) == (
        'parameter text: "c d" -> "a b"',
        "what an earlier run made of these does not hold any more: helper.py changed (read by the stage)",
    )


def test_a_data_file_that_was_not_declared_changes_goes_and_comes_back(reader: Project) -> None:
    reader.write("data.txt", "two")
    result = reader.run()
    assert built(result) == ["read", "after"]
    assert describe_reasons(result["read"].reasons) == ("data.txt changed (read by the stage)",)
    assert reader.text("after") == "TWO!"
    (reader.folder / "data.txt").unlink()
    result = reader.run()
    assert built(result) == ["read", "after"]
    assert describe_reasons(result["read"].reasons) == ("data.txt is gone (read by the stage)",)
    assert reader.text("read") == "nothing"
    reader.write("data.txt", "one")
    assert built(reader.run()) == []
    assert reader.text("read") == "one"


IMPORTS = "try:\n    import NAME\nexcept ImportError:\n    NAME = None\n"
IN_VAIN = {  # what stands before the function of a stage, what it asks, what appears then, and what is said of that
    "exists": ("", "(context.root / 'mark').exists()", "mark", "mark has appeared (looked for by the stage)"),
    "folder": ("", "(context.root / 'marks').is_dir()", "marks/1", "marks has appeared (looked for by the stage)"),
    "module": (
        IMPORTS.replace("NAME", "words"), "words is not None", "words.py", "words.py has appeared (read by the stage)"
    ),
    "package": (
        IMPORTS.replace("NAME", "more"), "more is not None", "more/__init__.py",
        "more/__init__.py has appeared (read by the stage)",
    ),
}  # fmt: skip


def test_what_the_code_looked_for_in_vain(tmp_path: Path) -> None:
    code = {name: code_of(ask, before) for name, (before, ask, *_) in IN_VAIN.items()}
    project = make_expression_stages(tmp_path, code)
    assert built(project.run()) == [*IN_VAIN]
    assert texts(project, IN_VAIN) == dict.fromkeys(IN_VAIN, "False")
    assert built(project.run()) == []
    for name, (*_, file, reason) in IN_VAIN.items():
        (project.folder / file).parent.mkdir(exist_ok=True)
        project.write(file, "")
        assert why(project.run()) == {name: (reason,)}
    assert texts(project, IN_VAIN) == dict.fromkeys(IN_VAIN, "True")
    for name in ("mark", "words.py"):
        (project.folder / name).unlink()
    for name in ("marks", "more"):
        shutil.rmtree(project.folder / name)
    assert built(project.run()) == [], "the old results hold again"
    assert texts(project, IN_VAIN) == dict.fromkeys(IN_VAIN, "False")


def test_an_environment_variable_that_the_code_looks_up(reader: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_TEST_MARK", "+")
    result = reader.run()
    assert built(result) == ["read", "after"]
    assert describe_reasons(result["read"].reasons) == (
        "environment variable ORUN_TEST_MARK changed (read by the stage)",
    )
    assert reader.text("read") == "one+"
    monkeypatch.setenv("ORUN_TEST_OTHER", "+")
    assert built(reader.run()) == []


def test_a_file_in_a_folder_of_a_parameter(folder: Project) -> None:
    folder.write("data/a.bin", "other")
    result = folder.run()
    assert built(result) == ["sizes"], "the other stage looks at names alone"
    assert describe_reasons(result["sizes"].reasons) == ("data changed",)


def test_a_file_in_a_folder_gets_another_name(folder: Project) -> None:
    (folder.folder / "data" / "a.bin").rename(folder.folder / "data" / "c.bin")
    result = folder.run()
    assert built(result) == ["sizes", "names"]
    assert describe_reasons(result["names"].reasons) == ("folder data has other files now (listed by the stage)",)
    assert (folder.text("sizes"), folder.text("names")) == ("5 5", "b.bin c.bin")


def test_a_readme_in_a_folder(folder: Project) -> None:
    """Which of a folder's files a stage looks at is not known before it has run: a path stands for all of them."""
    folder.write("data/README.md", "one")
    assert built(folder.run()) == ["sizes", "names"]
    folder.write("data/README.md", "two")
    assert built(folder.run()) == ["sizes"]


def test_a_declared_environment_variable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.edit("pipeline.yaml", "needs: make}", "needs: make, env: [ORUN_TEST_DECLARED]}")
    assert describe_reasons(project.run()["upper"].reasons) == (
        "environment variable ORUN_TEST_DECLARED counts, and is not set",
    )
    monkeypatch.setenv("ORUN_TEST_DECLARED", "")
    assert built(project.run()) == ["upper"], "empty is not unset"
    assert built(project.run()) == []


def test_a_threshold_reruns_nothing_and_changes_the_verdict(project: Project) -> None:
    project.edit("pipeline.yaml", "with: {text: a b}", "with: {text: a b}\n    gate: {length: {max: 2}}")
    result = project.run(keep_going=True)
    assert built(result) == []
    assert [verdict.outcome for verdict in result.verdicts] == ["failed"]
    assert result.exit_code == 1
    assert describe_reasons(result["upper"].reasons) == ("a gate of make failed",)
    project.edit("pipeline.yaml", "max: 2", "max: 3")
    assert project.run().exit_code == 0


def test_groups_of_gates_rerun_nothing_either(project: Project) -> None:
    gate = "gate: {any: [length: {max: 2}, all: [length: {min: 1}, length: {max: 9}]]}"
    project.edit("pipeline.yaml", "with: {text: a b}", f"with: {{text: a b}}\n    {gate}")
    result = project.run()
    assert built(result) == []
    assert [(verdict.title, verdict.outcome, verdict.fails) for verdict in result.verdicts] == [
        ("make any of 2", "passed", False),
        ("make length max 2", "failed", False),
        ("make all of 2", "passed", False),
        ("make length min 1", "passed", False),
        ("make length max 9", "passed", False),
    ]
    project.edit("pipeline.yaml", "max: 9", "max: 2")
    result = project.run(keep_going=True)
    assert built(result) == []
    assert [verdict.outcome for verdict in result.verdicts] == ["failed", "failed", "failed", "passed", "failed"]
    assert [verdict.fails for verdict in result.verdicts] == [True, False, False, False, False]
    assert result.exit_code == 1
    assert describe_reasons(result["upper"].reasons) == ("a gate of make failed",)


@pytest.fixture
def classes(tmp_path: Path) -> Iterator[Project]:
    """A stage of each class; the cores that may be used are what they were after each test."""
    project = Project.make(tmp_path / "project", CLASSES)
    project.write("classes.py", CLASSES_CODE)
    assert built(project.run()) == ["anywhere", "bound", "measured"]
    cores = os.sched_getaffinity(0)
    yield project
    os.sched_setaffinity(0, cores)


def test_another_host_reruns_what_was_measured(classes: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    here = platform.node()
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    result = classes.run()
    assert built(result) == ["measured"]
    assert describe_reasons(result["measured"].reasons) == (f"device host: {here} -> elsewhere",)


def test_hosts_that_are_given_one_name_are_one(classes: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_HOST", "runners")
    assert built(classes.run()) == ["measured"]
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    result = classes.run()
    assert (built(result), result.host["host"]) == ([], "runners")


@pytest.mark.skipif(count_usable_cores() == 1, reason="there is one core, and it cannot be taken away")
def test_other_cores_rerun_what_is_bound_to_the_device(classes: Project) -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    result = classes.run()
    assert built(result) == ["bound", "measured"]
    assert describe_reasons(result["bound"].reasons) == (f"device cores: {len(cores)} -> 1",)


def test_a_renamed_stage(project: Project) -> None:
    for old, new in (("  make:", "  made:"), ("needs: make", "needs: made")):
        project.edit("pipeline.yaml", old, new)
    result = project.run()
    assert built(result) == []
    assert describe_reasons(result["made"].reasons) == ("up to date (the same as make)",)
    assert project.text("made") == "a b"


def test_a_file_in_another_order(project: Project) -> None:
    head, _, rest = PIPELINE.partition("stages:\n")
    make, _, rest_of_file = rest.partition("  upper")
    upper, _, count = f"  upper{rest_of_file}".partition("  count")
    project.write("pipeline.yaml", f"{head}stages:\n  count{count}{upper}{make}")
    assert built(project.run()) == []


def test_the_project_in_another_folder(project: Project, tmp_path: Path) -> None:
    shutil.move(project.folder, tmp_path / "elsewhere")
    project.folder = tmp_path / "elsewhere"
    assert built(project.run()) == []


def test_another_pipeline_shares_what_is_the_same(project: Project) -> None:
    project.write("other.yaml", PIPELINE.replace("name: text", "name: other").replace("  count", "  number"))
    objects = set((project.store / "objects").glob("*/*"))
    result = project.run("other.yaml")
    assert built(result) == []
    assert set((project.store / "objects").glob("*/*")) == objects
    assert project.text("number", "other") == "2"
    assert describe_reasons(result["number"].reasons) == ("up to date (the same as count of text)",)


def test_another_pipeline_runs_what_comes_after_a_shared_beginning(project: Project) -> None:
    project.write(
        "other.yaml",
        PIPELINE.replace("name: text", "name: other").replace("needs: make}", "needs: make, with: {mark: .}}"),
    )
    assert built(project.run("other.yaml")) == ["upper", "count"]
    assert built(project.run()) == []


def test_forced(project: Project) -> None:
    result = project.run(force=["upper"])
    assert built(result) == ["upper"]
    assert describe_reasons(result["upper"].reasons) == ("forced",)


def test_an_artifact_that_was_edited_by_hand_is_put_right(project: Project) -> None:
    out = project.store / "out" / "text" / "upper" / "text"
    out.chmod(0o644)
    out.write_text("edited by hand")
    result = project.run()
    assert project.text("upper") == "A B!"
    assert result.exit_code == 0


def test_a_file_that_is_taken_by_a_hard_link(tmp_path: Path) -> None:
    """Nothing opens it, and its signature changes with each link."""
    project = Project.make(tmp_path / "project", "name: text\nstages: {take: {uses: './take.py:take'}}\n")
    project.write(
        "take.py",
        "from orun import stage\n\n@stage(inputs={}, output='files')\ndef take(context):\n"
        "    (context.output / 'text').hardlink_to(context.root / 'data')\n",
    )
    project.write("data", "one")
    assert built(project.run()) == ["take"]
    assert built(project.run()) == []
    project.write("data", "two")
    assert project.text("take") == "one", "what is stored has an inode of its own"
    assert describe_reasons(project.run()["take"].reasons) == ("data changed (read by the stage)",)
    assert project.text("take") == "two"


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """What was written just before a run is compared by its content."""
    project = Project.make(tmp_path / "project", READ)
    project.write("data.txt", "one")
    project.run()
    (project.folder / "data.txt").unlink()
    os.mkfifo(project.folder / "data.txt")
    steps = orun.plan(project.folder / "pipeline.yaml", store=project.store).steps
    assert find_record(Request(project.store, project.folder / "pipeline.yaml", {})) is None
    assert {step.stage.id: describe_reasons(step.reasons) for step in steps} == {
        "beside": ("up to date",),
        "read": ("data.txt is gone (read by the stage)",),
        "after": ("after read",),
    }


@pytest.mark.slow
def test_where_modules_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_expression_stages(tmp_path, {"told": code_of("outside.NAME", "import outside")})
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "outside.py").write_text("NAME = 'second'")
    monkeypatch.setenv("PYTHONPATH", f"{first}:{second}")
    assert built(project.run()) == ["told"]
    (first / "outside.py").write_text("NAME = 'first'")
    assert describe_reasons(project.run()["told"].reasons) == (f"{first}/outside.py has appeared (read by the stage)",)
    assert project.text("told") == "first"
    monkeypatch.setenv("PYTHONPATH", str(second))
    (reason,) = describe_reasons(project.run()["told"].reasons)
    assert reason.startswith("modules come from other folders: PYTHONPATH was /")
    assert project.text("told") == "second"
    monkeypatch.setenv("PYTHONPATH", f"{first}:{second}")
    assert built(project.run()) == [], "both results are kept"
    assert project.text("told") == "first"


@pytest.mark.slow
def test_folders_of_pythonpath_that_change_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """As editors put there: the project itself, and orun's own."""
    folders = [project.folder, Path(orun.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", ":".join(map(str, folders)))
    assert built(project.run()) == []
    assert built(project.run()) == []
    (project.folder / "more").mkdir()
    project.write("more/words.py", "")
    monkeypatch.setenv("PYTHONPATH", str(project.folder / "more"))
    (reason,) = {describe_reasons(stage.reasons) for stage in project.run().stages if stage.outcome == "built"}
    assert reason == ("modules come from other folders: PYTHONPATH was not set, and is more",)


def test_whether_asserts_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONOPTIMIZE", raising=False)
    project = Project.make(tmp_path / "project", CLASSES)
    project.write("classes.py", CLASSES_CODE.replace(".touch()", ".write_text(str(__debug__))"))
    project.run()
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    assert describe_reasons(project.run()["anywhere"].reasons) == ("environment variable PYTHONOPTIMIZE changed",)
    assert project.text("anywhere") == "False"


@pytest.mark.slow
def test_own_code_that_pythonpath_brings_is_watched_as_the_project_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables, what is looked for in vain, and packages: of a folder beside the project."""
    project = make_expression_stages(tmp_path, {"told": code_of("outside.name()", "import outside")})
    outside = tmp_path / "outside"
    outside.mkdir()
    code = "import os, yaml\ntry: import orun_test_absent\nexcept ImportError: pass\n"
    code += "def name(): return os.environ.get('ORUN_TEST_MARK', '') + str(os.path.exists({mark!r}))\n"
    (outside / "outside.py").write_text(code.format(mark=str(tmp_path / "mark")))
    monkeypatch.setenv("PYTHONPATH", str(outside))
    monkeypatch.delenv("ORUN_TEST_MARK", raising=False)
    assert built(project.run()) == ["told"]
    assert project.text("told") == "False"
    monkeypatch.setenv("ORUN_TEST_MARK", "x")
    assert describe_reasons(project.run()["told"].reasons) == (
        "environment variable ORUN_TEST_MARK changed (read by the stage)",
    )
    (tmp_path / "mark").touch()
    assert describe_reasons(project.run()["told"].reasons) == (
        f"{tmp_path}/mark has appeared (looked for by the stage)",
    )
    assert project.text("told") == "xTrue"
    with Store.open(project.store) as store:
        action = store.find_latest("text", "told")
    assert action
    assert action.implicit_deps.packages == {"orun-test-absent": "not installed", "pyyaml": version("pyyaml")}


def test_what_another_pipeline_has_left_for_people(project: Project) -> None:
    """Read by its path, and not declared: it is as good as any file of the project."""
    left = project.store / "out" / "text" / "upper" / "text"
    project.write("told.py", code_of(f"open({str(left)!r}).read()"))
    project.write("other.yaml", "name: other\nstages: {told: {uses: './told.py:tell'}}\n")
    assert built(project.run("other.yaml")) == ["told"]
    assert built(project.run("other.yaml")) == []
    project.edit("pipeline.yaml", "text: a b", "text: c d")
    project.run()
    again = project.run("other.yaml")
    assert describe_reasons(again["told"].reasons) == (f"{left} changed (read by the stage)",)
    assert project.text("told", "other") == "C D!"


@pytest.mark.slow
def test_a_package_that_is_installed_while_a_process_lives_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook does between two runs."""
    packages = tmp_path / "packages"
    metadata = packages / "orun_test_tiny-1.0.dist-info"
    metadata.mkdir(parents=True)
    (packages / "orun_test_tiny.py").touch()
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    project = Project.make(tmp_path / "project", CLASSES)
    project.write("classes.py", f"import orun_test_tiny\n{CLASSES_CODE}")
    project.run()
    assert built(project.run()) == []
    metadata.rename(packages / "orun_test_tiny-2.0.dist-info")
    assert describe_reasons(project.run()["anywhere"].reasons) == (
        "package orun-test-tiny: 1.0 -> 2.0 (imported by the stage)",
    )
