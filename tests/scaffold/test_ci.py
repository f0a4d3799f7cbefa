"""Workflows that `orun init --ci` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from orun.scaffold.ci import format_workflow, list_workflow_notes, locate_workflow


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository with requirements, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").touch()
    return tmp_path


@pytest.mark.usefixtures("project")
def test_pipelines_of_a_repository_have_caches_of_their_own() -> None:
    """They took each other's store. No name of a pipeline has a dot, so `clf.` is not the beginning of `clf-small.`."""
    steps = yaml.safe_load(format_workflow("github", Path("clf.yaml"), "clf"))["jobs"]["orun"]["steps"]
    restore, save = (step["with"] for step in steps if "key" in step.get("with", {}))
    key = "orun-clf.${{ github.ref_name }}-${{ github.run_id }}-${{ github.run_attempt }}"
    assert restore == {
        "path": ".orun", "key": key, "restore-keys": "orun-clf.${{ github.ref_name }}-\norun-clf.\n"
    }  # fmt: skip
    assert save == {"path": ".orun", "key": key}
    cache = yaml.safe_load(format_workflow("gitlab", Path("clf.yaml"), "clf"))["clf"]["cache"]
    assert (cache["key"], cache["fallback_keys"]) == (
        "orun-clf.$CI_COMMIT_REF_SLUG", ["orun-clf.$CI_DEFAULT_BRANCH"]
    )  # fmt: skip


def test_a_second_workflow_of_gitlab_must_be_included(project: Path) -> None:
    """Nothing told it, and GitLab never ran the job."""
    file = Path("net.yaml")
    first = locate_workflow("gitlab", file, "net")
    assert first == project / ".gitlab-ci.yml"
    assert list_workflow_notes(file, first) == []
    text = format_workflow("gitlab", file, "net")
    first.touch()
    second = locate_workflow("gitlab", file, "net")
    note = "GitLab runs it once .gitlab-ci.yml has: include: [{local: net.gitlab-ci.yml}]"
    assert second == project / "net.gitlab-ci.yml"
    assert list_workflow_notes(file, second) == [note]
    assert format_workflow("gitlab", file, "net") == f"# {note}\n{text}"


def test_a_workflow_without_requirements(project: Path) -> None:
    (project / "requirements.txt").unlink()
    assert list_workflow_notes(Path("net.yaml"), locate_workflow("github", Path("net.yaml"), "net")) == [
        (
            "it installs requirements.txt, which is not there yet: `orun[cpu] @ git+https://github.com/OWNER/orun`, "
            "or a wheel of it; and what `orun doctor net.yaml` lists"
        )
    ]
