"""Needs that the parameters of stages have of this machine, told before the first of them starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import orun
from orun.core.events import Planning
from orun.environment import distributions
from orun.environment.install_commands import choose_installer
from orun.errors import PipelineError
from tests.project import install_hint

RUNTIME = "onnxruntime|onnxruntime-gpu"
BEFORE = """\
stages:
  first: {uses: convert/onnx, with: {path: model.onnx}}
  bundle: {uses: release/bundle, needs: first}
  one: """


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of all runs: none of them gets as far as to put a result there."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (
        "model.onnx",
        "rows.parquet",
        "rows.csv",
        "rows.tsv",
        "rows.jsonl",
        "arrays.npz",
        "arrays.safetensors",
        "lines.txt",
    ):
        (tmp_path / name).touch()
    for name in ("pictures", "words", "minilm"):
        (tmp_path / name).mkdir()
    (tmp_path / "model.py").write_text("def load(): ...\n")
    return tmp_path


def lack(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these packages not be installed."""
    there: Mapping[str, str] = {name: text for name, text in distributions.list_exact().items() if name not in names}
    monkeypatch.setattr(distributions, "list_exact", lambda: there)


TORCH = "inputs: {x: {shape: [1, 3]}}, outputs: [y]"


@pytest.mark.parametrize(
    ("package", "stage", "message", "extra"),
    [
        ("onnxslim", "{uses: optimize/simplify, needs: first, with: {tool: onnxslim}}", "`tool: onnxslim`", "slim"),
        ("torch", "{uses: quantize/weights, needs: first, with: {algorithm: hqq}}", "`algorithm: hqq`", "torch"),
        ("pyarrow", "{uses: quantize/static, needs: first, with: {dataset: rows.parquet}}", "rows.parquet", "data"),
        ("pyarrow", "{uses: quantize/dynamic, needs: first, with: {inputs: {path: rows.csv}}}", "rows.csv", "data"),
        ("pyarrow", "{uses: quantize/static, needs: first, with: {dataset: rows.tsv}}", "rows.tsv", "data"),
        ("pyarrow", "{uses: quantize/static, needs: first, with: {dataset: rows.jsonl}}", "rows.jsonl", "data"),
        (
            "safetensors",
            "{uses: convert/sklearn, with: {model: 'model.py:load', data: arrays.safetensors}}",
            "arrays.safetensors",
            "data",
        ),
        (
            "safetensors",
            f"{{uses: convert/torch, with: {{model: 'model.py:load', weights: arrays.safetensors, {TORCH}}}}}",
            "arrays.safetensors",
            "data",
        ),
        ("obstore", "{uses: release/publish, needs: bundle, with: {to: s3://b/c}}", "`to: s3://...`", "remote"),
        ("huggingface-hub", "{uses: release/publish, needs: bundle, with: {to: hf://b/c}}", "`to: hf://...`", "hub"),
        ("oras", "{uses: release/publish, needs: bundle, with: {to: oci://b/c}}", "`to: oci://...`", "oci"),
    ],
)  # fmt: skip
def test_what_a_parameter_asks_for(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch, package: str, stage: str, message: str, extra: str
) -> None:
    lack(monkeypatch, package)
    assert refusal(project, store, stage) == (f"{package} for {message}, which is not installed", install_hint(extra))


def test_alternatives_and_what_no_extra_brings(project: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack(monkeypatch, "mlflow-skinny", "mlflow", "pillow", "transformers")
    pictures = "{path: pictures, images: {input: pixels}}"
    for stage, needs, install in (
        (
            "{uses: release/publish, needs: bundle, with: {to: mlflow://b}}",
            "mlflow-skinny or mlflow for `to: mlflow://...`, which is not installed",
            install_hint("mlflow"),
        ),
        (
            f"{{uses: quantize/static, needs: first, with: {{dataset: {pictures}}}}}",
            "pillow or pillow-simd for the images in pictures, which is not installed",
            install_hint("data"),
        ),
        (
            "{uses: quantize/static, needs: first, with: {dataset: {path: lines.txt, text: {tokenizer: words}}}}",
            "transformers for the tokenizer words, which is not installed",
            f"{choose_installer()} transformers",
        ),
        (
            f"{{uses: convert/torch, with: {{model: minilm, {TORCH}}}}}",
            "transformers for minilm, which is not installed",
            f"{choose_installer()} transformers",
        ),
    ):
        assert refusal(project, store, stage) == (needs, install)


def test_packages_of_the_kind_and_of_a_parameter_are_told_together(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch, "ml-dtypes", "pyarrow")
    stage = "{uses: quantize/static, needs: first, with: {dataset: rows.csv}}"
    message, hint = refusal(project, store, stage)
    assert message == "ml-dtypes, pyarrow for rows.csv, which are not installed"
    assert hint == install_hint("data,onnx")


def test_custom_operators_of_a_package_that_is_not_there(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch, "onnxruntime-extensions")
    session = "session: {custom_op_libraries: [onnxruntime-extensions]}"
    targets = f"targets: {{own: {{providers: [CPUExecutionProvider], {session}}}}}\n"
    stage = "{uses: measure/latency, needs: first, with: {target: own}}"
    (project / "it.yaml").write_text(f"{targets}{BEFORE}{stage}\n")
    with pytest.raises(PipelineError) as caught:
        orun.run(project / "it.yaml", store=store)
    (problem,) = caught.value.problems
    assert problem.message == "target 'own' of stage 'one' needs onnxruntime-extensions, which is not installed"
    assert problem.hint == install_hint("extensions")


def refusal(project: Path, store: Path, stage: str) -> tuple[str, str]:
    """What is missing for a stage, as a run says it, and how to mend it; nothing has started."""
    (project / "it.yaml").write_text(f"{BEFORE}{stage}\n")
    started: list[object] = []
    with pytest.raises(PipelineError) as caught:
        orun.run(project / "it.yaml", store=store, on_event=started.append)
    assert [event for event in started if not isinstance(event, Planning)] == []
    (problem,) = caught.value.problems
    return problem.message.partition(" needs ")[2], problem.hint


SENDER = """\
import os
import orun

@orun.stage(inputs={}, output="metrics")
def send(context, *, private: bool = False):
    user = os.environ["MY_USER"]
    os.environ["OWN"] = user
    password = os.environ["MY_PASSWORD"] if private else ""
    if private:
        os.environ["MY_TOKEN"]
    return {"sent": len(user + os.environ["OWN"] + password)}
"""


def test_a_secret_without_which_a_function_fails_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "send.py").write_text(SENDER)
    (tmp_path / "send.yaml").write_text(
        "secrets: [MY_USER, MY_PASSWORD, MY_TOKEN]\nstages:\n  send: {uses: ./send.py:send}\n"
    )
    with pytest.raises(PipelineError) as caught:
        orun.run(tmp_path / "send.yaml")
    (problem,) = caught.value.problems
    assert (str(problem.position), problem.message, problem.hint) == (
        f"{tmp_path}/send.yaml:3:3",
        "stage 'send' reads MY_USER, which is not set",
        "export MY_USER=...",
    )
    monkeypatch.setenv("MY_USER", "me")
    (built,) = orun.run(tmp_path / "send.yaml").stages
    assert built.outcome == "built"
    monkeypatch.delenv("MY_USER")
    (cached,) = orun.run(tmp_path / "send.yaml").stages
    assert cached.outcome == "cached"
