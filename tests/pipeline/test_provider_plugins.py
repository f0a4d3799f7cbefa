"""Execution providers that installed packages declare."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest

from orun.cli.main import main
from orun.core.component_kinds import ComponentKind
from orun.core.targets import Provider, count_gpus
from orun.environment import providers
from orun.environment.call_cache import forget
from orun.environment.install_commands import choose_installer
from orun.noop import record
from orun.pipeline.model import Pipeline
from orun.planning.facts import LocalFacts
from orun.planning.planner import Planner
from orun.providers.registry import PROVIDERS
from orun.providers.spec import ProviderSpec
from orun.store import Store
from tests.pipeline.support import complaint, loaded
from tests.site_packages import Site

Install = Callable[..., Path]
LIBRARY = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_shared.so"
SPEC = f"""
from orun.providers.spec import ProviderSpec

NPU = ProviderSpec(
    options={{"level": "int", "fast": "flag", "mode": ("low", "high"), "trace": "bool"}},
    libraries=("Acme_Driver",),
    nvidia_gpu=True,
    plugin="acme_npu",
)


def get_library_path():
    return {str(LIBRARY)!r}
"""
TARGET = "targets: {{npu: {{providers: [{}]}}}}\n"
STAGES = """\
stages:
  export: {uses: convert/onnx, with: {path: model.onnx}}
  covered: {uses: check/coverage, needs: export, with: {target: npu}}
"""
NPU = "AcmeExecutionProvider: {level: 3, fast: true, mode: high, trace: false}"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that declares the provider `AcmeExecutionProvider`, and returns its module."""
    site = Site.make(tmp_path / "environment")
    monkeypatch.syspath_prepend(site.folder)

    def put(text: str = SPEC, version: str = "1.2") -> Path:
        metadata = site.install("acme_npu", version, text)
        points = "AcmeExecutionProvider = acme_npu:NPU\nCPUExecutionProvider = acme_npu:NPU\n"
        (metadata / "entry_points.txt").write_text(f"[orun.providers]\n{points}")
        monkeypatch.delitem(sys.modules, "acme_npu", raising=False)
        forget()
        return site.folder / "acme_npu.py"

    return put


def pipeline(folder: Path, provider: str = NPU) -> Pipeline:
    return loaded(folder / "project", TARGET.format(provider) + STAGES)


def device_facts(pipeline: Pipeline) -> dict[str, str]:
    """The facts about the device in the key of the stage of the target."""
    components = LocalFacts(pipeline).list_components(pipeline.stage("covered"))
    return {item.subject: item.value for item in components if item.kind == ComponentKind.DEVICE}


def test_its_options_have_their_types(tmp_path: Path, install: Install) -> None:
    install()
    stage = pipeline(tmp_path).stage("covered")
    (target,) = stage.targets
    spec = ProviderSpec(
        {"level": "int", "fast": "flag", "mode": ("low", "high"), "trace": "bool"},
        ("acme-driver", "acme-npu"),
        nvidia_gpu=True,
        plugin="acme_npu",
        module="acme_npu",
    )
    options = {"level": "3", "fast": "1", "mode": "high", "trace": "false"}
    assert target.providers == (Provider("AcmeExecutionProvider", options, spec=spec),)
    assert (count_gpus(stage.targets), stage.gpus) == (1, 1)


def test_a_misspelt_option(tmp_path: Path, install: Install) -> None:
    install()
    assert complaint(tmp_path / "project", TARGET.format("AcmeExecutionProvider: {levle: 3}") + STAGES) == (
        "p.yaml:1:53: error: 'levle' is not an option of AcmeExecutionProvider\n"
        "    1 | targets: {npu: {providers: [AcmeExecutionProvider: {levle: 3}]}}\n"
        "      |                                                     ^^^^^\n"
        "  did you mean: level\n"
        "  expected: one of level, fast, mode, trace"
    )


def test_a_misspelt_provider(tmp_path: Path, install: Install) -> None:
    install()
    shown, _, expected = complaint(tmp_path / "project", TARGET.format("AcmeExecutionProvidr") + STAGES).partition(
        "  expected: "
    )
    assert shown == (
        "p.yaml:1:29: error: 'AcmeExecutionProvidr' is not an execution provider of ONNX Runtime\n"
        "    1 | targets: {npu: {providers: [AcmeExecutionProvidr]}}\n"
        "      |                             ^^^^^^^^^^^^^^^^^^^^\n"
        "  did you mean: AcmeExecutionProvider\n"
    )
    assert " ".join(expected.split()) == f"one of {', '.join(PROVIDERS)}, AcmeExecutionProvider"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero at ../environment/lib/python3/site-packages/acme_npu.py:1"),
        ("NPU = 1\n", "acme_npu:NPU is not an orun.providers.spec.ProviderSpec"),
        (SPEC.replace('"int"', '"number"'), "acme_npu:NPU: Invalid enum value 'number' - at `$.options[...]`"),
    ],
)
def test_a_broken_package_is_named(tmp_path: Path, install: Install, text: str, why: str) -> None:
    install(text)
    shown = complaint(tmp_path / "project", TARGET.format("AcmeExecutionProvider") + STAGES)
    lines = shown.splitlines()
    problem = "the provider 'AcmeExecutionProvider' of the package acme_npu cannot be used"
    location = f"{tmp_path}/environment" if "../" in why else ""
    assert lines[0] == f"p.yaml:1:29: error: {problem}: {why.replace('../environment', location)}"
    assert lines[-1] == f"  hint: {choose_installer()} --upgrade acme_npu"
    assert shown.count("error: ") == 1


def test_versions_of_the_package_and_of_its_libraries_are_in_the_key(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orun.environment.device.read_gpu", lambda _: {"gpu name": "X"})
    install()
    loaded = pipeline(tmp_path)
    facts = device_facts(loaded)
    assert (facts["acme-npu"], facts["acme-driver"], facts["gpu name"]) == ("1.2", "none", "X")
    (component,) = (
        item
        for item in LocalFacts(loaded).list_components(loaded.stage("covered"))
        if item.kind == ComponentKind.TARGET
    )
    assert json.loads(component.value)["providers"][0][2] == "acme_npu"
    install(version="1.3")
    assert device_facts(pipeline(tmp_path))["acme-npu"] == "1.3"


def test_an_edit_of_the_declaration_ends_the_short_way_of_a_run(tmp_path: Path, install: Install) -> None:
    module = install()
    planner = Planner(pipeline(tmp_path), Store(tmp_path / "store"))
    assert str(module) in set(record.list_code(planner))


def test_the_library_of_the_package_is_loaded(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = install()
    monkeypatch.setenv("PYTHONPATH", str(module.parent), prepend=":")
    (target,) = pipeline(tmp_path, "AcmeExecutionProvider").stage("covered").targets
    assert providers.explain(target) == (
        f"AcmeExecutionProvider does not load on this machine ({LIBRARY} is no plug-in of ONNX Runtime)"
    )


def test_a_package_is_imported_only_if_a_target_names_its_provider(tmp_path: Path, install: Install) -> None:
    install("raise RuntimeError\n")
    (target,) = pipeline(tmp_path, "CPUExecutionProvider").stage("covered").targets
    assert target.providers == (Provider("CPUExecutionProvider"),)


def test_the_schema_has_those_that_are_not_broken(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install()
    assert main(["schema"]) == 0
    shown = capsys.readouterr().out
    assert '"x-noun": "option of AcmeExecutionProvider"' in shown
    install("1 / 0\n")
    assert main(["schema"]) == 0
    assert "AcmeExecutionProvider" not in capsys.readouterr().out


def test_gpus_of_the_table_are_those_that_stages_know() -> None:
    assert [name for name, spec in PROVIDERS.items() if spec.nvidia_gpu != Provider(name).on_nvidia_gpu] == []
