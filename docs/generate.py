"""Writes commands.md, events.md, kinds.md and stages.md from the command line and the stage kinds.

`python docs/generate.py` does it.

A test holds that the committed pages are what this writes.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click

from orun.cli.describe import BOUND, default_text, facts, flat_params, port_text
from orun.cli.main import group
from orun.cli.verb import Verb, Verbs
from orun.core.events import KINDS, VERSION, name_of
from orun.pipeline.fragments import words
from orun.report.event_schema import fields, records
from orun.stages.kind import Kind
from orun.stages.registry import all_kinds

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py: change the source, then run it. -->"
EVENTS = f"""\
Everything that happens in a run is written to `events.jsonl` in the folder of the run, `artifacts/runs/<id>/`, when it
happens: one JSON object a line. It is all that reports are made of: the run record, the console, JUnit XML and Markdown
say nothing that is not in it.

Each line has `version` (a number, now {VERSION}), `event` (its name), `time` (seconds since the epoch) and the fields
below. A field that has its default value (empty, 0 or null) is left out. Numbers that are not finite are the texts
`inf`, `-inf` and `nan`. The version is raised when a field or an event goes or changes its meaning. New ones may come
without: ignore what you do not know. `orun schema --events` prints the form of a line as a JSON Schema, exactly for
this version of orun.

A log that does not end with `run_finished` is of a run that goes on or was killed."""

KINDS_INTRO = """\
Each kind of the library: the tools that its results rest on, in the versions of `requirements.lock` (PyTorch's is the
machine's choice); whom its results may be shared with; whether equal inputs make equal bytes, in processes with
different hash seeds; what it does with a model of 2.2 GB whose weights are external data (`python -m benchmarks.big`,
times and memory in [benchmarks.md](benchmarks.md#a-model-of-more-than-2-gb)); on what it was tried; and by what its
result is known to be right, beside what every stage checks: the ONNX checker, and inputs and outputs that stay."""
COLUMNS = ("large", "tried", "checked")  # of kinds.toml; a kind that lacks them fails a test
PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def commands_page() -> str:
    """Every verb with its options and examples."""
    intro = "`orun FILE` is short for `orun run FILE`. Every verb explains itself with `--help`."
    blocks = ["# Commands", NOTE, intro, _table(("verb", "what it does"), _verb_rows())]
    blocks += [block for name, command in verbs() for block in _command(name, command)]
    completion = (
        'For completion in the shell: `eval "$(_ORUN_COMPLETE=bash_source orun)"`, or `zsh_source`, `fish_source`.'
    )
    return "\n\n".join([*blocks, "## Completion", completion]) + "\n"


def verbs() -> Iterator[tuple[str, click.Command]]:
    """Every verb by the words that call it, those of groups after the group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(name)
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", verb) for inner, verb in command.commands.items())


def _verb_rows() -> Iterator[tuple[str, str]]:
    yield from ((f"[`{name}`](#orun-{name})", summary) for name, summary in group.verbs.items())


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"orun {name}")
    depth = "###" if " " in name else "##"
    yield f"{depth} orun {name}"
    yield f"```\n{' '.join([context.info_name or '', *command.collect_usage_pieces(context)])}\n```"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    if options:
        yield _table(("option", "what it does"), ((_option(option), option.help or "") for option in options))
    if isinstance(command, (Verb, Verbs)):
        examples = "\n".join(f"{line}  # {meaning}" for line, meaning in command.examples)
        yield f"```sh\n{examples}\n```"


def _option(option: click.Option) -> str:
    metavar = f" {option.metavar}" if option.metavar and not option.is_flag else ""
    if isinstance(option.type, click.Choice):
        metavar = f" {'|'.join(option.type.choices)}"
    return ", ".join(f"`{name}{metavar}`" for name in option.opts)


def stages_page() -> str:
    """Every kind of the library with its inputs, parameters and metrics."""
    blocks = [
        "# Stages",
        NOTE,
        _table(("kind", "what it does"), ((_link(kind.name), kind.summary) for kind in all_kinds())),
    ]
    for kind in all_kinds():
        blocks += _kind(kind)
    return "\n\n".join(blocks) + "\n"


def _link(kind: str) -> str:
    return f"[`{kind}`](#{kind.replace('/', '')})"


def _kind(kind: Kind) -> Iterator[str]:
    yield f"## {kind.name}"
    yield kind.doc.strip()
    if kind.spec.inputs:
        ports = kind.spec.inputs.items()
        yield _table(
            ("input", "type", "what it is for"), ((f"`{name}`", port_text(port), port.doc) for name, port in ports)
        )
    if kind.params:
        rows = [
            (f"`{name}`", words(param.type), default_text(param), param.doc) for name, param in flat_params(kind.params)
        ]
        yield _table(("parameter", "type", "default", "what it does"), rows)
    yield "\n".join(f"- {name}: {text}" for name, text in facts(kind))


def kinds_page() -> str:
    """Every kind of the library in one table: what it declares, and what was found out (`kinds.toml`)."""
    found = tomllib.loads((HERE / "kinds.toml").read_text(encoding="utf-8"))
    pinned = PINNED.findall((HERE.parent / "requirements.lock").read_text(encoding="utf-8"))
    versions = dict(reversed(pinned))  # of a tool with several, the first: the one of the oldest Python
    titles = ("kind", "tools", "result holds for", "deterministic", "over 2 GB", "tried on", "checked by")
    blocks = [
        "# Kinds",
        NOTE,
        KINDS_INTRO,
        _table(titles, (_facts(kind, found.get(kind.name, {}), versions) for kind in all_kinds())),
    ]
    return "\n\n".join(blocks) + "\n"


def _facts(kind: Kind, found: Mapping[str, str], versions: Mapping[str, str]) -> tuple[str, ...]:
    names = [tool.partition("|")[0] for tool in kind.spec.tools]
    tools = ", ".join(f"{name} {versions[name]}" if name in versions else name for name in names)
    measured = kind.spec.stage_class == "measurement"
    sure = "a measurement" if measured else "yes" if kind.spec.deterministic else "no: the first result is kept"
    link = f"[`{kind.name}`](stages.md#{kind.name.replace('/', '')})"
    return link, tools, BOUND[kind.spec.stage_class], sure, *(found.get(column, "") for column in COLUMNS)


def events_page() -> str:
    """Every event of the log with its fields."""
    rows = [(f"[`{name_of(kind)}`](#{name_of(kind)})", _first(kind)) for kind in KINDS]
    blocks = ["# The event log", NOTE, EVENTS, _table(("event", "when"), rows)]
    blocks += [block for kind in KINDS for block in _fields(name_of(kind), kind)]
    blocks += [block for cls in records() for block in _fields(cls.__name__, cls)]
    return "\n\n".join(blocks) + "\n"


def _first(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _fields(title: str, cls: type) -> Iterator[str]:
    yield f"## {title}"
    yield _first(cls)
    rows = [(f"`{one.name}`", one.words, "yes" if one.optional else "", one.doc) for one in fields(cls)]
    yield _table(("field", "type", "may be left out", "what it is"), rows)


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "events.md": events_page,
    "kinds.md": kinds_page,
    "stages.md": stages_page,
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (HERE / page).write_text(write(), encoding="utf-8")
