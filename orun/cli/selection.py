"""Options that select stages: --only, --from, --to, --force, --fresh, and their completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import click

import orun
from orun.cli.complete import complete_stage
from orun.cli.verb import Verb

F = TypeVar("F", bound=Callable[..., object])
TYPED = "orun.cli.typed"  # where a context keeps the words of the command line after the verb
ALL = "*"  # what such an option without a stage stands for; no stage can have that name


BARE = ("--force", "--rebuild")  # options that mean every stage when none follows


class SelectingVerb(Verb):
    """A verb whose bare --force may stand before the file: a YAML file is never the stage to force."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Settle what each bare --force means before the arguments are parsed; what was typed stays in `ctx.meta`."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, [_add_all(*pair) for pair in pairwise([*args, "-"])])


def _add_all(word: str, after: str) -> str:
    bare = word in BARE and (after.startswith("-") or after.endswith((".yaml", ".yml")))
    return f"{word}={ALL}" if bare else word


def _stage_option(name: str, parameter: str, text: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(
        name, parameter, multiple=True, shell_complete=complete_stage, help=f"{text} Repeatable.", **attributes
    )


SELECTION = (
    _stage_option("--only", "only", "This stage alone; what it needs must be up to date.", metavar="STAGE"),
    _stage_option("--from", "from_", "This stage and all after it.", metavar="STAGE"),
    _stage_option("--to", "to", "This stage and all that it needs.", metavar="STAGE"),
    _stage_option(
        "--force",
        "force",
        "Run this stage whatever is stored; without STAGE, every selected one.",
        metavar="[STAGE]",
        is_flag=False,
        flag_value=ALL,
    ),
    click.option("--fresh", is_flag=True, help="Measure again instead of using stored measurements."),
)


def selection_options(function: F) -> F:
    """--only, --from, --to, --force, --fresh."""
    for decorate in reversed(SELECTION):
        function = decorate(function)
    return function


def list_forced(file: str, choices: Mapping[str, Any]) -> list[str]:
    """Return the stages to force, with every selected one in the place of a bare --force."""
    force: Sequence[str] = choices["force"]
    if ALL not in force:
        return list(force)
    from orun.pipeline.graph import select

    selection = {name: choices[name] for name in ("only", "from_", "to")}
    return [stage.id for stage in select(orun.load(file, choices["set"]), **selection)]
