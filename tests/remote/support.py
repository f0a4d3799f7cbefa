"""Machines that share a remote, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from obstore import delete, get, put
from obstore import list as list_objects
from obstore.store import ObjectStore, from_url

from orun.core.events import Notice
from tests.project import Project

PIPELINE = """
name: text
stages:
  make: {uses: ./stages.py:make, with: {text: a b}}
  upper: {uses: ./stages.py:upper, needs: make}
"""
MEASURED = """
from orun import stage


@stage(inputs={"text": "files"}, output="files", stage_class="measurement")
def measured(context):
    (context.output / "text").write_text("1 ms")


@stage(inputs={"text": "files"}, output="files", stage_class="device")
def engine(context):
    (context.output / "text").write_text("for this processor")


@stage(inputs={"text": "files"}, output="metrics", metrics=["words"])
def words(context):
    return {"words": len((context.inputs["text"] / "text").read_text().split())}
"""


def machine(folder: Path, name: str, pipeline: str = PIPELINE) -> Project:
    """The project on a machine of its own: another folder, another store."""
    project = Project.make(folder / name / "project", pipeline)
    project.write("measured.py", MEASURED)
    return project


def notices(project: Project) -> list[str]:
    """What the last run said besides its results, but for its traffic."""
    texts = [event.text for event in project.events if isinstance(event, Notice)]
    return [text for text in texts if not text.startswith(("remote ", "pushing "))]


def traffic(project: Project) -> str:
    """What the last run said of its traffic, without sizes and the remote's URL."""
    texts = [event.text for event in project.events if isinstance(event, Notice) and event.text.startswith("remote ")]
    parts = texts[0].rpartition(": ")[2].split(", ") if texts else []
    return ", ".join(word.partition(" (")[0] for word in parts)


def open_remote(url: str) -> ObjectStore:
    """The place itself, as anybody with its credentials can reach it."""
    return from_url(url, mkdir=True) if url.startswith("file") else from_url(url, client_options={"allow_http": True})


def contents(url: str) -> Mapping[str, bytes]:
    """Everything in a remote, by name."""
    store = open_remote(url)
    names = sorted(meta["path"] for page in list_objects(store) for meta in page)
    return {name: bytes(get(store, name).bytes()) for name in names}


def write(url: str, name: str, data: bytes) -> None:
    """Overwrite something in a remote behind orun's back."""
    put(open_remote(url), name, data)


def remove(url: str, name: str) -> None:
    """Delete something in a remote behind orun's back."""
    delete(open_remote(url), name)


def named(url: str, start: str) -> list[str]:
    """Names in a remote that begin so."""
    return [name for name in contents(url) if name.startswith(start)]


def holding(url: str, data: bytes) -> str:
    """The name of the object with that content."""
    return next(name for name, content in contents(url).items() if content == data)
