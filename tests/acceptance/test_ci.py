"""Workflows of the docs and of `orun init`, the action and the component: their steps, run as CI systems run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from orun.scaffold.ci import System, format_workflow
from tests.acceptance.support import ROOT

CODE = '''\
from orun import Metric, stage


@stage(inputs={}, output="files", metrics=["length"])
def write(context, *, text: str = "one two three"):
    """Write a text."""
    (context.output / "text.txt").write_text(text)
    return {"length": Metric(len(text), better="lower")}
'''
PIPELINE = """\
name: words
stages:
  write:
    uses: ./words.py:write
    with: {text: one two three}
    gate:
      length: {max: 20}
"""


HERE = Path(sys.executable).parent  # programs of the environment that runs the tests


@pytest.fixture(scope="module", params=[pytest.param("new", marks=pytest.mark.slow), "this"])
def scripts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of a new Python environment, or of the one that runs the tests, in which nothing is installed."""
    if request.param == "this":
        return HERE
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=True)
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path, scripts: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/words.py").write_text(CODE)
    (tmp_path / "pipelines/release.yaml").write_text(PIPELINE)
    if scripts != HERE:
        wheel: Path = request.getfixturevalue("wheel")
        (tmp_path / "requirements.txt").write_text(f"orun @ {wheel.as_uri()}\n")
    return tmp_path


def docs_job(system: System) -> dict[str, Any]:
    """The workflow that the documentation has, to copy."""
    loaded = yaml.safe_load((ROOT / f"docs/ci/{system}.yml").read_text())
    job: dict[str, Any] = loaded["jobs"]["orun"] if system == "github" else loaded["release-gate"]
    return job


def written_job(system: System) -> dict[str, Any]:
    """The workflow that `orun init --ci` writes."""
    loaded = yaml.safe_load(format_workflow(system, ROOT / "pipelines/release.yaml", "release"))
    job: dict[str, Any] = loaded["jobs"]["orun"] if system == "github" else loaded["release"]
    return job


def own_job(system: System) -> dict[str, Any]:
    """The action, or the component, with the file as its only input."""
    if system == "github":
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        return {"env": {}, **filled(action["runs"], action["inputs"], r"\$\{\{ inputs\.([\w-]+) \}\}")}
    header, jobs = yaml.safe_load_all((ROOT / "templates/orun/template.yml").read_text())
    (job,) = filled(jobs, header["spec"]["inputs"], r"\$\[\[ inputs\.([\w-]+) \]\]").values()
    return dict(job)


def filled(document: Any, inputs: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    """A document with its inputs in their places."""
    values = {name: (declared or {}).get("default", "pipelines/release.yaml") for name, declared in inputs.items()}
    text = re.sub(pattern, lambda match: json.dumps(values[match[1]])[1:-1], json.dumps(document))
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_job_of_the_docs_is_what_init_writes(system: System) -> None:
    written = yaml.safe_load(format_workflow(system, ROOT / "pipelines/release.yaml", "release-gate"))
    assert docs_job(system) == (written["jobs"]["orun"] if system == "github" else written["release-gate"])


# That of the docs is the one that `orun init --ci` writes.
JOBS = pytest.mark.parametrize("job_of", [written_job, own_job])


def step(script: str, project: Path, scripts: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step as the runners do: bash, ended by the first command that fails."""
    assert scripts != HERE or not is_install(script)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ORUN_", "PYTHONPATH"))}
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=project,
        env={**inherited, "PATH": path, "CI": "true", "PIP_NO_COMPILE": "1", **environ},  # little of it is imported
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def make_worse(project: Path) -> None:
    file = project / "pipelines/release.yaml"
    file.write_text(file.read_text().replace("one two three", "one two three four five"))


def is_install(script: str) -> bool:
    return script.startswith("python -m pip install")


def github(job: Mapping[str, Any], project: Path, scripts: Path) -> Sequence[subprocess.CompletedProcess[str]]:
    """Run the job's scripts as far as GitHub would, each of its own process."""
    (project / "summary.md").touch()
    environ = {
        **job["env"],
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(project),
        "GITHUB_STEP_SUMMARY": str(project / "summary.md"),
    }
    processes: list[subprocess.CompletedProcess[str]] = []
    for job_step in job["steps"]:
        failed = any(ended.returncode for ended in processes)
        skipped = scripts == HERE and is_install(job_step.get("run", ""))
        if "run" in job_step and not skipped and (not failed or job_step.get("if") == "always()"):
            processes.append(step(job_step["run"], project, scripts, {**environ, **job_step.get("env", {})}))
    return processes


@pytest.mark.slow
@JOBS
def test_github(project: Path, scripts: Path, job_of: Callable[[System], dict[str, Any]]) -> None:
    job = job_of("github")
    first = github(job, project, scripts)
    assert [ended.returncode for ended in first] == [0] * len(first), first
    assert is_install(first[0].args[-1]) == (scripts != HERE)
    assert "::" not in first[-2].stdout
    make_worse(project)
    second = github(job, project, scripts)
    assert [ended.returncode for ended in second[-2:]] == [1, 0]
    (annotation,) = [line for line in second[-2].stdout.splitlines() if line.startswith("::")]
    assert annotation == (
        "::error file=pipelines/release.yaml,line=7,col=16,title=gate failed%3A write length max 20::"
        "length is 23, above the maximum of 20%0Ahint: to judge it on your machine: orun "
        "pipelines/release.yaml --to write"
    )
    summary = (project / "summary.md").read_text()
    assert "### Trend on this machine" in summary
    assert "| write.length | 2x | ▁█ | 23 | 13 -\\> 23 (+76.9 %) on " in summary
    upload = job["steps"][-1]["with"]["path"]
    assert sorted(path.name for path in (project / upload).iterdir()) == [
        "code-quality.json",
        "junit.xml",
        "metrics.txt",
        "report.html",
        "run.json",
        "summary.md",
    ]
    require_saved_store(job, project)


def require_saved_store(job: Mapping[str, Any], project: Path) -> None:
    """The store is restored, and saved after it was cleaned up, whatever has failed."""
    steps: dict[str, dict[str, Any]] = {
        step.get("uses", "").partition("@")[0] or step["run"]: step for step in job["steps"]
    }
    restore, save = steps["actions/cache/restore"]["with"], steps["actions/cache/save"]
    assert save == {"uses": "actions/cache/save@v4", "if": "always()", "with": {k: restore[k] for k in ("path", "key")}}
    assert [name.split()[:3] for name in steps][-3:-1] == [["orun", "store", "gc"], ["actions/cache/save"]]
    assert (project / restore["path"] / "VERSION").is_file()


@pytest.mark.slow  # its reports are quick, in tests/report/test_gitlab.py
@JOBS
def test_gitlab(project: Path, scripts: Path, job_of: Callable[[System], dict[str, Any]]) -> None:
    job = job_of("gitlab")
    install, run = ("\n".join(job[name]) for name in ("before_script", "script"))
    first = run if scripts == HERE else f"{install}\n{run}"
    assert step(first, project, scripts, job["variables"]).returncode == 0
    make_worse(project)
    assert step(run, project, scripts, job["variables"]).returncode == 1
    assert step("\n".join(job["after_script"]), project, scripts, job["variables"]).returncode == 0
    assert job["cache"]["when"] == "always"
    assert (project / job["cache"]["paths"][0] / "VERSION").is_file()
    reports = {name: (project / path).read_text() for name, path in job["artifacts"]["reports"].items()}
    cases = ET.fromstring(reports["junit"]).iter("testcase")  # noqa: S314 -- our own document
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["write length max 20"]
    (issue,) = json.loads(reports["codequality"])
    assert issue.pop("fingerprint")
    assert issue == {
        "description": "gate failed: write length max 20: length is 23, above the maximum of 20",
        "check_name": "orun/gate",
        "severity": "critical",
        "location": {"path": "pipelines/release.yaml", "lines": {"begin": 7}},
    }
    assert reports["metrics"] == (
        '# TYPE orun_metric gauge\norun_metric{pipeline="words",stage="write",metric="length"} 23.0\n# EOF\n'
    )
