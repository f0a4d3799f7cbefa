"""Agents of a cluster, and runs on them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.cluster import Cluster, wait_for_line
from tests.git import commit, git

CODE = """
import json
import os
import subprocess
import sys
from pathlib import Path

from orun import Context, stage


@stage(inputs={}, output="files")
def make(context: Context, *, text: str = "a b") -> None:
    print("made of", text)
    (context.output / "text").write_text(text)


@stage(inputs={"text": "files"}, output="files")
def upper(context: Context, *, seconds: float = 0.0) -> None:
    context.progress(1, 2, "words")
    subprocess.run(["sleep", str(seconds)], check=True)  # a process that the stage starts ends with it, too
    (context.output / "text").write_text((context.inputs["text"] / "text").read_text().upper())


@stage(inputs={"text": "files"}, output="metrics", metrics=["letters"])
def count(context: Context) -> dict[str, float]:
    return {"letters": float(len((context.inputs["text"] / "text").read_text()))}


@stage(inputs={}, output="files", stage_class="measurement")
def look(context: Context) -> None:
    seen = {
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "variables": [name for name in os.environ if name.startswith("RAY_")],
        "folders": [folder for folder in sys.path if "/ray/" in folder],
    }
    (context.output / "text").write_text(json.dumps(seen))
"""
PIPELINE = """
stages:
  make: {uses: "./code.py:make", runs_on: {role: builder}}
  upper: {uses: "./code.py:upper", needs: make, runs_on: {role: bench}}
  count: {uses: "./code.py:count", needs: upper, gate: {letters: {min: 2}}}
  strict: {uses: "./code.py:count", needs: make, gate: {letters: {min: 4}}}
"""
LOOK = """
stages:
  look: {uses: "./code.py:look"}
"""
SLOW = """
stages:
  make: {uses: "./code.py:make"}
  slow: {uses: "./code.py:upper", needs: make, with: {seconds: 15}}
"""


def make_project(folder: Path) -> Path:
    """Return the folder of a project in a repository of its own."""
    folder.mkdir(parents=True)
    for name, text in {"code.py": CODE, "two.yaml": PIPELINE, "slow.yaml": SLOW, "look.yaml": LOOK}.items():
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "-q")
    commit(folder, "first")
    return folder


@contextlib.contextmanager
def agent(cluster: Cluster, machine: str, role: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """An agent that has joined."""
    store = cluster.folder / machine / "store"
    process = cluster.start(
        machine, "-m", "orun", "agent", "--join", cluster.head, "--name", machine, "--label", f"role={role}",
        "--store", str(store), *options, ORUN_LOCKS=str(cluster.folder / machine),
    )  # fmt: skip
    try:
        wait_for_line(process, f"machine {machine} has joined {cluster.head}")
        yield process
    finally:
        cluster.end(process)


def start_run(cluster: Cluster, project: Path, file: str, *options: str) -> subprocess.Popen[str]:
    """Start a run on the machines of the cluster, with the head's machine as the driver's."""
    return cluster.start(
        "head", "-m", "orun", str(project / file), "--on", f"ray://{cluster.head}",
        "--remote", f"file://{project.parent}/remote", *options, ORUN_LOCKS=str(cluster.folder / "head"),
    )  # fmt: skip


def output_of(run: subprocess.Popen[str]) -> str:
    """Return what is left of a run's output, at its end."""
    output, _ = run.communicate(timeout=240)
    return output
