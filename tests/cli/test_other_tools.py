"""Habits from other tools, and the command lines of orun that they lead to."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from orun.cli.main import group
from orun.cli.other_tools import OPTIONS, VERBS

from .conftest import CommandLine

LINES = sorted({*VERBS, *OPTIONS})


@pytest.mark.parametrize("line", LINES)
def test_every_line_is_one(line: str) -> None:
    arguments = shlex.split(line.partition(" > ")[0])
    while "=" in arguments[0]:
        arguments = arguments[1:]  # a variable of the environment
    assert arguments.pop(0) == "orun"
    if arguments[0] == "FILE":
        arguments.insert(0, "run")
    command: click.Command = group
    context = click.Context(group)
    while arguments and isinstance(command, click.Group) and not arguments[0].startswith("-"):
        verb = command.get_command(context, arguments.pop(0))
        assert verb, line
        command = verb
    known = {name for parameter in command.get_params(context) for name in parameter.opts}
    assert {word for word in arguments if word.startswith("-")} <= known


def test_a_habit_is_no_verb_and_no_option_of_ours() -> None:
    verbs = {word for names in VERBS.values() for word in names.split()}
    assert not verbs & set(group.list_commands(click.Context(group)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["repro"],
            (
                "error: no verb 'repro', and no file of that name\n"
                "  hint: did you mean orun FILE? to see the verbs: orun --help\n"
            ),
        ),
        (
            ["bert.yaml", "--dry-run"],
            "error: no option --dry-run\n  hint: did you mean orun plan FILE? to see the options: orun run --help\n",
        ),
        (
            ["plan", "bert.yaml", "int8"],
            (
                "error: got unexpected extra argument (int8)\n"
                "  hint: one FILE; stages are chosen by --to STAGE, --from STAGE, --only STAGE."
                " to see the options: orun plan --help\n"
            ),
        ),
        (
            ["bert.yaml", "t5.yaml", "gpt2.yaml"],
            (
                "error: got unexpected extra arguments (t5.yaml gpt2.yaml)\n"
                '  hint: one FILE; of several, in turn: for file in *.yaml; do orun "$file"; done.'
                " to see the options: orun run --help\n"
            ),
        ),
        (
            ["store", "prune"],
            (
                "error: no such command 'prune'\n"
                "  hint: did you mean orun store gc? to see the options: orun store --help\n"
            ),
        ),
        (
            ["store", "pinns"],
            "error: no such command 'pinns'\n  hint: did you mean pins? to see the options: orun store --help\n",
        ),
        (
            ["-n", "bert.yaml"],
            "error: no option -n\n  hint: did you mean orun plan FILE? to see the options: orun run --help\n",
        ),
    ],
)
def test_what_other_tools_call_it(orun: CommandLine, arguments: list[str], message: str) -> None:
    shown = orun(*arguments)
    assert (shown.code, shown.out, shown.err) == (2, "", message)


def test_a_file_without_its_ending(orun: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert.yml").touch()
    assert orun("bert").err == (
        "error: no verb 'bert', and no file of that name\n"
        "  hint: did you mean bert.yml? to see the verbs: orun --help\n"
    )
