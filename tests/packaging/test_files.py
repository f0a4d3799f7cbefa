"""Files that other tools read: GitHub, GitLab, pre-commit, the schema store, builders of containers."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from orun.cli.main import main

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"^\s*(?:- |run: |- ?entry: |entry: )?(orun (?:run|store|validate).*)$", re.MULTILINE)
INSTRUCTIONS = {"CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda file: file.stem)
def test_every_form_has_what_github_requires(file: Path) -> None:
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    if file.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"]
    assert form["description"]
    assert all(field["type"] == "textarea" and field["attributes"]["label"] for field in form["body"])
    assert len({field["id"] for field in form["body"]}) == len(form["body"])


def test_the_action_uses_each_of_its_inputs() -> None:
    text = read("action.yml")
    action = yaml.safe_load(text)
    assert action["runs"]["using"] == "composite"
    assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", text)) == set(action["inputs"])
    for step in action["runs"]["steps"]:
        assert ("run" in step) == ("shell" in step)
        assert "${{" not in step.get("run", ""), "an input in a script is run as code"


def test_the_component_uses_each_of_its_inputs() -> None:
    text = read("templates/orun/template.yml")
    header, jobs = yaml.safe_load_all(text)
    assert set(re.findall(r"\$\[\[ inputs\.([\w-]+) \]\]", text)) == set(header["spec"]["inputs"])
    (job,) = jobs.values()
    assert job["artifacts"]["paths"] == ["orun-reports"]


@pytest.mark.parametrize("name", ["action.yml", "templates/orun/template.yml", ".pre-commit-hooks.yaml"])
def test_every_command_has_its_verb_and_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [shlex.split(call)[1:] for call in CALL.findall(read(name))]
    assert calls
    for arguments in calls:
        group = arguments[:2] if arguments[0] == "store" else arguments[:1]
        capsys.readouterr()
        assert main([*group, "--help"]) == 0
        text = capsys.readouterr().out
        assert [word for word in arguments if word.startswith("-") and word not in text] == []


def test_the_hook_validates_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    (hook,) = yaml.safe_load(read(".pre-commit-hooks.yaml"))
    assert hook["entry"] == "orun validate"
    files = [f"pipelines/{name}.yaml" for name in ("bert", "sklearn")]
    assert all(re.search(hook["files"], file) for file in files)
    monkeypatch.chdir(ROOT)
    assert main([*hook["entry"].split()[1:], *files]) == 0


def test_the_entry_for_the_schema_store() -> None:
    entry = json.loads(read("schema/catalog.json"))
    assert set(entry) == {"name", "description", "fileMatch", "url"}
    assert entry["name"] == json.loads(read("schema/pipeline.schema.json"))["title"]


def test_the_containerfile() -> None:
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", read("Containerfile"), flags=re.MULTILINE))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line]
    assert {instruction for instruction, _ in lines} <= INSTRUCTIONS
    assert lines[0][0] == "FROM"
    assert re.fullmatch(r"python:3\.\d+-slim", lines[0][1])
    assert [user for instruction, user in lines if instruction == "USER"] == ["orun"]
    sources = [name for instruction, rest in lines if instruction == "COPY" for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in sources)
    kept = {line[1:] for line in read(".containerignore").splitlines() if line.startswith("!")}
    assert kept == set(sources)
    pins = re.findall(r"^TORCH := (\S+)", read("Makefile"), re.MULTILINE)
    assert pins == re.findall(r"pip install (torch==\S+)", text)
    for rest in (rest for instruction, rest in lines if instruction in ("CMD", "ENTRYPOINT")):
        assert isinstance(json.loads(rest), list)


def test_the_image_has_the_versions_that_the_tests_have() -> None:
    pins: dict[str, set[str]] = {}
    for line in re.findall(r"^([a-z].*?==\S+)", read("requirements.lock"), re.MULTILINE):
        name, _, version = line.partition("==")
        pins.setdefault(name, set()).add(version)
    image = re.findall(r"^([a-z][\w.-]*)==(\S+)", read("requirements-cpu.lock"), re.MULTILINE)
    assert {name for name, version in image if version not in pins.get(name, {version})} == set()
    assert {"onnxruntime", "onnxscript", "hatchling"} <= {name for name, _ in image}
    assert not {name for name, _ in image if name.startswith(("nvidia", "onnxruntime-gpu", "tensorflow"))}
