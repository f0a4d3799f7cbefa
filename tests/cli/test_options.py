"""Words that several verbs understand, and their completion."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orun.cli.crash import redact
from orun.cli.main import group, main
from orun.cli.options import parse_overrides

from .conftest import CommandLine, write_project


def test_overrides() -> None:
    assert parse_overrides(["a.b=1", "c=", "a.b=2", "d=x=y"]) == {"a.b": "2", "c": "", "d": "x=y"}


def test_values_of_set_are_kept_out_of_logs() -> None:
    arguments = ["run", "--set", "vars.token=s3cret", "--set=vars.key=k=v", "--set", "oops", "--jobs=2"]
    assert redact(arguments) == ["run", "--set", "vars.token=***", "--set=vars.key=***", "--set", "oops", "--jobs=2"]


def completed(orun: CommandLine, *arguments: str) -> list[str]:
    """What bash would offer for the last word."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_ORUN_COMPLETE", "bash_complete")
        patch.setenv("COMP_WORDS", " ".join(["orun", *arguments]))
        patch.setenv("COMP_CWORD", str(len(arguments)))
        process = orun()
    assert process.code == 0
    return [entry.removeprefix("plain,") for entry in process.out.split()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pl"], ["plan"]),
        (["wo"], ["words.yaml"]),
        (["sub"], ["sub/"]),
        (["plan", "w"], ["words.yaml"]),
        (["plan", "sub/"], ["sub/inner.yml"]),
        (["plan", "nowhere/"], []),
        (["plan", "words.yaml", "--onl"], ["--only"]),
        (["plan", "words.yaml", "--only", "c"], ["count"]),
        (["words.yaml", "--only", "w"], ["write"]),
        (["explain", "words.yaml", "c"], ["count"]),
        (["explain", "broken.yaml", "c"], []),
        (["plan", "words.yaml", "--set", "stages.c"], ["stages.count.gate.words.min="]),
        (["words.yaml", "--set", "stages.write.w"], ["stages.write.with.text="]),
        (["plan", "named.yaml", "--set", "v"], ["vars.text="]),
        (["nothing", "wo"], []),
        (["mlp.onnx", "--dr"], ["--dry-run"]),
        (["completion", "z"], ["zsh"]),
        (["stages", "quantize/d"], ["quantize/dynamic", "quantize/debug"]),
        (["init", "mlp.onnx", "--target", "c"], ["cpu", "cuda", "coreml", "cann"]),
    ],
)
def test_completion(orun: CommandLine, project: Path, arguments: list[str], expected: list[str]) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "inner.yml").touch()
    (project / "broken.yaml").write_text("stages: []\n")
    (project / "mlp.onnx").touch()
    (project / "named.yaml").write_text("vars: {text: a}\nstages: {write: {uses: './words.py:write'}}\n")
    assert completed(orun, *arguments) == expected


def test_completion_of_runs_and_metrics(project: Path, orun: CommandLine) -> None:
    assert orun("words.yaml", "-q").code == 0
    (run,) = (project / "artifacts" / "runs").iterdir()
    assert completed(orun, "diff", "l") == ["last", "last~1"]
    assert completed(orun, "bisect", "last", run.name[:4]) == [run.name]
    assert completed(orun, "history", "w") == ["write.length", "words"]


def test_bash_completes_with_the_script_that_is_installed(
    project: Path, orun: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(project / "data"))
    monkeypatch.setenv("SHELL", "/bin/bash")
    script = project / "data" / "bash-completion" / "completions" / "orun"
    assert orun("completion", "--install").out == f"wrote {script}\nnext: exec bash\n"
    assert orun("completion").out == script.read_text()
    program = project / "bin" / "orun"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m orun\n")
    program.chmod(0o755)
    lines = [
        f"source {script}", 'compopt() { printf "%s " compopt "$@"; }', "COMP_WORDS=(orun words.yaml --set stages.w)",
        "COMP_CWORD=3", "_orun_completion orun", 'echo "${COMPREPLY[@]}"',
    ]  # fmt: skip
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    process = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)],
        env=environment,
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "compopt -o nospace stages.write.with.text=\n"


def test_a_script_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine) -> None:
    """It ended as a bug of orun."""
    (tmp_path / "home").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    shown = orun("completion", "zsh", "--install")
    script = tmp_path / "home" / "zsh" / "site-functions" / "_orun"
    why = f"{tmp_path}/home is a file, not a folder"
    assert (shown.code, shown.out, shown.err) == (2, "", f"error: {script} cannot be written\n  {why}\n")


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_with_its_script(project: Path, orun: CommandLine) -> None:
    (project / "orun.fish").write_text(orun("completion", "fish").out)
    (project / "orun").write_text(f"#!/bin/sh\nexec {sys.executable} -m orun\n")
    (project / "orun").chmod(0o755)
    environment = os.environ | {"PATH": f"{project}:{os.environ['PATH']}"}
    line = "source orun.fish; complete -C 'orun words.yaml --set stages.w'"
    process = subprocess.run(
        ["fish", "--no-config", "-c", line], env=environment, cwd=project, capture_output=True, text=True, check=True
    )
    assert process.stdout == "stages.write.with.text=\n"


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_completes_with_its_script(project: Path, orun: CommandLine) -> None:
    """A path that goes on was replaced by nothing."""
    (project / "orun.zsh").write_text(orun("completion", "zsh").out)
    (project / "orun").write_text(f"#!/bin/sh\nexec {sys.executable} -m orun\n")
    (project / "orun").chmod(0o755)
    lines = [
        "compdef() { : }", 'compadd() { print -r -- "${(qq)@}" $completions }', "source ./orun.zsh", "CURRENT=4",
        "words=(orun words.yaml --set stages.w)", "_orun_completion",
        "words=(orun words.yaml --only w)", "_orun_completion",
    ]  # fmt: skip
    environment = os.environ | {"PATH": f"{project}:{os.environ['PATH']}"}
    process = subprocess.run(
        ["zsh", "-f", "-c", "\n".join(lines)], env=environment, cwd=project, capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == [
        "'-U' '-S' '' '-V' 'unsorted' '-a' 'completions' stages.write.with.text=",
        "'-U' '-V' 'unsorted' '-a' 'completions' write",
    ]


def test_a_shell_that_is_not_known(orun: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert orun("completion").err == (
        "error: SHELL is missing\n  $SHELL is tcsh; expected bash, zsh or fish\n  hint: orun completion bash\n"
    )


@pytest.mark.parametrize(("shell", "line"), [("zsh", "#compdef orun"), ("fish", "complete --no-files --command orun")])
def test_scripts_of_other_shells(orun: CommandLine, shell: str, line: str) -> None:
    assert line in orun("completion", shell).out


STORING = {  # a command line of every verb that takes --store
    "init": "model.onnx", "run": "words.yaml", "plan": "words.yaml", "explain": "words.yaml write",
    "blame": "words.yaml", "bisect": "a b",
    "history": "", "report": "", "diff": "a b", "baseline accept": "words.yaml", "baseline diff": "words.yaml",
    "baseline drop": "words.yaml", "verify": "words.yaml --rebuild", "store stats": "", "store verify": "",
    "store pins": "", "store gc": "", "store pin": "a b", "store unpin": "a", "doctor": "words.yaml",
    "watch": "requests.jsonl --release last",
}  # fmt: skip


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run that was accepted, beside which is a folder that is no store."""
    folder = tmp_path_factory.mktemp("accepted")
    write_project(folder)
    (folder / "src").mkdir()
    (folder / "src" / "model.py").write_text("mine")
    with contextlib.chdir(folder):
        assert main(["words.yaml", "-q", "--store", ""]) == 0
        assert main(["baseline", "accept", "words.yaml", "--store", ""]) == 0
    return folder


@pytest.mark.parametrize("verb", STORING)
def test_a_folder_that_is_no_store_is_refused(
    orun: CommandLine, accepted: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(accepted)
    arguments = [*verb.split(), *STORING[verb].split()]
    shown = orun(*arguments, "--store", "src")
    assert (shown.code, shown.out) == (2, "")
    messages = ("src is no store, and not empty", "there is no store at src", "nothing was measured yet")
    assert any(text in shown.err for text in messages)
    assert [path.name for path in (accepted / "src").iterdir()] == ["model.py"]
    assert (accepted / "words.baseline.json").exists()


@pytest.mark.usefixtures("no_providers")
@pytest.mark.parametrize("verb", STORING)
def test_a_store_without_a_name_is_that_of_the_project(
    orun: CommandLine, accepted: Path, project: Path, verb: str
) -> None:
    """As $ORUN_STORE is unset when it is empty."""
    shutil.copytree(accepted, project, symlinks=True, dirs_exist_ok=True)
    before = sorted(path.name for path in project.iterdir())
    assert "artifacts" in before
    arguments = [*verb.split(), *STORING[verb].split()]
    assert orun(*arguments, "--store", "").code == orun(*arguments).code
    assert sorted({*(path.name for path in project.iterdir()), "words.baseline.json"}) == before


def test_every_verb_with_a_store_is_tried() -> None:
    context = group.make_context("orun", ["plan"])
    with_store = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        verbs = {f"{name} {subcommand}": verb for subcommand, verb in getattr(command, "commands", {}).items()} or {
            name: command
        }
        with_store |= {
            subcommand for subcommand, verb in verbs.items() if any("--store" in option.opts for option in verb.params)
        }
    assert with_store - {"agent"} == set(STORING)  # an agent runs until it is stopped: tests/agent
