"""A verb whose help ends in examples, and a group that imports a verb when it is used."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from orun.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Examples = Sequence[tuple[str, str]]
DEFAULT = "run"  # the verb that is meant when none is named
HELP_NAMES = ("-h", "--help")
ON_WINDOWS = frozenset({"explain", "graph", "plan", "schema", "stages", "validate"})  # verbs that only read


def write_examples(formatter: click.HelpFormatter, examples: Examples) -> None:
    """Write each example below what it does, as the last section of a help text."""
    with formatter.section("Examples"):
        for command, meaning in examples:
            formatter.write(f"  # {meaning}\n  {command}\n")


def find_lost_folder_error() -> UsageError | None:
    """Return the error of a current folder that was removed or cannot be entered any more; None where all is well."""
    try:
        os.getcwd()  # noqa: PTH109 - its name is not needed
    except OSError as error:
        why = "it was removed" if error.errno == errno.ENOENT else error.strerror
        return UsageError("the current folder cannot be used", why=str(why), hint="cd to a folder that is there: cd")
    return None


class Verb(click.Command):
    """A command that shows how it is used."""

    def __init__(self, name: str, *, examples: Examples, **attributes: Any) -> None:
        super().__init__(name, context_settings={"help_option_names": HELP_NAMES}, **attributes)
        self.examples = examples

    def make_parser(self, ctx: click.Context) -> Any:
        """Return a parser that knows `-q` at first sight.

        Click takes it for a misspelt long option first, and compares it with all of them: 4 ms of each run.
        """
        parser = super().make_parser(ctx)
        short, long = (getattr(parser, name, {}) for name in ("_short_opt", "_long_opt"))  # a later click may have none
        for name, option in short.items():
            long.setdefault(name, option)
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a complaint knows which verb it is about."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; relative paths need a current folder."""
        if lost := find_lost_folder_error():
            raise lost
        if sys.platform == "win32" and self.name not in ON_WINDOWS:
            from orun.environment.platforms import require_posix

            require_posix(f"`{ctx.command_path}`")
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        del ctx
        write_examples(formatter, self.examples)


class Verbs(click.Group):
    """The verbs, each imported when it is used.

    A command line that begins with a file or an option is for the default verb.

    Args:
        verbs: each verb's summary; the verb `plan` is `command` in the module `orun.cli.plan`.
        examples: command lines and what each does.
    """

    def __init__(self, name: str, *, verbs: Mapping[str, str], examples: Examples, **attributes: Any) -> None:
        settings = {"help_option_names": HELP_NAMES}
        super().__init__(name, context_settings=settings, no_args_is_help=False, **attributes)
        self.verbs = verbs
        self.examples = examples

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of their use."""
        del ctx
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb of that name."""
        del ctx
        if cmd_name not in self.verbs:
            return None
        command: click.Command = importlib.import_module(f"orun.cli.{cmd_name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs, importing none, and the files of a command line without a verb."""
        from click.shell_completion import CompletionItem

        from orun.cli.complete import list_pipeline_files

        verbs = [(name, summary) for name, summary in self.verbs.items() if name.startswith(incomplete)]
        files = [] if incomplete.startswith("-") else list_pipeline_files(incomplete)
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=text) for name, text in verbs), *map(CompletionItem, files), *options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a command line that begins with an option of the default verb to that verb.

        An empty one is a mistake, not a wish for help: `orun $FILE` must not pass when the variable is empty.
        """
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(UsageError.exit_code)
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if args and args[0].startswith("-") and args[0] not in own:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that is named, or the default one for a file."""
        first = args[0]
        if first in self.verbs:
            return super().resolve_command(ctx, args)
        if not first.endswith((".yaml", ".yml")):
            from orun.cli.init_dialogue import accept_init, is_model

            if is_model(first):
                if not ctx.resilient_parsing:  # which is while a shell completes the line
                    accept_init(first)
                return "init", self.get_command(ctx, "init"), args
        if not (os.path.lexists(first) or first.endswith((".yaml", ".yml")) or os.sep in first):
            raise self._build_unknown_verb_error(first)
        if len(args) > 1 and args[1] in self.verbs:
            from orun.fs.os_errors import quote

            raise UsageError("the verb comes before the file", hint=f"orun {args[1]} {quote(first)}")
        return DEFAULT, self.get_command(ctx, DEFAULT), args

    def _build_unknown_verb_error(self, name: str) -> UsageError:
        from difflib import get_close_matches

        from orun.cli.other_tools import VERBS, translate

        close = [file for file in (f"{name}.yaml", f"{name}.yml") if os.path.lexists(file)]
        close += filter(None, [translate(name, VERBS)])
        close += get_close_matches(name, self.verbs, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        return UsageError(
            f"no verb '{name}', and no file of that name", hint=f"{hint}to see the verbs: {self.name} --help"
        )

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both forms of a command line."""
        formatter.write_usage(ctx.command_path, "FILE [OPTIONS]")
        formatter.write_usage(ctx.command_path, "VERB ... [OPTIONS]", prefix=" " * len("Usage: "))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs with their summaries, importing none."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list(self.verbs.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        del ctx
        write_examples(formatter, self.examples)
