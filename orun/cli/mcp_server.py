"""MCP server of `orun mcp`: each tool is a verb, called with `--json` in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field, create_model

import orun
from orun import __version__
from orun.cli import mcp_results as results
from orun.cli import options
from orun.cli.mcp_files import iter_pipeline_files
from orun.cli.mcp_verbs import format_overrides, format_selection, locate_problems, run_verb
from orun.cli.run_ids import read_run
from orun.core.open_gates import list_failed_gates
from orun.core.serialization import decode, parse_foreign_json, replace
from orun.core.source_location import Problem
from orun.errors import OrunError, PipelineError, UsageError
from orun.fs.os_errors import quote
from orun.history.run_diff import RunDifference
from orun.pipeline.model import iter_gates
from orun.pipeline.problems import render
from orun.report.run_options import format_run_options
from orun.text.positions import format_position
from orun.text.suggestions import show_path

P = ParamSpec("P")
T = TypeVar("T")
From = Annotated[list[str] | None, Field(validation_alias="from")]  # no parameter of Python has that name

INSTRUCTIONS = """\
orun builds model releases from pipeline files (YAML). Stages convert, optimize, quantize, measure and bundle models.
Gates judge what was measured. Start with list_pipelines. After an edit call validate, then plan. Name files relative to
the server's folder. `set` replaces values of the file in one call: {"stages.int8.with.per_channel": false}."""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)


def serve(root: Path, *, allow_run: bool) -> None:
    """Serve the tools over standard input and output until the client closes them."""
    tools = Tools(root.resolve(), allow_run=allow_run)
    os.chdir(tools.root)
    functions = (
        tools.list_pipelines,
        tools.list_stages,
        tools.validate,
        tools.plan,
        tools.explain,
        tools.history,
        tools.diff,
        tools.blame,
        tools.run,
    )
    listed = [
        make_tool(tools.convert_errors(function), RUNS if function == tools.run else READS) for function in functions
    ]
    MCPServer("orun", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING", tools=listed).run()


def make_tool(function: Callable[..., Any], annotations: ToolAnnotations) -> Tool:
    """Return a tool that refuses arguments that it does not have: the SDK's own tools ignore them."""
    tool = Tool.from_function(function, annotations=annotations, structured_output=True)
    base = tool.fn_metadata.arg_model
    closed = create_model(base.__name__, __base__=base, __cls_kwargs__={"extra": "forbid"})
    tool.fn_metadata.arg_model = closed
    tool.parameters = closed.model_json_schema()
    return tool


class Tools:
    """Tools of the server. The working folder must be `root`."""

    def __init__(self, root: Path, *, allow_run: bool) -> None:
        self.root = root
        self.allow_run = allow_run

    async def list_pipelines(self) -> results.PipelineFiles:
        """List the pipeline files of the folder, with the number of problems in each, and the first of them."""
        return results.PipelineFiles(tuple(iter_pipeline_files(self.root)))

    async def list_stages(self, file: str, set: dict[str, Any] | None = None) -> results.Stages:  # noqa: A002 - `--set`
        """List the stages of a pipeline file: kind, inputs, gates, and the line of each.

        Args:
            file: the pipeline file.
            set: values that replace those of the file, by dotted path.
        """
        pipeline = orun.load(self._require_inside(file), set)
        return results.Stages(
            pipeline.name,
            tuple(
                results.Stage(
                    stage.id,
                    stage.uses,
                    format_position(stage.position),
                    dict(stage.needs),
                    stage.after,
                    tuple(
                        f"{gate.metric} {gate.rule} {gate.threshold.text}{gate.scope}"
                        for gate in iter_gates(stage.gates)
                    ),
                )
                for stage in pipeline.stages
            ),
        )

    async def validate(self, file: str, set: dict[str, Any] | None = None) -> results.Validation:  # noqa: A002 - `--set`
        """Check a pipeline file and return every mistake with its place, what was expected and a suggestion.

        Args:
            file: the pipeline file.
            set: values that replace those of the file, by dotted path.
        """
        document = await run_verb("validate", format_overrides(set), [self._require_inside(file)])
        return decode(results.Validation, document | {"problems": locate_problems(document["problems"])})

    async def plan(
        self,
        file: str,
        set: dict[str, Any] | None = None,  # noqa: A002 - the word of `--set`
        only: list[str] | None = None,
        from_: From = None,
        to: list[str] | None = None,
        fresh: bool = False,
    ) -> results.Plan:
        """Show which stages a run would bring up to date, and why; runs nothing.

        Args:
            file: the pipeline file.
            set: values that replace those of the file, by dotted path.
            only: these stages alone.
            from_: these stages and all after them; the argument is named `from`.
            to: these stages and all that they need.
            fresh: whether to measure again what is bound to this machine.
        """
        selection = format_selection(only, from_, to, fresh=fresh)
        document = await run_verb("plan", [*format_overrides(set), *selection], [self._require_inside(file)])
        return decode(results.Plan, document | {"refused": locate_problems(document["refused"])})

    async def explain(
        self,
        file: str,
        stage: str,
        set: dict[str, Any] | None = None,  # noqa: A002 - the word of `--set`
    ) -> results.Explanation:
        """Show why a stage would run or not: the parts of its cache key, and what changed since its last run.

        Args:
            file: the pipeline file.
            stage: the stage's id.
            set: values that replace those of the file, by dotted path.
        """
        document = await run_verb("explain", format_overrides(set), [self._require_inside(file), stage])
        old, new = document["previous"], document["parts"]
        pairs = {name: (old.get(name), new.get(name)) for name in [*new, *old] if old} | document["read"]
        changed = [{"name": name, "old": then, "new": now} for name, (then, now) in pairs.items() if then != now]
        return decode(results.Explanation, document | {"changed": changed})

    async def history(self, metric: str = "", pipeline: str = "", last: int = 20) -> results.MetricHistory:
        """Show how measurements went from run to run.

        Args:
            metric: `p50`, or `latency.p50` of one stage; every metric if empty.
            pipeline: name of a pipeline; every pipeline if empty.
            last: the number of measurements to return of each series.
        """
        if last < 1:
            raise UsageError(f"last is {last}", why="at least one measurement of each series is returned")
        document = await run_verb("history", [f"--pipeline={pipeline}"] if pipeline else [], [metric])
        shortened = [series | {"points": series["points"][-last:]} for series in document["series"]]
        return decode(results.MetricHistory, {"series": shortened})

    async def diff(self, old: str = "last~1", new: str = "last") -> RunDifference:
        """Show how two runs differ: configuration, what each stage depends on, metrics, gates.

        Args:
            old: the beginning of a run's id, `last`, or `last~1` for the one before.
            new: the same, of the other run.
        """
        document = await run_verb("diff", [], [self._require_inside(old), self._require_inside(new)])
        return decode(RunDifference, document)

    async def blame(self, run: str = "last") -> results.Blame:
        """Show what is behind the failed gates of a run, as far as orun searched for it after the run.

        Args:
            run: the beginning of a run's id, `last`, or `last~1` for the one before.
        """
        with options.open_store(None, read_only=True) as store:
            result = read_run(store, run)
            path = result.folder / "blame.json"
            diagnoses = parse_foreign_json(path.read_bytes())["blame"] if path.is_file() else []
        failed = [verdict.title for verdict in list_failed_gates(result.verdicts)]
        command = f"orun blame {quote(show_path(result.file))}{format_run_options(result)}" if failed else ""
        return decode(results.Blame, {"run": result.run, "failed": failed, "blame": diagnoses, "next_command": command})

    async def run(
        self,
        file: str,
        set: dict[str, Any] | None = None,  # noqa: A002 - the word of `--set`
        only: list[str] | None = None,
        from_: From = None,
        to: list[str] | None = None,
        fresh: bool = False,
    ) -> results.RunResult:
        """Bring the stages of a pipeline up to date and judge the gates. It runs the file's code and may take minutes.

        A failed stage or gate is a result, not an error: look at `exit_code`. After a failed gate orun searches for the
        cause, for a minute at most.

        Args:
            file: the pipeline file.
            set: values that replace those of the file, by dotted path.
            only: these stages alone; what they need must be up to date.
            from_: these stages and all after them; the argument is named `from`.
            to: these stages and all that they need.
            fresh: whether to measure again what is bound to this machine.
        """
        path = self._require_inside(file)
        if not self.allow_run:
            raise UsageError(
                "this server runs no pipelines",
                why="it was started without --allow-run",
                hint=f"ask the user to run `orun {quote(file)}`, or to start the server by: orun mcp --allow-run",
            )
        selection = format_selection(only, from_, to, fresh=fresh)
        return decode(results.RunResult, await run_verb("run", [*format_overrides(set), *selection], [path]))

    def convert_errors(self, tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Return a tool that turns orun's errors into errors of the protocol, in the words of the command line."""

        @wraps(tool)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await tool(*args, **kwargs)
            except PipelineError as error:
                raise ToolError(render([self._strip_source(problem) for problem in error.problems])) from error
            except OrunError as error:
                raise ToolError(str(error)) from error

        return call

    def _require_inside(self, name: str) -> str:
        """Return a path as it is, or a run's id; UsageError if it leads out of the server's folder."""
        if not Path(os.path.realpath(name)).is_relative_to(self.root):
            raise UsageError(
                f"{name} is outside of the server's folder",
                why=f"the tools use files below {self.root}",
                hint="list_pipelines names them; another folder: orun mcp --root DIR",
            )
        return name

    def _strip_source(self, problem: Problem) -> Problem:
        """Return a problem without its line of text if its file is outside of the server's folder."""
        outside = not Path(os.path.realpath(problem.position.file)).is_relative_to(self.root)
        return replace(problem, source="") if outside else problem
