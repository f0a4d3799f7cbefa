"""A project of the user's in a temporary folder, and jobs for the functions in it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from orun.core.targets import Target
from orun.errors import StageError
from orun.executors import Executor, Finished, Job, JobResult, Progress
from orun.executors.local.preload import FORKS
from orun.stages.contract import Spec

forked = pytest.mark.skipif(not FORKS, reason="stages are not forked here")
PATIENCE = 60.0  # seconds after which a test that waits has failed


@dataclass(frozen=True)
class Project:
    """A pipeline's folder inside a project, and a folder for what stages work in.

    Attributes:
        folder: the top of the project.
        work: outside of the project.
    """

    folder: Path
    work: Path
    _names: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def root(self) -> Path:
        """The pipeline's folder."""
        return self.folder / "pipelines"

    def write(self, name: str, text: str) -> Path:
        """A file below the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def job(  # noqa: PLR0913 - the fields of a Job
        self,
        entry: str,
        *,
        params: Mapping[str, Any] | None = None,
        origin: Literal["built-in", "plug-in", "file"] = "file",
        spec: Spec | None = None,
        stage: str = "",
        inputs: Mapping[str, str] | None = None,
        target: Target | None = None,
        seed: int = 0,
        timeout: float | None = PATIENCE,
        memory: int | None = None,
        provenance: str | None = None,
    ) -> Job:
        """A job for `file.py:function` below the pipeline's folder; each call makes new folders."""
        work = self.work / str(next(self._names))
        for name in ("output", "work"):
            (work / name).mkdir(parents=True)
        return Job(
            stage=stage or entry.rpartition(":")[2].rpartition(".")[2],
            key="",
            origin=origin,
            entry=entry,
            spec=spec or Spec(output="metrics"),
            params=params or {},
            inputs=inputs or {},
            output=str(work / "output"),
            work=str(work / "work"),
            log=str(work / "log.txt"),
            file=str(self.root / "release.yaml"),
            root=str(self.root),
            project=str(self.folder),
            ignore=(str(self.work),),
            target=target,
            seed=seed,
            timeout=timeout,
            memory=memory,
            provenance=provenance,
        )


def outcome(executor: Executor, job: Job) -> JobResult | StageError:
    """What becomes of a job."""
    executor.start(job)
    return outcomes(executor, 1)[job.stage]


def outcomes(executor: Executor, count: int) -> dict[str, JobResult | StageError]:
    """What becomes of so many jobs that have been started."""
    results: dict[str, JobResult | StageError] = {}
    while len(results) < count:
        events = executor.wait(PATIENCE)
        assert events, "nothing happened for a long time"
        results |= {event.stage: event.result for event in events if isinstance(event, Finished)}
    return results


def result(executor: Executor, job: Job) -> JobResult:
    """The result of a job that ends well."""
    job_result = outcome(executor, job)
    assert isinstance(job_result, JobResult), f"{job_result}\n{Path(job.log).read_text()}"
    return job_result


def failure(executor: Executor, job: Job) -> StageError:
    """The error of a job that does not."""
    error = outcome(executor, job)
    assert isinstance(error, StageError), error
    return error


def until_progress(executor: Executor, count: int = 1) -> list[Progress]:
    """Wait until running jobs have shown so much progress."""
    seen: list[Progress] = []
    while len(seen) < count:
        events = executor.wait(PATIENCE)
        finished = [event for event in events if isinstance(event, Finished)]
        assert events, "nothing happened for a long time"
        assert not finished, finished
        seen += [event for event in events if isinstance(event, Progress)]
    return seen


def log_of(job: Job) -> str:
    """What a job printed."""
    return Path(job.log).read_text()
