"""The command line: each verb is reached, and every error is a message and an exit code."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orun import api
from orun.cli.crash import report_bug
from orun.cli.main import VERBS, group, main
from orun.environment.install_commands import format_install_command
from orun.errors import StoreError
from tests.thin import mostly_slow

from .conftest import CommandLine


def test_every_verb_has_a_module_with_a_command_and_nothing_else_does() -> None:
    context = group.make_context("orun", ["plan"])
    assert [group.get_command(context, verb).name for verb in VERBS] == list(VERBS)  # type: ignore[union-attr]


def test_help_lists_the_verbs_in_the_order_of_their_use(orun: CommandLine) -> None:
    shown = orun("--help")
    assert (shown.code, shown.err) == (0, "")
    places = [shown.out.index(f"\n  {verb} ") for verb in VERBS]
    assert places == sorted(places)


def test_version(orun: CommandLine) -> None:
    assert orun("--version").out == "orun 0.2.0\n"


def test_nothing_typed_is_a_mistake(orun: CommandLine) -> None:
    shown = orun()
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Usage: orun FILE [OPTIONS]\n       orun VERB ... [OPTIONS]\n")


def test_a_group_alone_shows_its_help_and_is_a_mistake(orun: CommandLine) -> None:
    shown = orun("baseline")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Usage: orun baseline [OPTIONS] COMMAND [ARGS]...\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["plna"],
            (
                "error: no verb 'plna', and no file of that name\n"
                "  hint: did you mean plan? to see the verbs: orun --help\n"
            ),
        ),
        (
            ["xyzzy"],
            "error: no verb 'xyzzy', and no file of that name\n  hint: to see the verbs: orun --help\n",
        ),
        (
            ["bert.yaml", "plan"],
            "error: the verb comes before the file\n  hint: orun plan bert.yaml\n",
        ),
        (
            ["bert.yaml", "--forse"],
            "error: no option --forse\n  hint: did you mean --force? to see the options: orun run --help\n",
        ),
        (
            ["bert.yaml", "-set", "vars.x=1"],
            "error: no option -s\n  hint: did you mean --set? to see the options: orun run --help\n",
        ),
        (
            ["history", "--metric", "p50"],
            (
                "error: METRIC is no option\n  hint: orun history [OPTIONS] [METRIC]\n"
                "  hint: to see the options: orun history --help\n"
            ),
        ),
        (
            ["--kepgoing", "bert.yaml"],
            "error: no option --kepgoing\n  hint: did you mean --keep-going? to see the options: orun run --help\n",
        ),
        (
            ["plan", "bert.yaml", "--xyz"],
            "error: no option --xyz\n  hint: to see the options: orun plan --help\n",
        ),
        (
            ["plan"],
            "error: FILE is missing\n  hint: orun plan [OPTIONS] FILE\n  hint: to see the options: orun plan --help\n",
        ),
        (
            ["bert.yaml", "--set", "vars.sequence"],
            "error: --set wants PATH=VALUE, not 'vars.sequence'\n  hint: orun FILE --set vars.sequence=64\n",
        ),
        (
            ["plan", "bert.yaml", "--set", "seed=1", "--set", "vars.sequence", "64"],
            (
                "error: --set wants PATH=VALUE, not 'vars.sequence'\n"
                "  hint: no space around the =: --set vars.sequence=VALUE\n"
            ),
        ),
        (
            ["bert.yaml", "--set", "vars.name=caf\udce9"],
            "error: --set 'vars.name=caf\ufffd' is not UTF-8\n  a pipeline file is, and what replaces its values\n",
        ),
        (
            ["bert.yaml", "-q", "-v"],
            "error: --quiet and --verbose contradict each other\n  hint: use one of them\n",
        ),
        (
            ["bert.yaml", "--only"],
            "error: option '--only' requires an argument\n  hint: to see the options: orun run --help\n",
        ),
    ],
)
def test_a_wrong_command_line(orun: CommandLine, arguments: list[str], message: str) -> None:
    shown = orun(*arguments)
    assert (shown.code, shown.out, shown.err) == (2, "", message)


def test_with_json_an_error_is_the_document(orun: CommandLine) -> None:
    shown = orun("plna", "--json")
    assert (shown.code, shown.err) == (2, "")
    assert json.loads(shown.out) == {
        "error": {
            "type": "UsageError",
            "exit_code": 2,
            "problem": "no verb 'plna', and no file of that name",
            "hint": "did you mean plan? to see the verbs: orun --help",
        }
    }


Failing = Callable[[BaseException], None]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Let this error be raised where a pipeline file is read."""

    def fail(error: BaseException) -> None:
        def load(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(api, "load", load)

    return fail


def test_an_error_of_orun_is_its_text_and_its_exit_code(orun: CommandLine, failing: Failing) -> None:
    failing(StoreError("the disk is full", why="artifacts: no space left", hint="free some, then: orun bert.yaml"))
    shown = orun("bert.yaml")
    assert (shown.code, shown.out) == (3, "")
    assert shown.err == (
        "error: the disk is full\n  artifacts: no space left\n  hint: free some, then: orun bert.yaml\n"
    )


def test_an_interruption_is_130(orun: CommandLine, failing: Failing) -> None:
    failing(KeyboardInterrupt())
    shown = orun("bert.yaml")
    assert (shown.code, shown.out, shown.err) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize(("module", "package"), [("obstore", "obstore"), ("sklearn", "scikit-learn")])
def test_a_package_of_an_extra_that_is_not_installed_is_no_bug(
    orun: CommandLine, monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    def load(*_: object, **__: object) -> None:
        importlib.import_module(module)

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(api, "load", load)
    shown = orun("bert.yaml")
    assert (shown.code, shown.out, shown.err) == (
        2,
        "",
        f"error: this command needs {package}, which is not installed\n  hint: {format_install_command([package])}\n",
    )


@pytest.mark.parametrize(("module", "package"), [("blake3", "blake3"), ("yaml", "pyyaml")])
def test_a_package_of_orun_that_is_not_installed_is_no_bug(module: str, package: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from orun.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "validate", "bert.yaml"]
    shown = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (shown.returncode, shown.stdout, shown.stderr) == (
        2,
        "",
        f"error: orun needs {package}, which is not installed\n  hint: pip install {package}, or install orun anew\n",
    )


def test_a_bug_is_5_and_its_traceback_is_in_a_file(orun: CommandLine, failing: Failing) -> None:
    failing(KeyError("tree"))
    shown = orun("bert.yaml", "--set", "vars.token=s3cret")
    first, location, hint = shown.err.splitlines()
    assert (shown.code, shown.out) == (5, "")
    assert first == "error: this is a bug in orun: KeyError: 'tree'"
    assert hint == "  hint: nothing that was stored is lost; please report it with that file"
    log = Path(location.removeprefix("  the traceback and versions are in "))
    text = log.read_text(encoding="utf-8")
    log.unlink()
    assert text.startswith("command: orun bert.yaml --set vars.token=***\npython: 3.")
    assert "\nTraceback (most recent call last):\n" in text
    assert "\ninstalled:\n  " in text
    assert "\n  click 8." in text
    assert "s3cret" not in text


def test_a_bug_where_no_file_can_be_written(
    orun: CommandLine, failing: Failing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(KeyError("tree"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    shown = orun("bert.yaml")
    assert (shown.code, shown.out) == (5, "")
    first, *why, reason, hint = shown.err.splitlines()
    assert first == "error: this is a bug in orun: KeyError: 'tree'"
    assert "  KeyError: 'tree'" in why
    assert reason == "  and no file takes this: No such file or directory"
    assert hint == "  hint: nothing that was stored is lost; please report it with that file"


def test_memory_that_is_used_up_is_no_bug(orun: CommandLine, failing: Failing) -> None:
    failing(MemoryError())
    shown = orun("bert.yaml")
    assert (shown.code, shown.out) == (3, "")
    assert shown.err == (
        "error: there is not enough memory to go on\n"
        "  hint: Nothing that was stored is lost. Free some memory, or raise the limit: ulimit -v unlimited\n"
    )


@pytest.mark.parametrize(
    ("code", "problem", "hint"),
    [
        (errno.EIO, "the disk reports an error", "Look for its cause: dmesg"),
        (errno.EACCES, "permission denied", "See whose it is: ls -ld '.'"),
    ],
)
def test_what_the_system_refuses_is_no_bug(
    orun: CommandLine, failing: Failing, code: int, problem: str, hint: str
) -> None:
    failing(OSError(code, os.strerror(code), "gone.yaml"))
    shown = orun("bert.yaml")
    assert (shown.code, shown.out) == (3, "")
    assert shown.err == (f"error: cannot go on: {problem}\n  gone.yaml: {os.strerror(code)}\n  hint: {hint}\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    command = f"{sys.executable} -m orun stages --json; echo $? >&2"
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(["sh", "-c", command], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert process.stderr == "141\n"


@pytest.mark.parametrize("closed", mostly_slow([">&-", "<&- >&- 2>&-"], ">&-"))
def test_standard_streams_that_are_closed(project: Path, closed: str) -> None:
    command = f"{sys.executable} -m orun words.yaml {closed}"
    process = subprocess.run(
        ["sh", "-c", command], cwd=project, capture_output=True, text=True, check=False, timeout=100
    )
    assert (process.returncode, process.stderr if "2>" not in closed else "") == (0, "")
    assert (project / "artifacts" / "out" / "words" / "write" / "text.txt").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("arguments", ["stages --json", "--version"])
def test_a_disk_that_is_full_of_what_is_printed(arguments: str) -> None:
    command = f"{sys.executable} -m orun {arguments} > /dev/full"
    process = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=100)
    message = "error: the output cannot be written\n  No space left on device\n"
    assert (process.returncode, process.stderr) == (2, message)


def test_a_file_named_like_a_verb_is_reached_by_its_path(
    orun: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(file: str, *_: object) -> None:
        loaded.append(file)
        raise StoreError("enough")

    monkeypatch.setattr(api, "load", load)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan").touch()
    (tmp_path / "mine").touch()
    assert [orun(*arguments).code for arguments in (["./plan"], ["mine"], ["-k", "mine"], ["run", "plan"])] == [
        3,
        3,
        3,
        3,
    ]
    assert loaded == ["./plan", "mine", "mine", "plan"]


def test_main_reads_the_words_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["orun", "--version"])
    assert main() == 0


def test_a_bug_with_a_name_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    message = report_bug(ValueError("caf\udce9"), ["caf\udce9.yaml"])
    (log,) = tmp_path.iterdir()
    assert message.why == f"the traceback and versions are in {log}"
    assert log.read_text().startswith("command: orun caf\\udce9.yaml\n")


LINES = {  # for every verb
    "init": "model.onnx", "run": "words.yaml", "plan": "words.yaml", "explain": "words.yaml write",
    "blame": "words.yaml", "bisect": "a b", "graph": "words.yaml", "validate": "words.yaml",
    "stages": "", "test": "./ops.py:count", "report": "", "schema": "", "history": "", "diff": "",
    "baseline": "show words.yaml", "verify": "bundle", "store": "stats", "completion": "bash", "doctor": "",
    "agent": "--listen unix:///tmp/orun.sock", "head": "", "machines": "--on unix:///tmp/orun.sock", "mcp": "",
    "watch": "log.jsonl --release bundle",
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_current_folder_that_was_removed(
    orun: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    shown = orun(verb, *LINES[verb].split())
    assert (shown.code, shown.out, shown.err) == (
        2,
        "",
        "error: the current folder cannot be used\n  it was removed\n  hint: cd to a folder that is there: cd\n",
    )
    assert orun(verb, "--help").code == 0


def test_a_current_folder_that_is_removed_meanwhile(orun: CommandLine, project: Path) -> None:
    (project / "gone").mkdir()
    os.chdir(project / "gone")
    code = (project / "words.py").read_text().replace("import time", f"import os\nos.rmdir('{project}/gone')")
    (project / "words.py").write_text(code)
    shown = orun(str(project / "words.yaml"), "--only", "write")
    assert shown.code == 2
    assert shown.err.startswith("error: the current folder cannot be used\n")
