"""A database is its file and what SQLite writes beside it: what was written there last is in no other place yet."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.facts import describe_reasons
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  count: {uses: ./count.py:count}
"""
CODE = """
import sqlite3
from contextlib import closing

from orun import stage


@stage(inputs={}, output="files")
def count(context):
    with closing(sqlite3.connect(CONNECT)) as database:
        (found,) = database.execute("SELECT count(*) FROM seen").fetchone()
    (context.output / "text").write_text(str(found))
"""


WRITER = """
import sqlite3
import sys

database = sqlite3.connect(sys.argv[1])
for line in sys.stdin:
    database.execute(line)
    database.commit()
    print(flush=True)
"""


@contextmanager
def writer(file: Path) -> Iterator[Callable[[str], None]]:
    """A process that has the database open, and what has it commit a statement."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def commit(statement: str) -> None:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{statement}\n")
            process.stdin.flush()
            assert process.stdout.readline()

        yield commit


@pytest.mark.usefixtures("native_reads")
@pytest.mark.parametrize(
    ("connect", "how"),
    [
        ("context.root / 'data.db'", "has appeared"),
        ("f'file:{context.root}/data.db?mode=ro', uri=True", "changed"),  # who only reads leaves an empty log there
    ],
)
def test_what_is_in_its_log_alone(tmp_path: Path, connect: str, how: str) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("count.py", CODE.replace("CONNECT", connect))
    file = project.folder / "data.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE seen (name TEXT)")
    before = file.read_bytes()
    assert built(project.run()) == ["count"]
    assert built(project.run()) == []
    with writer(file) as commit:
        commit("INSERT INTO seen VALUES ('one')")
        result = project.run()
        assert built(result) == ["count"]
        assert project.text("count") == "1"
        assert describe_reasons(result["count"].reasons) == (f"data.db-wal {how} (looked for by the stage)",)
        assert result["count"].wrote == ()
        assert built(project.run()) == []
        commit("INSERT INTO seen VALUES ('two')")
        result = project.run()
        assert describe_reasons(result["count"].reasons) == ("data.db-wal changed (read by the stage)",)
        assert project.text("count") == "2"
        assert file.read_bytes() == before
