"""Keys: canonical, told apart by every part, and blind to what must not matter."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import pytest
from blake3 import blake3

from orun.core import serialization
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.core.targets import EXTENSIONS, Environment, Provider, Target
from orun.environment import distributions, venvs
from orun.pipeline.model import KindUse, Pipeline, Reference, Stage
from orun.planning import cache_key, kind_code
from orun.planning.facts import LocalFacts
from orun.stages.contract import Spec
from tests.facts import components, named

HERE = Position("p.yaml", 1, 1)
SPEC = Spec(tools=("onnx", "unheard-of"))


def digest(path: Path) -> str:
    return blake3(path.read_bytes()).hexdigest()


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "code.py").write_text("def f(): ...\n")
    stage = Stage(
        "s",
        "./code.py:f",
        HERE,
        params={"level": 1, "data": "code.py"},
        references=(Reference("uses", "code.py", "f"), Reference("data", "code.py")),
        env=("ORUN_TEST_VARIABLE",),
        target=Target("cpu"),
    )
    use = KindUse("file", "code.py:f", SPEC)
    return Pipeline("p", tmp_path / "p.yaml", (stage,), 0, {}, {"./code.py:f": use})


def parts_of(pipeline: Pipeline, **changes: object) -> dict[str, str]:
    stage = replace(pipeline.stages[0], **changes)
    surroundings = LocalFacts(pipeline).list_components(stage)
    return named(cache_key.compose(pipeline, stage, {"model": "aa"}, digest, surroundings, {}))


def test_a_plugin_counts_by_its_path_and_options(pipeline: Pipeline) -> None:
    plugin = Target("npu", (Provider("MyExecutionProvider", {"level": "3"}, "libmy_ep.so"),))
    text = '{"providers":[["MyExecutionProvider",{"level":"3"},"libmy_ep.so"]],"session":{}}'
    assert parts_of(pipeline, target=plugin)["target"] == text


def digest_of(parts: Mapping[str, str]) -> str:
    return cache_key.digest_components(components(parts))


def test_parts_are_named_for_people(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORUN_TEST_VARIABLE", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONHASHSEED"):
        monkeypatch.delenv(name, raising=False)
    parts = parts_of(pipeline)
    code = digest(pipeline.root / "code.py")
    assert {name: text for name, text in parts.items() if not name.startswith(("device", "tool onnx"))} == {
        "kind": "f",
        "parameter level": "1",
        "parameter data": '"code.py"',
        "input model": "aa",
        "file of uses": "code.py",
        "content of uses": code,
        "content of data": code,
        "python of your code": platform.python_version(),
        "environment ORUN_TEST_VARIABLE": "unset",
        "tool unheard-of": "not installed",
        "target": '{"providers":[["CPUExecutionProvider",{}]],"session":{}}',
        "seed": "0",
    }
    assert parts["tool onnx"].startswith("onnx 1.")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1]])
def test_values_that_look_alike_are_told_apart(pipeline: Pipeline, value: object) -> None:
    assert parts_of(pipeline, params={"level": 1}) != parts_of(pipeline, params={"level": value})


def test_every_parameter_counts(pipeline: Pipeline) -> None:
    params = dict.fromkeys(("level", "data", "more"), "x")
    keys = {digest_of(parts_of(pipeline, params=params | {name: "y"})) for name in params}
    assert len(keys | {digest_of(parts_of(pipeline, params=params))}) == 4


def test_order_and_name_of_the_stage_do_not_matter(pipeline: Pipeline) -> None:
    other = parts_of(pipeline, id="renamed", params={"data": "code.py", "level": 1}, position=Position("q.yaml", 9, 9))
    assert digest_of(other) == digest_of(parts_of(pipeline))


def test_the_order_of_a_mapping_counts(pipeline: Pipeline) -> None:
    """Code that is given one may go through it."""
    first, other = ({"words": mapping} for mapping in ({"b": 1, "a": 2}, {"a": 2, "b": 1}))
    assert parts_of(pipeline, params=first)["parameter words"] == '{"b":1,"a":2}'
    assert parts_of(pipeline, params=other)["parameter words"] == '{"a":2,"b":1}'
    options = ({"b": "1", "a": "2"}, {"a": "2", "b": "1"})
    targets = (Target("cpu", (Provider("XnnpackExecutionProvider", option),), session=option) for option in options)
    assert len({parts_of(pipeline, target=target)["target"] for target in targets}) == 1, "nobody goes through these"


def test_a_value_that_is_no_text_counts(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for value in (b"caf\xe9", b"th\xe9"):
        monkeypatch.setitem(os.environb, b"ORUN_TEST_VARIABLE", value)
        keys.add(parts_of(pipeline)["environment ORUN_TEST_VARIABLE"])
    assert len(keys) == 2


def test_limits_and_resources_do_not_matter(pipeline: Pipeline) -> None:
    assert parts_of(pipeline, timeout=3.0, memory=10, cpus=4) == parts_of(pipeline)


def test_an_unset_variable_is_not_an_empty_one(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_TEST_VARIABLE", "")
    empty = parts_of(pipeline)["environment ORUN_TEST_VARIABLE"]
    monkeypatch.setenv("ORUN_TEST_VARIABLE", "secret")
    full = parts_of(pipeline)["environment ORUN_TEST_VARIABLE"]
    assert len({"unset", empty, full}) == 3
    assert "secret" not in full


def test_a_target_is_in_the_key_without_its_name(pipeline: Pipeline) -> None:
    named = parts_of(pipeline, target=Target("other"))
    assert named == parts_of(pipeline)
    assert parts_of(pipeline, target=Target("cpu", session={"intra_op_num_threads": 2})) != named
    assert parts_of(pipeline, target=Target("cpu", (Provider("XnnpackExecutionProvider"),))) != named


def test_custom_operators_of_a_target_come_with_their_version(pipeline: Pipeline) -> None:
    extended = Target("cpu", session={"custom_op_libraries": [EXTENSIONS]})
    versions = distributions.find(EXTENSIONS)
    installed = " ".join(versions) if versions else "not installed"
    assert parts_of(pipeline, target=extended)[f"tool {EXTENSIONS}"] == installed
    assert f"tool {EXTENSIONS}" not in parts_of(pipeline)


def test_what_a_target_forbids_is_in_the_key(pipeline: Pipeline) -> None:
    """A result of when nodes might land on the CPU would pass for one of when they must not."""
    gpu = Target("gpu", (Provider("CUDAExecutionProvider"),))
    allowed, warned, forbidden = (
        parts_of(pipeline, target=serialization.replace(gpu, fallback=fallback))["target"]
        for fallback in ("allow", "warn", "forbid-cpu")
    )
    assert allowed == warned == '{"providers":[["CUDAExecutionProvider",{}]],"session":{}}'
    assert forbidden == '{"fallback":"forbid-cpu","providers":[["CUDAExecutionProvider",{}]],"session":{}}'


def test_further_targets_are_in_the_key_with_their_devices_and_packages(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setenv("ORT_DISABLE_FLASH_ATTENTION", "1")
    old = Environment("old", ("onnxruntime==1.20.0",))
    record = venvs.locate_record(old)
    record.parent.mkdir(parents=True)
    built = venvs.EnvironmentRecord(old.requirements, {"onnxruntime": "1.20.0"})
    record.write_text(json.dumps(serialization.encode(built)))
    use = KindUse("file", "code.py:f", serialization.replace(SPEC, stage_class="device"))
    bound = replace(pipeline, kinds={"./code.py:f": use})
    other = Target("other", session={"intra_op_num_threads": 1}, environment=old)
    here, there = parts_of(bound), parts_of(bound, extra_targets={"reference_target": other}, out_of_process=True)
    added = {name: there[name] for name in there.keys() - here.keys()}
    assert here == {name: text for name, text in there.items() if name not in added}
    devices = {name: text for name, text in here.items() if name.startswith("device ")}
    assert added == {
        "reference_target": '{"providers":[["CPUExecutionProvider",{}]],"session":{"intra_op_num_threads":1}}',
        "package onnxruntime of reference_target": "1.20.0",
        **{f"{name} of reference_target": text for name, text in devices.items()},
        "device runtime of reference_target": "onnxruntime 1.20.0",
    }
    own = parts_of(bound, target=other, out_of_process=True)
    assert own["package onnxruntime of target"] == "1.20.0"
    assert own["device runtime"] == "onnxruntime 1.20.0"


def test_an_absolute_path_is_in_the_key_by_what_holds_wherever_the_project_is(pipeline: Pipeline) -> None:
    outside = pipeline.root.parent / f"{pipeline.root.name}-data"
    outside.mkdir()
    in_key = {}
    for folder in (pipeline.root, outside):
        path = folder / "data.bin"
        path.write_bytes(b"same")
        params = {"data": str(path), "code": f"{path}:f"}
        references = (Reference("data", str(path)), Reference("uses", str(path), "f"))
        parts = parts_of(pipeline, params=params, references=references)
        in_key[folder] = (parts["parameter data"], parts["parameter code"], parts["file of uses"])
    assert in_key[pipeline.root] == ('"data.bin"', '"data.bin:f"', "data.bin")
    assert in_key[outside] == (f'"{outside}/data.bin"', f'"{outside}/data.bin:f"', f"{outside}/data.bin")


def test_code_counts_with_where_it_lies_and_what_it_is_called(pipeline: Pipeline) -> None:
    """What it reads from beside it is no part of the key, and may be another file of the same name."""
    (pipeline.root / "deep").mkdir()
    (pipeline.root / "deep" / "code.py").write_bytes((pipeline.root / "code.py").read_bytes())
    (pipeline.root / "same.py").write_bytes((pipeline.root / "code.py").read_bytes())
    there, deep, same, dotted = (
        parts_of(pipeline, references=(Reference("uses", path, "f"),))
        for path in ("code.py", "deep/code.py", "same.py", "./deep/../code.py")
    )
    assert there == dotted
    assert there["file of uses"] == "code.py"
    assert deep == {**there, "file of uses": "deep/code.py"}
    assert same == {**there, "file of uses": "same.py"}


def test_the_digest_is_canonical() -> None:
    assert digest_of({"tool b": "2", "tool a": "1"}) == digest_of({"tool a": "1", "tool b": "2"})
    assert len(digest_of({})) == 64


@pytest.mark.parametrize(
    "other", [{"tool a": "12"}, {"tool a1": "2"}, {"tool a": "1", "tool ": "2"}, {"tool a": "1", "tool 2": ""}, {}]
)
def test_no_two_sets_of_parts_share_a_digest(other: dict[str, str]) -> None:
    assert digest_of({"tool a": "1", "tool b": "2"}) != digest_of(other)
    assert digest_of({"tool a": "12"}) != digest_of({"tool a1": "2"})


def test_the_code_of_a_kind_is_its_module_and_what_that_imports_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "orun_test_package"
    package.mkdir()
    (package / "__init__.py").write_text("version = 1\n")
    (package / "kind.py").write_text("from . import near\nfrom orun_test_package.far import thing\nimport json\n")
    (package / "near.py").write_text("def f():\n    from .deep import g\n")
    (package / "deep.py").write_text("from orun_test_package import near\n")
    (package / "far.py").write_text("thing = 1\n")
    (package / "other.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [name for name, _ in kind_code.list_code_files("orun_test_package.kind")]
    assert [name.rpartition(".")[2] for name in names] == ["orun_test_package", "deep", "far", "kind", "near"]


def test_the_code_of_a_kind_has_the_files_of_web_pages_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "orun_page_kind.py").write_text('PAGE = ("index.html", "page.mjs", "absent.css")\n')
    for name in ("index.html", "page.mjs", "other.mjs"):
        (tmp_path / name).write_text("")
    names = [name for name, _ in kind_code.list_code_files("orun_page_kind")]
    assert names == ["orun_page_kind", "orun_page_kind/index.html", "orun_page_kind/page.mjs"]


def test_the_code_of_a_package_that_is_spread_over_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no file of its own, and its kind was a bug of orun."""
    for place, text in {"one/spread/kind.py": "from spread import near", "two/spread/near.py": "near = 1"}.items():
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(text)
        monkeypatch.syspath_prepend(str((tmp_path / place).parents[1]))
    assert kind_code.list_code_files("spread.kind") == (
        ("spread.kind", str(tmp_path / "one/spread/kind.py")),
        ("spread.near", str(tmp_path / "two/spread/near.py")),
    )


def test_changed_code_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "orun_test_module.py"
    module.write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    use = KindUse("plug-in", "orun_test_module", Spec(), distribution="orun-test")
    before = kind_code.digest_stage_code(use, digest)
    module.write_text("a = 2\n")
    assert kind_code.digest_stage_code(use, digest) != before
