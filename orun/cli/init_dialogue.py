"""Dialogue of `orun init` in a terminal: what the options leave open, and the offer where a file is a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from orun.cli.options import activity_shown
from orun.core.serialization import Record
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.scaffold.goal import EXAMPLE, check_goal
from orun.scaffold.paths import MODELS

if TYPE_CHECKING:
    from orun.scaffold.ci import System
    from orun.scaffold.model_facts import ModelFacts

NO_WORKFLOW = "none"
FOLDER_FILES = ("config.json", "saved_model.pb")


class Answers(Record, frozen=True):
    """Answers of a user: the pipeline to write."""

    goal: str = ""  # conditions of the release; may be empty
    data: str = ""  # the user's own examples; may be empty
    ci: System | None = None  # the CI system to write a workflow for


def is_interactive(*, yes: bool) -> bool:
    """Return whether somebody can be asked: in a terminal, outside CI, without --yes."""
    return not yes and sys.stdin.isatty() and sys.stderr.isatty() and not os.environ.get("CI")


def is_model(word: str) -> bool:
    """Return whether a word names a model that exists: a file, a folder, or `file.py:function`."""
    path, separator, _ = word.rpartition(":")
    if separator and path.endswith(".py"):
        return os.path.isfile(path)  # noqa: PTH113 - a word may be no path at all
    if os.path.isdir(word):  # noqa: PTH112
        return any(Path(word, name).is_file() for name in FOLDER_FILES)
    return word.lower().endswith(MODELS) and os.path.lexists(word)


def accept_init(word: str) -> None:
    """Ask whether to write a pipeline for a model.

    Raises:
        UsageError: when nobody can be asked, or the answer is no.
    """
    question = f"{word} is a model, not a pipeline file. Write a pipeline for it?"
    if not is_interactive(yes=False) or not click.confirm(question, default=True, err=True):
        hint = f"to write a pipeline for it: orun init {quote(word)}"
        raise UsageError(f"{word} is a model, not a pipeline file", hint=hint)


def ask(
    model: str, folder: Path, inputs: Sequence[str], options: Answers, *, trust: bool
) -> tuple[ModelFacts, Answers]:
    """Read the model, and ask for what the options leave open; Enter accepts each default.

    Returns:
        The facts about the model, and the answers.
    """
    from orun.scaffold.inspection import PICKLES
    from orun.scaffold.inspection_process import declare_data

    if not trust and model.lower().endswith(PICKLES) and Path(model).is_file():
        question = f"{model} is a pickle: reading it runs the code in it. Do you trust it?"
        trust = click.confirm(question, default=False, err=True)
    facts = _read(model, folder, inputs, trust=trust)
    click.echo(facts.title, err=True)
    data = options.data or _prompt(
        "Your own examples, file.py:function, a file or a folder (Enter: made up for now)",
        lambda text: declare_data(text, folder, facts),
    )
    question = f"Goal, such as {EXAMPLE} (Enter: gates from what is measured)"
    goal = options.goal or _prompt(question, lambda text: check_goal(text, data))
    ci = options.ci
    if ci is None:
        choice = click.Choice((NO_WORKFLOW, "github", "gitlab"))
        answer = click.prompt("Workflow for CI", default=NO_WORKFLOW, type=choice, err=True)
        ci = None if answer == NO_WORKFLOW else cast("System", answer)
    return facts, Answers(goal, data, ci)


def _read(model: str, folder: Path, inputs: Sequence[str], *, trust: bool) -> ModelFacts:
    """Read the model; ask for the inputs of a PyTorch module, which knows none."""
    from orun.scaffold.inspection import INPUT, parse_inputs
    from orun.scaffold.inspection_process import read_model
    from orun.scaffold.model_facts import InputsUnknown

    def check(name: str, text: str) -> None:
        try:
            parse_inputs([f"{name}={text}"])
        except UsageError as error:
            why = error.why if INPUT.fullmatch(f"{name}={text}") else ""
            raise UsageError(
                f"{text!r} is not a type with its axes, such as float32[batch,3,224,224]", why=why
            ) from error

    try:
        with activity_shown():
            return read_model(model, folder, inputs, trust=trust)
    except InputsUnknown as error:
        click.echo(f"{error.problem}: name the type and the axes of each, such as float32[batch,3,224,224]", err=True)
        declared = [f"{name}={_prompt(f'  {name}', partial(check, name), default=None)}" for name in error.parameters]
        with activity_shown():
            return read_model(model, folder, declared, trust=trust)


def _prompt(question: str, check: Callable[[str], object], default: str | None = "") -> str:
    """Return an answer that a check lets pass; one that it refuses repeats the question."""

    def check_answer(text: str) -> str:
        try:
            check(text)
        except UsageError as error:
            raise click.UsageError("\n  ".join(filter(None, (error.problem, error.why)))) from error
        return text

    return str(click.prompt(question, default=default, show_default=False, value_proc=check_answer, err=True))
