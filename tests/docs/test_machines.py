"""The batch script and the manifest that start agents on a Slurm or Kubernetes cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "machines"
SCRIPT = EXAMPLES / "agents.sbatch"
KUBERNETES = "1.34"
ORUN = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps({"words": sys.argv[1:], "store": os.environ["ORUN_STORE"]}))
"""


def test_the_batch_script_has_no_mistake_of_syntax() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True, timeout=30)


def run_script(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the batch script with programs of the folder's `bin`."""
    programs = folder / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "orun").write_text(ORUN, encoding="utf-8")
    (programs / "hostname").write_text("#!/bin/sh\necho node7\n", encoding="utf-8")
    for program in programs.iterdir():
        program.chmod(0o755)
    (programs / "activate").write_text(f"PATH={programs}:$PATH\n", encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "42", "TMPDIR": str(folder), **variables}
    return subprocess.run(
        ["bash", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=60, cwd=folder
    )


def test_the_batch_script_starts_an_agent_with_a_store_on_the_node(tmp_path: Path) -> None:
    process = run_script(tmp_path, ORUN_HEAD="login1:6379", ORUN_VENV=str(tmp_path / "venv"), ORUN_ACCELERATOR="T4")
    assert process.stderr == ""
    assert json.loads(process.stdout) == {
        "words": [
            "agent", "--join", "login1:6379", "--name", "node7", "--grace", "50s", "--label", "accelerator=T4",
        ],
        "store": str(tmp_path / "orun-42"),
    }  # fmt: skip
    assert (tmp_path / "orun-42").is_dir()


def test_the_batch_script_asks_for_the_head(tmp_path: Path) -> None:
    process = run_script(tmp_path, ORUN_VENV=str(tmp_path / "venv"))
    assert process.returncode == 1
    assert "ORUN_HEAD: is HOST:PORT of orun head" in process.stderr


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "document", documents(), ids=lambda document: f"{document['kind']}-{document['metadata']['name']}"
)
def test_the_manifest_is_what_kubernetes_takes(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_agents_of_the_manifest_join_its_head() -> None:
    service, head, agent = documents()
    port = service["spec"]["ports"][0]["port"]
    assert service["spec"]["selector"] == head["spec"]["template"]["metadata"]["labels"]
    head_container, agent_container = (
        document["spec"]["template"]["spec"]["containers"][0] for document in (head, agent)
    )
    assert head_container["command"] == ["orun", "head", "--port", str(port)]
    assert agent_container["command"][:4] == ["orun", "agent", "--join", f"{service['metadata']['name']}:{port}"]
    for container in (head_container, agent_container):
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert {"RAY_AUTH_TOKEN"} <= {variable["name"] for variable in container["env"]}
