"""The MCP server, in a process of its own, driven by the client of the official package."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from tests.project import install_hint

from .conftest import PIPELINE, CommandLine

BROKEN = """\
stages:
  write: {uses: ./words.py:write, with: {txt: one two}}
"""
TOOLS = ["list_pipelines", "list_stages", "validate", "plan", "explain", "history", "diff", "blame", "run"]


@asynccontextmanager
async def server(folder: Path, *options: str) -> AsyncIterator[ClientSession]:
    # the client passes a server a few variables only, without the PYTHONPATH that tests may be run with
    environment = dict(os.environ)
    arguments = ["-m", "orun", "mcp", *options]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=folder, env=environment)
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, /, **arguments: Any) -> Any:
    """What a tool returns; the client has checked it by the tool's output schema."""
    answer = await session.call_tool(tool, arguments)
    assert not error_of(answer)
    return answer.structured_content


async def refusal(session: ClientSession, tool: str, /, **arguments: Any) -> str:
    return error_of(await session.call_tool(tool, arguments)).removeprefix(f"Error executing tool {tool}: ")


def error_of(answer: object) -> str:
    assert isinstance(answer, CallToolResult)
    (content,) = answer.content
    assert isinstance(content, TextContent)
    return content.text if answer.is_error else ""


def test_a_server_that_may_not_run_lists_files_and_refuses_to_run(project: Path) -> None:
    Path("away.yaml").symlink_to("nowhere.yaml")
    Path("loop.yaml").symlink_to("loop.yaml")
    os.mkfifo("pipe.yaml")
    Path("broken.yaml").write_text(BROKEN)
    Path("cut.yaml").write_bytes(b"stages: {write: {uses: ")
    Path("wide.yaml").write_bytes(PIPELINE.encode("utf-16"))
    Path("marked.yaml").write_bytes(PIPELINE.encode("utf-8-sig"))
    Path("latin.yaml").write_bytes(b"stages:\n  caf\xe9: {uses: ./words.py:write}\n")
    Path("huge.yaml").write_bytes(b"#" * (4 << 20) + b"\nstages: {}\n")
    Path("model.yaml").write_bytes(b"metadata: {}\n")
    Path(os.fsdecode(b"caf\xe9.yml")).write_bytes(b"stages: {}\n")
    anyio.run(read_only, project)
    assert not (project / "artifacts").exists()


async def read_only(folder: Path) -> None:
    async with server(folder) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS
        assert all(tool.output_schema for tool in tools)
        assert [tool.input_schema["additionalProperties"] for tool in tools] == len(TOOLS) * [False]
        assert list(tools[-1].input_schema["properties"]) == ["file", "set", "only", "from", "to", "fresh"]
        assert [tool.name for tool in tools if not (tool.annotations and tool.annotations.read_only_hint)] == ["run"]
        *bad, good = sorted(
            (await call(session, "list_pipelines"))["pipelines"], key=lambda pipeline: pipeline["file"] == "words.yaml"
        )
        assert good == {"file": "words.yaml", "pipeline": "words", "stages": 2, "problems": 0, "error": ""}
        assert {pipeline["file"]: (pipeline["problems"], pipeline["error"]) for pipeline in bad} == {
            "away.yaml": (1, "cannot be read: No such file or directory"),
            "broken.yaml": (1, "broken.yaml:2:42: 'txt' is not a parameter of ./words.py:write"),
            "caf\\xe9.yml": (1, "caf\\xe9.yml:1:1: 'stages' cannot be an empty mapping"),
            "cut.yaml": (1, "cut.yaml:1:22: a value is missing here"),
            "huge.yaml": (1, "cannot be read: File too large: more than 4 MiB"),
            "latin.yaml": (1, "latin.yaml:2:6: the file is not UTF-8: byte 0xe9"),
            "loop.yaml": (1, "cannot be read: Too many levels of symbolic links"),
            "marked.yaml": (0, ""),
            "pipe.yaml": (1, "cannot be read: Not a regular file"),
            "wide.yaml": (1, "wide.yaml:1:1: the file is UTF-16"),
        }
        assert await refusal(session, "run", file="words.yaml") == (
            "this server runs no pipelines\n"
            "  it was started without --allow-run\n"
            "  hint: ask the user to run `orun words.yaml`, or to start the server by: orun mcp --allow-run"
        )


@pytest.mark.slow
def test_an_assistant_reads_runs_and_compares(project: Path) -> None:
    (project / "broken.yaml").write_text(BROKEN)
    anyio.run(read_and_run, project)


async def read_and_run(folder: Path) -> None:
    async with server(folder.parent, "--root", str(folder), "--allow-run") as session:
        await require_answers_about_files(session, folder)
        assert not (folder / "artifacts").exists()
        await require_answers_about_runs(session)


async def require_answers_about_files(session: ClientSession, folder: Path) -> None:
    assert (await call(session, "list_stages", file="words.yaml"))["stages"][1] == {
        "stage": "count",
        "uses": "./words.py:count",
        "location": "words.yaml:3:3",
        "needs": {"text": "write"},
        "after": [],
        "gates": ["words min 3"],
    }
    assert await call(session, "validate", file="broken.yaml") == {
        "valid": False,
        "problems": [
            {
                "location": "broken.yaml:2:42",
                "message": "'txt' is not a parameter of ./words.py:write",
                "expected": "text",
                "suggestion": "text",
                "hint": "",
            }
        ],
        "notes": [],
    }
    assert await refusal(session, "plan", file="broken.yaml") == (
        "broken.yaml:2:42: error: 'txt' is not a parameter of ./words.py:write\n"
        "    2 |   write: {uses: ./words.py:write, with: {txt: one two}}\n"
        "      |                                          ^^^\n"
        "  did you mean: text\n"
        "  expected: text"
    )
    plan = await call(session, "plan", file="words.yaml", set={"stages.write.with.text": "four"}, to=["write"])
    assert plan == {
        "pipeline": "words",
        "steps": [
            {
                "stage": "write",
                "uses": "./words.py:write",
                "action": "run",
                "reasons": ["never run before"],
                "seconds": None,
            }
        ],
        "refused": [],
    }
    onward = await call(session, "plan", file="words.yaml", **{"from": ["count"]})
    assert [step["stage"] for step in onward["steps"]] == ["count"]
    for tool, unknown in (("plan", "sett"), ("run", "from_")):
        assert (await refusal(session, tool, file="words.yaml", **{unknown: {}})).startswith(
            f"1 validation error for {tool}Arguments\n{unknown}\n  Extra inputs are not permitted "
        )
    explained = await call(session, "explain", file="words.yaml", stage="write")
    assert (explained["action"], explained["changed"]) == ("run", [])
    assert explained["parts"]["parameter text"] == '"one two three"'
    assert await refusal(session, "validate", file="../words.yaml") == (
        "../words.yaml is outside of the server's folder\n"
        f"  the tools use files below {folder}\n"
        "  hint: list_pipelines names them; another folder: orun mcp --root DIR"
    )
    assert await refusal(session, "explain", file="words.yaml", stage="--store=/tmp") == (
        "there is no stage '--store=/tmp' in words.yaml\n  expected write or count\n  hint: orun graph words.yaml"
    )


async def require_answers_about_runs(session: ClientSession) -> None:
    first = await call(session, "run", file="words.yaml")
    assert (first["outcome"], first["exit_code"]) == ("passed", 0)
    assert [(stage["stage"], stage["outcome"]) for stage in first["stages"]] == [
        ("write", "built"),
        ("count", "built"),
    ]
    assert first["stages"][1]["metrics"]["words"] == {
        "value": 3,
        "unit": "",
        "better": "higher",
        "interval": None,
    }
    assert first["verdicts"][0]["why"] == "words is 3, at or above the minimum of 3"
    second = await call(session, "run", file="words.yaml", set={"stages.write.with.text": "four"})
    assert (second["outcome"], second["exit_code"]) == ("failed", 1)
    assert await refusal(session, "history", last=0) == (
        "last is 0\n  at least one measurement of each series is returned"
    )
    (series,) = (await call(session, "history", metric="words"))["series"]
    assert [(point["run"], point["value"]) for point in series["points"]] == [(first["run"], 3), (second["run"], 1)]
    difference = await call(session, "diff")
    assert difference["gates"] == [{"name": "count words min", "old": "3: passed", "new": "3: failed"}]
    blame = await call(session, "blame")
    assert (blame["failed"], blame["next_command"]) == (
        ["count words min 3"],
        "orun blame words.yaml --set stages.write.with.text=four",
    )


def test_a_package_and_a_folder_that_are_not_there(orun: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = orun("mcp", "--root", "nowhere")
    assert (shown.code, shown.err) == (
        2,
        "error: there is no folder nowhere\n  hint: name another: orun mcp --root DIR\n",
    )
    monkeypatch.setattr("orun.cli.mcp.find_spec", lambda _: None)
    shown = orun("mcp")
    assert (shown.code, shown.err) == (
        2,
        f"error: orun mcp needs mcp, which is not installed\n  hint: {install_hint('mcp')}\n",
    )
