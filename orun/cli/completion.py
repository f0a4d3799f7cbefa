"""orun completion: the script that lets a shell complete command lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from orun.cli import options
from orun.cli.outputs import write_file
from orun.cli.verb import Verb
from orun.errors import UsageError
from orun.fs.os_errors import quote

Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")
EXAMPLES = (
    ("orun completion --install", "for the shell that you use"),
    ('eval "$(orun completion bash)"', "in this shell only"),
    ("orun completion zsh > ~/.zfunc/_orun", "in a folder of your $fpath"),
)
# A path (`stages.int8.with.`) or a folder goes on: no space after it.
NO_SPACE: Mapping[Shell, tuple[str, str]] = {
    "bash": (
        "            COMPREPLY+=($value)\n",
        "            COMPREPLY+=($value)\n            [[ $value == *[=/] ]] && compopt -o nospace\n",
    ),
    "zsh": (
        "        compadd -U -V unsorted -a completions\n",
        (
            "        local -a suffix\n"
            "        [[ ${completions[1]} == *[=/] ]] && suffix=(-S '')\n"
            '        compadd -U "${suffix[@]}" -V unsorted -a completions\n'
        ),
    ),
}


@click.command("completion", cls=Verb, examples=EXAMPLES)
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Write it where the shell looks for it.")
def command(shell: Shell | None, install: bool) -> int:
    """Print the script that completes verbs, files, stages, runs, metrics and paths of --set in a shell.

    SHELL is bash, zsh or fish; that of $SHELL when left out.
    """
    chosen = shell or _detect_shell()
    script = build_script(chosen)
    if not install:
        options.show([script.rstrip()])
        return 0
    path = _locate_script(chosen)
    write_file(path, script)
    lines = [f"wrote {path}"]
    if chosen == "zsh":
        lines.append(
            f"if it is not there yet, add to ~/.zshrc: fpath+=({quote(path.parent)}); autoload -U compinit; compinit"
        )
    options.show([*lines, f"next: exec {chosen}"])
    return 0


def build_script(shell: Shell) -> str:
    """Return the completion script of a shell: click's, without a space after what goes on."""
    from click.shell_completion import get_completion_class

    from orun.cli.main import COMPLETE, group

    completer = get_completion_class(shell)
    assert completer  # noqa: S101 - click knows all three
    script = completer(group, {}, "orun", COMPLETE).source()
    return script.replace(*NO_SPACE[shell]) if shell in NO_SPACE else script


def _detect_shell() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    for shell in SHELLS:
        if shell == name:
            return shell
    why = f"$SHELL is {name}" if name else "$SHELL is not set"
    raise UsageError("SHELL is missing", why=f"{why}; expected bash, zsh or fish", hint="orun completion bash")


def _locate_script(shell: Shell) -> Path:
    """Return where a shell looks for completion scripts of a user."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": data / "bash-completion" / "completions" / "orun",
        "zsh": data / "zsh" / "site-functions" / "_orun",
        "fish": config / "fish" / "completions" / "orun.fish",
    }[shell]
