"""Writes reference pages from the code: commands, events, and a page for each kind of stage.

`python docs/generate.py` does it. A test holds that the committed pages are what this writes.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from orun.cli.describe import BOUND, flatten_params, format_default, format_port, list_facts
from orun.cli.main import group
from orun.cli.verb import Verb, Verbs
from orun.core.events import KINDS, VERSION, name_kind
from orun.pipeline.fragments import describe_type
from orun.report.event_schema import list_fields, list_records
from orun.stages.kind import Kind
from orun.stages.registry import list_kinds

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py: change the source, then run it. -->"
EVENTS = f"""\
A run writes each event to `artifacts/runs/<id>/events.jsonl` when it happens: one JSON object a line. All reports are
made from this log.

- Each line has `version` (now {VERSION}), `event` (its name), `time` (seconds since the epoch) and the fields below.
- A field with its default value (empty, 0 or null) is left out.
- Numbers that are not finite are written as the texts `inf`, `-inf` and `nan`.
- The version rises when a field or an event is removed or changes its meaning. New ones may appear without: ignore what
  you do not know.
- A log that does not end with `run_finished` belongs to a run that is still going or was killed.

`orun schema --events` prints the JSON Schema of a line, for this version of orun."""

STAGES = """\
A stage names its kind with `uses`. `orun stages` prints this list, `orun stages KIND` one page. A kind can also be
[a function of your own](../custom-stages.md) or come with a package."""
FAMILIES = {
    "train": "Train: weights that are worth converting",
    "convert": "Convert: a model becomes ONNX",
    "check": "Check: can it be loaded, and where do its nodes run",
    "optimize": "Optimize: the same answers from a better graph",
    "compile": "Compile: a model made ready for one provider or device",
    "quantize": "Quantize: fewer bits, answers within a budget",
    "measure": "Measure: figures that gates judge",
    "release": "Release: what users receive",
}
SUPPORT = """\
For each kind: its tools, in the versions that orun is tested with; where a result of it may be reused; whether equal
inputs give equal bytes; what happens with a model of 2.2 GB; which models it was tried on; and how its results are
checked, beside the ONNX checker and unchanged inputs and outputs."""
LLMS = """\
orun runs a pipeline file (YAML). Its stages convert, optimize, quantize, measure and bundle models. Results are cached
by content, and gates judge measurements. `orun validate FILE` checks a file, `orun stages KIND` documents a kind, and
`orun schema` prints the JSON Schema of the file. `orun mcp` serves the verbs as tools."""
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
COLUMNS = ("large", "tried", "checked")  # of kinds.toml; a kind that lacks them fails a test
PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def commands_page() -> str:
    """Every verb with its options and examples."""
    intro = "`orun FILE` is short for `orun run FILE`. Every verb explains itself with `--help`."
    blocks = ["# Commands", NOTE, intro, _table(("verb", "what it does"), _verb_rows())]
    blocks += [block for name, command in verbs() for block in _command(name, command)]
    return "\n\n".join(blocks) + "\n"


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


def stages_index() -> str:
    """Every kind of the library in a line, by family."""
    blocks = ["# Stage library", NOTE, STAGES]
    for family, title in FAMILIES.items():
        kinds = [kind for kind in list_kinds() if kind.name.startswith(f"{family}/")]
        rows = ((f"[`{kind.name}`]({kind.name}.md)", kind.summary) for kind in kinds)
        blocks += [f"## {title}", _table(("kind", "what it does"), rows)]
    blocks.append("[What each kind was tried on](support.md), and with which versions of its tools.")
    return "\n\n".join(blocks) + "\n"


def stage_page(kind: Kind) -> str:
    """A kind with an example, its inputs, parameters and metrics."""
    example = (HERE / "examples" / f"{kind.name.replace('/', '-')}.yaml").read_text(encoding="utf-8")
    blocks = [f"# {kind.name}", NOTE, kind.doc.strip(), f"## Example\n\n```yaml\n# pipeline.yaml\n{example}```"]
    if kind.spec.inputs:
        rows = ((f"`{name}`", format_port(port), port.doc) for name, port in kind.spec.inputs.items())
        blocks += ["## Inputs", _table(("input", "type", "what it is for"), rows)]
    if kind.params:
        parameters = (
            (f"`{name}`", describe_type(param.type), format_default(param), param.doc)
            for name, param in flatten_params(kind.params)
        )
        blocks += ["## Parameters", _table(("parameter", "type", "default", "what it does"), parameters)]
    blocks += ["## Facts", "\n".join(f"- {name}: {text}" for name, text in list_facts(kind))]
    return "\n\n".join(blocks) + "\n"


def support_page() -> str:
    """Every kind in one table: what it declares, and what was found out (`kinds.toml`)."""
    notes = tomllib.loads((HERE / "kinds.toml").read_text(encoding="utf-8"))
    pinned = PINNED.findall((HERE.parent / "requirements.lock").read_text(encoding="utf-8"))
    versions = dict(reversed(pinned))  # of a tool with several, the first: the one of the oldest Python
    titles = ("kind", "tools", "reused on", "deterministic", "over 2 GB", "tried on", "checked by")
    rows = (_support(kind, notes.get(kind.name, {}), versions) for kind in list_kinds())
    return "\n\n".join(["# What each kind was tried on", NOTE, SUPPORT, _table(titles, rows)]) + "\n"


def _support(kind: Kind, notes: Mapping[str, str], versions: Mapping[str, str]) -> tuple[str, ...]:
    names = [tool.partition("|")[0] for tool in kind.spec.tools]
    tools = ", ".join(f"{name} {versions[name]}" if name in versions else name for name in names)
    measured = kind.spec.stage_class == "measurement"
    repeatable = "yes" if kind.spec.deterministic else "no: the first result is kept"
    columns = (notes.get(column, "") for column in COLUMNS)
    return (
        f"[`{kind.name}`]({kind.name}.md)",
        tools,
        BOUND[kind.spec.stage_class],
        "a measurement" if measured else repeatable,
        *columns,
    )


def events_page() -> str:
    """Every event of the log with its fields."""
    rows = [(f"[`{name_kind(kind)}`](#{name_kind(kind)})", _first(kind)) for kind in KINDS]
    blocks = ["# The event log", NOTE, EVENTS, _table(("event", "when"), rows)]
    blocks += [block for kind in KINDS for block in _fields(name_kind(kind), kind)]
    blocks += [block for cls in list_records() for block in _fields(cls.__name__, cls)]
    return "\n\n".join(blocks) + "\n"


def llms_txt() -> str:
    """Every page of the site in a line, by section of its navigation (https://llmstxt.org)."""
    site = tomllib.loads((HERE.parent / "zensical.toml").read_text(encoding="utf-8"))["project"]
    sections: dict[str, list[str]] = {}
    for titles, page in _nav(site["nav"], ()):
        sections.setdefault(": ".join(titles[:-1]) or "Start", []).append(f"- [{titles[-1]}]({page}){_note(page)}")
    blocks = [f"# {site['site_name']}", f"> {site['site_description']}", LLMS]
    return "\n\n".join([*blocks, *(f"## {name}\n\n" + "\n".join(lines) for name, lines in sections.items())]) + "\n"


def _nav(entries: Iterable[Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the titles above each page of the navigation with its own, and its path."""
    for entry in entries:
        if isinstance(entry, str):
            yield (*above, _text(entry).partition("\n")[0].removeprefix("# ")), entry
            continue
        ((title, below),) = entry.items()
        if isinstance(below, str):
            yield (*above, title), below
        else:
            yield from _nav(below, (*above, title))


def _note(page: str) -> str:
    """Return what a page is about: the summary of a kind, else its headings."""
    kind = next((kind for kind in list_kinds() if page == f"reference/stages/{kind.name}.md"), None)
    note = kind.summary if kind else "; ".join(heading.replace("`", "") for heading in HEADING.findall(_text(page)))
    return f": {note}" if note else ""


def _text(page: str) -> str:
    return (HERE / page).read_text(encoding="utf-8")


def _first(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _fields(title: str, cls: type) -> Iterator[str]:
    yield f"## {title}"
    yield _first(cls)
    rows = [
        (f"`{field.name}`", field.type_text, "yes" if field.optional else "", field.doc) for field in list_fields(cls)
    ]
    yield _table(("field", "type", "may be left out", "what it is"), rows)


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def pages() -> dict[str, str]:
    """Every file that is written from the code and from other pages, which must be current: its text by its path."""
    stages = {f"reference/stages/{kind.name}.md": stage_page(kind) for kind in list_kinds()}
    return {
        "reference/commands.md": commands_page(),
        "reference/events.md": events_page(),
        "reference/stages/index.md": stages_index(),
        "reference/stages/support.md": support_page(),
        **stages,
        "llms.txt": llms_txt(),
    }


if __name__ == "__main__":
    for page, text in pages().items():
        (HERE / page).parent.mkdir(parents=True, exist_ok=True)
        (HERE / page).write_text(text, encoding="utf-8")
