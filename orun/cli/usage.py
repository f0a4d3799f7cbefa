"""Click's complaints about a command line in our own words, with what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import click

from orun.cli.other_tools import OPTIONS, VERBS, translate
from orun.errors import UsageError


def build_usage_error(error: click.UsageError, command_line: Sequence[str]) -> UsageError:
    """Return the same complaint with the nearest option and the command that shows the help."""
    path = error.ctx.command_path if error.ctx else "orun"
    see = f"to see the options: {path} --help"
    if isinstance(error, click.NoSuchOption):
        if argument := _find_argument(error.option_name, error.ctx):
            return UsageError(f"{argument} is no option", hint=f"{format_usage(error.ctx)}\n{see}")
        close = [f"-{word}" for word in command_line if f"-{word}" in _list_options(error.ctx)]  # `-set` for `--set`
        close += [line] if (line := translate(error.option_name, OPTIONS)) else []
        close += get_close_matches(error.option_name, _list_options(error.ctx), n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}? {see}" if close else see
        return UsageError(f"no option {error.option_name}", hint=hint)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return UsageError(f"{error.param.human_readable_name} is missing", hint=f"{format_usage(error.ctx)}\n{see}")
    message = error.format_message().rstrip(".")
    extra = message.startswith("Got unexpected extra argument")
    if extra and (bare := _find_bare_value(error.ctx)):
        return UsageError(f"--set wants PATH=VALUE, not '{bare}'", hint=f"no space around the =: --set {bare}=VALUE")
    if extra and re.search(r"\.ya?ml\b", message):
        see = f'one FILE; of several, in turn: for file in *.yaml; do {path.removesuffix(" run")} "$file"; done. {see}'
    elif extra and "--to" in _list_options(error.ctx):
        see = f"one FILE; stages are chosen by --to STAGE, --from STAGE, --only STAGE. {see}"
    if message.startswith("No such command") and error.ctx:
        name = message.split("'")[1]
        message, see = f"no such command '{name}'", _suggest_command(name, error.ctx) + see  # click adds its own guess
    return UsageError(message[:1].lower() + message[1:], hint=see)


def _find_bare_value(context: click.Context | None) -> str:
    """Return the text after --set that has no value, as in `--set vars.x 3`: the value is an argument too many."""
    overrides = context.params.get("overrides") or () if context else ()
    return next((word for word in overrides if "=" not in word), "")


def _suggest_command(name: str, context: click.Context) -> str:
    """Return the command of a group that was meant by the name of none."""
    line, group = translate(name, VERBS), context.command_path
    known = context.command.list_commands(context) if isinstance(context.command, click.Group) else []
    close = [line] if line.startswith(group) else get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}? " if close else ""


def format_usage(context: click.Context | None) -> str:
    """Return the usage line of a command, without its label."""
    return context.get_usage().partition(": ")[2] if context else "orun FILE"


def _list_options(context: click.Context | None) -> list[str]:
    if context is None:
        return []
    parameters = context.command.get_params(context)
    return [name for parameter in parameters if isinstance(parameter, click.Option) for name in parameter.opts]


def _find_argument(option: str, context: click.Context | None) -> str:
    """Return the argument that was typed as an option, as `--metric` for METRIC."""
    parameters = context.command.get_params(context) if context else []
    names = [item.human_readable_name.strip("[].") for item in parameters if isinstance(item, click.Argument)]
    return next((name for name in names if option == f"--{name.lower()}"), "")
