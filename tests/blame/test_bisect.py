"""Two runs of one small project, and the change between them that made a gate fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import orun
from orun.core.run_record import RunResult
from orun.errors import UsageError
from tests.blame.project import STAGES, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def nothing_is_worse(good: RunResult, bad: RunResult) -> str:
    """The message where nothing failed at all."""
    return (
        f"nothing is worse in {bad.run} than in {good.run}\n  no stage and no gate failed there\n"
        "  hint: name a gate whose metric differs: --gate STAGE.METRIC"
    )


def test_one_parameter_of_several(project: Project) -> None:
    good = project.run()
    project.edit("pipeline.yaml", "{weight: 1.0, note: one}", "{weight: 5.0, note: two}")
    project.edit("pipeline.yaml", "times: 1", "times: 2, mark: x")
    project.edit("pipeline.yaml", "text: abc", "text: b")
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert [run.exit_code for run in (good, bad)] == [0, 1]
    assert bisection.changes == (
        'make.text: "abc" -> "b"',
        "make.times: 1 -> 2",
        'make.mark: "" -> "x"',
        "score.weight: 1.0 -> 5.0",
        'score.note: "one" -> "two"',
    )
    assert bisection.causes == (("score.weight: 1.0 -> 5.0",),)
    assert bisection.built == len(list(project.store.glob("runs/*.bisect"))) == 8
    assert bisection.fixed == ()
    assert bisection.sentence == (
        "score score max 10 fails because of score.weight: 1.0 -> 5.0; 4 other changes do not matter"
    )


def test_a_gate_that_failed_before_is_not_what_is_looked_for(project: Project) -> None:
    """Nor one of the same metric and rule that is narrowed to slices, and failed in both."""
    project.edit("stages.py", 'metrics=["score"]', 'metrics=["score", "score[part=a]", "other"]')
    project.edit("stages.py", 'return {"score": helper', 'return {"other": 1.0, "score[part=a]": 9.0, "score": helper')
    project.edit("stages.py", 'note: str = ""', 'note: str = "", slices: list[str] | None = None')
    project.edit("pipeline.yaml", "note: one", "note: one, slices: [part]")
    gates = "gate: {other: {max: 0}, all: [{score: {max: 5, by: part}}, {score: {max: 10}}]}"
    project.edit("pipeline.yaml", "gate: {score: {max: 10}}", gates)
    good = project.run()
    bad = project.run(**{"stages.score.with.weight": 5.0, "seed": 3})
    assert [run.exit_code for run in (good, bad)] == [1, 1]
    assert project.bisect(good, bad).sentence == (
        "score score max 10 fails because of score.weight: 1.0 -> 5.0; 1 other change does not matter"
    )


def test_a_member_of_a_group_that_passes_is_not_worse(project: Project) -> None:
    project.edit("pipeline.yaml", "gate: {score: {max: 10}}", "gate: {any: [{score: {max: 10}}, {score: {max: 100}}]}")
    good = project.run()
    bad = project.run(**{"stages.score.with.weight": 5.0})
    assert [run.exit_code for run in (good, bad)] == [0, 0]
    with pytest.raises(UsageError) as refused:
        project.bisect(good, bad)
    assert str(refused.value) == nothing_is_worse(good, bad)


def test_a_threshold_that_was_changed(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.score.gate.score.max": 2, "stages.score.with.note": "two"})
    for gate in ("", "score.score"):
        bisection = project.bisect(good, bad, gate)
        assert bisection.sentence == (
            "score score max 2 fails because of threshold of score score max: 10 -> 2; 1 other change does not matter"
        )
        assert project.started == []


@pytest.mark.slow
def test_a_threshold_and_a_parameter_that_only_together_do_it(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.score.gate.score.max": 5, "stages.score.with.weight": 2.0})
    bisection = project.bisect(good, bad)
    assert bisection.changes == ("score.weight: 1.0 -> 2.0", "threshold of score score max: 10 -> 5")
    assert bisection.causes == (bisection.changes,)


@pytest.mark.slow
def test_a_threshold_does_not_matter_to_the_value_of_a_metric(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.score.gate.score.max": 8, "stages.score.with.weight": 2.0})
    bisection = project.bisect(good, bad, "score.score")
    assert bisection.changes == ("score.weight: 1.0 -> 2.0",)
    assert bisection.sentence == "score score goes from 3 to 6 because of score.weight: 1.0 -> 2.0"


def test_the_seed(project: Project) -> None:
    project.edit("stages.py", "helper.value(text) * weight", "helper.value(text) * weight + context.seed")
    good = project.run()
    bad = project.run(**{"seed": 20, "stages.score.with.note": "two"})
    assert project.bisect(good, bad).sentence == (
        "score score max 10 fails because of seed: 0 -> 20; 1 other change does not matter"
    )


def test_two_changes_that_only_together_do_it(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.make.with.times": 2, "stages.score.with.weight": 2.0, "stages.score.with.note": "z"})
    assert project.bisect(good, bad).sentence == (
        "score score max 10 fails because of 2 changes together, none of which suffices alone "
        "(make.times: 1 -> 2; score.weight: 1.0 -> 2.0); 1 other change does not matter"
    )


@pytest.mark.slow
def test_two_changes_each_of_which_does_it(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.make.with.times": 9, "stages.score.with.weight": 9.0})
    assert project.bisect(good, bad).causes == (("make.times: 1 -> 9",), ("score.weight: 1.0 -> 9.0",))


def test_code_that_a_stage_imports(project: Project) -> None:
    good = project.run()
    project.edit("helper.py", "len(text)", "len(text) + 100")
    project.edit("pipeline.yaml", "note: one", "note: two")
    bad = project.run()
    project.edit("helper.py", "+ 100", "+ 7")  # neither version is on the disk any more
    bisection = project.bisect(good, bad)
    assert bisection.causes == (("helper.py was changed",),)
    assert bisection.changes == ('score.note: "one" -> "two"', "helper.py was changed")


@pytest.mark.slow
def test_a_module_on_pythonpath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial builds import the modules of their own files, not those of the working tree."""
    project = Project(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "lib").mkdir()
    shared = (project.folder / "helper.py").rename(tmp_path / "lib" / "helper.py")
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH", "")]), str(shared.parent)])
    monkeypatch.setenv("PYTHONPATH", path)
    good = project.run()
    shared.write_text(shared.read_text().replace("len(text)", "len(text) + 100"))
    bad = project.run(**{"stages.score.with.note": "two"})
    bisection = project.bisect(good, bad)
    assert bisection.sentence == (
        "score score max 10 fails because of ../lib/helper.py was changed; 1 other change does not matter"
    )
    assert (bisection.built, project.started) == (4, ["score", "score"])  # the store has the results of both runs
    assert os.environ["PYTHONPATH"] == path


@pytest.mark.slow
def test_a_helper_of_a_helper_and_a_file_that_was_added(project: Project) -> None:
    """Modules are told apart by the files that stages were seen to read, however deep, and are tried one at a time."""
    (project.folder / "parts").mkdir()
    (project.folder / "parts" / "__init__.py").touch()
    (project.folder / "parts" / "deep.py").write_text("FACTOR = 1")
    project.edit("helper.py", "def value", "from parts.deep import FACTOR\n\n\ndef value")
    project.edit("helper.py", "len(text)", "len(text) * FACTOR")
    good = project.run()
    (project.folder / "parts" / "more.py").write_text("TIMES = 50")
    (project.folder / "parts" / "deep.py").write_text("from parts.more import TIMES\n\nFACTOR = TIMES")
    (project.folder / "parts" / "__init__.py").write_text("# all of it")
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert bisection.changes == (
        "parts/__init__.py was changed",
        "parts/deep.py was changed",
        "parts/more.py was added",
    )
    assert bisection.causes == (("parts/deep.py was changed",),)


def test_a_stage_that_fails(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"vars.text": "boom", "stages.score.with.note": "z"})
    bisection = project.bisect(good, bad)
    assert bisection.symptom == "score fails"
    assert bisection.causes == (('make.text: "abc" -> "boom"',),)


def test_a_metric_whose_gate_passes_in_both(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.score.with.offset": 2.0, "stages.score.with.note": "z"})
    with pytest.raises(UsageError) as refused:
        project.bisect(good, bad)
    assert str(refused.value) == nothing_is_worse(good, bad)
    bisection = project.bisect(good, bad, "score.score")
    assert bisection.symptom == "score score goes from 3 to 5"
    assert bisection.causes == (("score.offset: 0.0 -> 2.0",),)


def test_a_metric_that_is_the_same(project: Project) -> None:
    good = project.run()
    bad = project.run(**{"stages.score.with.note": "z"})
    with pytest.raises(UsageError) as refused:
        project.bisect(good, bad, "score.score")
    assert (
        str(refused.value)
        == f"score.score is 3 in both runs\n  hint: orun diff {good.run} {bad.run} --store {project.store}"
    )


@pytest.mark.slow
def test_a_stage_that_was_put_between(project: Project) -> None:
    good = project.run()
    project.edit(
        "pipeline.yaml", "  score:\n", "  more: {uses: ./stages.py:make, with: {text: aaaaaaaaaaaaa}}\n  score:\n"
    )
    project.edit("pipeline.yaml", "needs: make", "needs: more")
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert [sorted(cause) for cause in bisection.causes] == [["stage more was added", "stage score was changed"]]


@pytest.mark.slow
def test_a_run_that_repeats_another_is_as_good_as_that(project: Project) -> None:
    """What that one and the bad run built is not built again."""
    project.run()
    again = project.run()
    bad = project.run(**{"stages.score.with.weight": 9.0})
    bisection = project.bisect(again, bad)
    assert bisection.causes == (("score.weight: 1.0 -> 9.0",),)
    assert (bisection.built, project.started) == (2, [])


@pytest.mark.slow
def test_runs_of_a_part_of_the_pipeline(project: Project) -> None:
    """What the other stages name was not looked at by either run, and need not be there any more."""
    project.edit(
        "pipeline.yaml",
        "  score:\n",
        "  data: {uses: ./stages.py:load, with: {file: data.bin, folder: more}}\n  score:\n",
    )
    (project.folder / "stages.py").write_text(
        STAGES.replace("import stage", "import FilePath, stage")
        + """

@stage(inputs={}, output="files")
def load(context, *, file: FilePath, folder: FilePath):
    (context.output / "text").write_text("")
"""
    )
    (project.folder / "data.bin").write_bytes(b"1")
    (project.folder / "more").mkdir()
    good = orun.run(project.folder / "pipeline.yaml", to=["score"], store=project.store)
    bad = orun.run(
        project.folder / "pipeline.yaml", to=["score"], set={"stages.score.with.weight": 9.0}, store=project.store
    )
    assert [run.exit_code for run in (good, bad)] == [0, 1]
    (project.folder / "data.bin").unlink()
    assert project.bisect(good, bad).causes == (("score.weight: 1.0 -> 9.0",),)


def test_a_file_that_is_only_asked_for_is_named(project: Project) -> None:
    """Runs keep what was opened; whether a file was there is told, not mixed."""
    (project.folder / "helper.py").write_text(
        "from pathlib import Path\n\ndef value(text):\n"
        "    return len(text) * (9 if Path(__file__).with_name('mark').exists() else 1)\n"
    )
    good = project.run()
    (project.folder / "mark").touch()
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert (bisection.causes, bisection.fixed) == ((), ("looked for mark of score: none -> file",))


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["", "score.score"])
def test_a_partial_build_that_does_not_measure_the_metric(project: Project, gate: str) -> None:
    """A parameter with which the good run's code measures nothing says neither good nor bad by itself."""
    project.edit("stages.py", ', metrics=["score"])', ")")
    quiet = '    if note == "none":\n        return {}\n'
    project.edit("stages.py", '    return {"score"', f'{quiet}    return {{"score"')
    good = project.run()
    project.edit("stages.py", quiet, "")
    project.edit("stages.py", "* weight + offset", "* weight + offset + 100")
    project.edit("pipeline.yaml", "note: one", "note: none")
    bad = project.run(**({"stages.score.gate.score.max": 1000} if gate else {}))
    bisection = project.bisect(good, bad, gate)
    assert bisection.causes == (("./stages.py was changed",),)


UPLOAD = """

@stage(inputs={"text": "files"}, output="metrics", metrics=["sent"], releases=True)
def upload(context, *, to: str):
    with open(to, "a") as file:
        file.write((context.inputs["text"] / "text").read_text())
    if (context.inputs["text"] / "text").stat().st_size > 3:
        raise ValueError("too long")
    return {"sent": 1}
"""


def test_partial_builds_are_not_given_away(project: Project, tmp_path: Path) -> None:
    project.edit("stages.py", "\n\n@stage(inputs={}, ", UPLOAD + "\n\n@stage(inputs={}, ")
    project.edit(
        "pipeline.yaml",
        "  score:",
        "  upload: {uses: ./stages.py:upload, needs: make, gate: {sent: {max: 0}}, "
        f"with: {{to: {tmp_path}/up}}}}\n  score:",
    )
    good, bad = project.run(), project.run(**{"vars.text": "abcdef"})
    assert [run["upload"].outcome for run in (good, bad)] == ["built", "failed"]
    sent = (tmp_path / "up").read_text()
    for gate in ("", "upload.sent"):
        with pytest.raises(UsageError) as refused:
            project.bisect(good, bad, gate)
        assert str(refused.value) == (
            "upload publishes a release, so it does not run for an investigation\n"
            f"  hint: orun diff {good.run} {bad.run} --store {project.store}"
        )
    assert (tmp_path / "up").read_text() == sent == "abcabcdef"


def test_no_such_gate(project: Project) -> None:
    good = project.run()
    with pytest.raises(UsageError) as refused:
        project.bisect(good, good, "score.speed")
    assert str(refused.value) == f"there is no gate 'score.speed' in {good.run}\n  it has score.score"


def test_data_that_is_gone(project: Project) -> None:
    """A run keeps code and text; data must still be there, and a run without it says what it lacks."""
    data = project.folder / "more.bin"
    data.write_bytes(b"1")
    project.edit("helper.py", "len(text)", "len(text) + int((pathlib.Path(__file__).parent / 'more.bin').read_text())")
    project.edit("helper.py", "def value", "import pathlib\n\n\ndef value")
    good = project.run()
    bad = project.run(**{"stages.score.with.weight": 9.0})
    assert project.bisect(good, bad).causes == (("score.weight: 1.0 -> 9.0",),)
    data.unlink()
    with pytest.raises(UsageError) as refused:
        project.bisect(good, bad)
    assert str(refused.value) == (
        f"more.bin was removed or changed since the run {good.run}\n"
        f"  runs store only code and small text files\n  hint: restore it: {data}"
    )
