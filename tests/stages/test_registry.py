from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import orun
from orun.cli.main import main
from orun.environment.install_commands import choose_installer
from orun.errors import PipelineError
from orun.pipeline import load
from orun.pipeline.problems import render
from orun.stages.params import REQUIRED, Param, ParamType
from orun.stages.registry import BUILTIN, find, list_kinds
from orun.text.suggestions import Unknown

Install = Callable[[str], Path]
GOOD = '''
"""Prune a model.

More words.
"""
from dataclasses import dataclass
from orun.stages.contract import Port, Spec

SPEC = Spec(inputs={"model": Port(("onnx",), "The model.")}, tools=("onnx",))

@dataclass(frozen=True)
class Params:
    amount: float
    deep: bool = False

def metrics(params):
    return ("removed", "deep") if params.deep else ("removed",)

def run(context, params):
    return {}
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that offers the kind `acme/prune`."""

    def put(text: str) -> Path:
        site = tmp_path / "site"
        package = site / "acme_orun"
        package.mkdir(parents=True)
        package.joinpath("__init__.py").touch()
        package.joinpath("prune.py").write_text(text, encoding="utf-8")
        info = site / "acme_orun-1.2.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme-orun\nVersion: 1.2\n", encoding="utf-8")
        info.joinpath("entry_points.txt").write_text("[orun.stages]\nacme/prune = acme_orun.prune\n", encoding="utf-8")
        monkeypatch.syspath_prepend(site)
        for name in ("acme_orun", "acme_orun.prune"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return tmp_path

    return put


def pipeline(folder: Path, stage: str) -> Path:
    folder.joinpath("model.onnx").touch()
    file = folder / "p.yaml"
    file.write_text(
        f"stages:\n  export: {{uses: convert/onnx, with: {{path: model.onnx}}}}\n  prune: {stage}\n", encoding="utf-8"
    )
    return file


def test_every_built_in_kind_is_well_declared() -> None:
    kinds = list_kinds()
    assert tuple(kind.name for kind in kinds) == BUILTIN
    for kind in kinds:
        assert kind.origin == "built-in"
        assert kind.entry == f"orun.stages.{kind.name.replace('/', '.').replace('-', '_')}"
        assert kind.summary.endswith("."), kind.name
        assert all(param.doc.endswith(".") for param in kind.params), kind.name
        assert all(port.doc.endswith(".") for port in kind.spec.inputs.values()), kind.name


def test_metrics_that_follow_a_required_parameter_are_unknown_without_it() -> None:
    unknown = [
        kind.name
        for kind in list_kinds()
        if kind.metrics({param.name: param.default for param in kind.params if not param.required}) is None
    ]
    assert unknown == ["quantize/tune", "measure/accuracy"]


def test_finding_a_kind_imports_that_kind_alone() -> None:
    code = (
        "import sys; from pathlib import Path; from orun.stages.registry import find\n"
        "find('convert/onnx', Path())\n"
        "print(*sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = set(process.stdout.split())
    kinds = {f"orun.stages.{name.replace('/', '.').replace('-', '_')}" for name in BUILTIN}
    assert modules & kinds == {"orun.stages.convert.onnx"}
    assert not modules & {"onnx", "numpy", "torch", "yaml", "jsonschema", "networkx", "importlib.metadata"}


def test_an_unknown_kind() -> None:
    with pytest.raises(Unknown) as caught:
        find("quantize/dynamc", Path())
    assert str(caught.value) == (
        "there is no kind of stage 'quantize/dynamc'\n  did you mean quantize/dynamic?\n  hint: orun stages"
    )


def test_a_plug_in(install: Install) -> None:
    folder = install(GOOD)
    kind = find("acme/prune", folder)
    assert (kind.name, kind.origin, kind.entry, kind.distribution) == (
        "acme/prune",
        "plug-in",
        "acme_orun.prune",
        "acme-orun",
    )
    assert kind.doc == "Prune a model.\n\nMore words."
    assert kind.params == (
        Param("amount", ParamType("float"), REQUIRED, ""),
        Param("deep", ParamType("bool"), False, ""),
    )
    assert kind.metrics({"amount": 0.5, "deep": True}) == ("removed", "deep")


def test_a_plug_in_in_a_pipeline(install: Install) -> None:
    folder = install(GOOD)
    file = pipeline(folder, "{uses: acme/prune, needs: export, with: {amount: 1}, gate: {removed: {min: 1%}}}")
    loaded = load(file)
    assert loaded.stage("prune").params == {"amount": 1.0, "deep": False}
    use = loaded.kinds["acme/prune"]
    assert (use.origin, use.entry, use.distribution) == ("plug-in", "acme_orun.prune", "acme-orun")


def error_of(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(file.parent)
    with pytest.raises(PipelineError) as caught:
        load(file)
    return render(caught.value.problems)


def test_mistakes_in_a_plug_ins_stage_are_told_like_any(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install(GOOD)
    file = pipeline(folder, "{uses: acme/prune, needs: export, with: {amont: 1}, gate: {remove: {min: 1%}}}")
    assert error_of(file, monkeypatch) == (
        "p.yaml:3:51: error: 'amont' is not a parameter of acme/prune\n"
        "    3 |   prune: {uses: acme/prune, needs: export, with: {amont: 1}, gate: {remove: {min: 1%}}}\n"
        "      |                                                   ^^^^^\n"
        "  did you mean: amount\n"
        "  expected: amount or deep\n"
        "  hint: orun stages acme/prune"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import nothing_of_that_name\n",
            "ModuleNotFoundError: No module named 'nothing_of_that_name' at site/acme_orun/prune.py:1",
        ),
        ("\n1 / 0\n", "ZeroDivisionError: division by zero at site/acme_orun/prune.py:2"),
        ("x = (\n", "SyntaxError: '(' was never closed at site/acme_orun/prune.py:1"),
        ("x = 1\n", "acme_orun.prune has no SPEC of type orun.stages.contract.Spec"),
        (
            "from orun.stages.contract import Spec\nSPEC = Spec()\n",
            "acme_orun.prune has no function run(context, params)",
        ),
        (
            "from orun.stages.contract import Spec\nSPEC = Spec()\ndef run(context, params): ...\n",
            "acme_orun.prune has no dataclass Params",
        ),
        (GOOD.replace('("onnx",))', '"onnx")'), "SPEC: Expected `array`, got `str` - at `$.tools`"),
        (GOOD.replace("deep: bool", "deep: bytes"), "Params: a pipeline file cannot write a <class 'bytes'>"),
    ],
)
def test_a_broken_plug_in_is_named(text: str, why: str, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(install(text), "{uses: acme/prune, needs: export}")
    assert error_of(file, monkeypatch) == (
        f"p.yaml:3:17: error: the kind 'acme/prune' of the package acme-orun cannot be used: {why}\n"
        "    3 |   prune: {uses: acme/prune, needs: export}\n"
        "      |                 ^^^^^^^^^^\n"
        f"  hint: {choose_installer()} --upgrade acme-orun"
    )


@pytest.mark.parametrize(
    ("text", "shown"), [("1 / 0\n", ""), ("def run(): ...\n", " as it; print(it.__file__, dir(it))")]
)
def test_who_works_on_a_broken_plug_in_is_told_how_to_see_more(install: Install, text: str, shown: str) -> None:
    """A package that was installed from a folder cannot be upgraded."""
    folder = install(text)
    (folder / "site" / "acme_orun-1.2.dist-info" / "direct_url.json").write_text("{}")
    with pytest.raises(Unknown) as caught:
        find("acme/prune", folder)
    hint = str(caught.value).rpartition("hint: ")[2]
    assert hint == f"python -c 'import acme_orun.prune{shown}'"
    command = [sys.executable, *shlex.split(hint)[1:]]
    process = subprocess.run(command, cwd=folder / "site", capture_output=True, text=True, timeout=60, check=False)
    seen = ("'run'", str(folder)) if shown else ("ZeroDivisionError", "prune.py")
    assert all(word in process.stdout + process.stderr for word in seen)


def test_two_packages_that_offer_one_kind(install: Install) -> None:
    folder = install(GOOD)
    other = folder / "site" / "zeta-0.1.dist-info"
    shutil.copytree(folder / "site" / "acme_orun-1.2.dist-info", other)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: zeta\nVersion: 0.1\n", encoding="utf-8")
    with pytest.raises(Unknown) as caught:
        find("acme/prune", folder)
    assert str(caught.value) == (
        "the kind 'acme/prune' is offered by 2 packages: acme-orun, zeta\n"
        "  expected a single package that offers it\n  hint: pip uninstall zeta"
    )


@pytest.mark.parametrize(
    ("uses", "message"),
    [
        ("./prune.py", "'./prune.py' is a file, and a stage is a function in it\n  did you mean ./prune.py:prune?"),
        ("./prune.py:", "'./prune.py' is a file, and a stage is a function in it\n  did you mean ./prune.py:prune?"),
        (
            "./prune.py:a:b",
            "'a:b' cannot be the name of a function in './prune.py'\n  did you mean ./prune.py:prune?",
        ),
        (
            "./broken.py:a:b",
            "'a:b' cannot be the name of a function in './broken.py'\n  expected ./broken.py:FUNCTION",
        ),
    ],
)
def test_a_file_without_a_function(tmp_path: Path, uses: str, message: str) -> None:
    (tmp_path / "prune.py").write_text("def prune(context): ...\ndef _own(): ...\n")
    (tmp_path / "broken.py").write_text("def (")
    with pytest.raises(Unknown) as caught:
        find(uses, tmp_path)
    assert str(caught.value) == f"{message}\n  hint: orun stages"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Unknown) as caught:
        find("./prune.py", Path())
    assert str(caught.value) == "there is no code file './prune.py'\n  expected ./file.py:function"


def test_plug_ins_are_listed_and_in_the_schema(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(GOOD)
    assert main(["stages"]) == 0
    assert capsys.readouterr().out.endswith("\n\nacme/prune                  Prune a model.\n")
    assert main(["schema"]) == 0
    chosen = [
        condition["if"]["properties"]["uses"]["const"]
        for condition in json.loads(capsys.readouterr().out)["definitions"]["stage"]["allOf"]
    ]
    assert chosen == [*BUILTIN, "acme/prune"]


def test_a_broken_plug_in_does_not_hide_the_others(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("1 / 0\n")
    assert main(["stages"]) == 0
    shown = capsys.readouterr()
    assert "release/triton" in shown.out
    assert shown.err.startswith("\nthe kind 'acme/prune' of the package acme-orun cannot be used: ZeroDivisionError")


def test_a_plug_in_with_the_name_of_a_kind_of_orun_is_not_used(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = install(GOOD)
    (points,) = folder.glob("**/entry_points.txt")
    main(["schema"])
    own = json.loads(capsys.readouterr().out)["definitions"]["stage"]["allOf"]
    points.write_text(points.read_text().replace("acme/prune", "quantize/dynamic"))
    assert main(["stages"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("quantize/dynamic ") == 1
    assert shown.err == (
        "\nthe kind 'quantize/dynamic' of the package acme-orun cannot be used: orun has a kind of that name\n"
        "  hint: rename its entry point in the group orun.stages\n"
    )
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["definitions"]["stage"]["allOf"] == own[:-1]


def test_a_plug_in_that_cannot_say_what_it_measures(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(
        install(GOOD.replace('return ("removed"', 'return 1 / 0, ("removed"')),
        "{uses: acme/prune, needs: export, with: {amount: 1}}",
    )
    assert error_of(file, monkeypatch).splitlines()[0] == (
        "p.yaml:3:3: error: the kind 'acme/prune' of the package acme-orun cannot say what it measures:"
        " ZeroDivisionError: division by zero"
    )


def test_packages_that_a_plug_in_needs_for_its_parameters(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "def packages(params, root):\n    return {'acme-deep': '`deep`'} if params.deep else {}\n"
    folder = install(f"{GOOD}\n{asks}")
    deep = pipeline(folder, "{uses: acme/prune, needs: export, with: {amount: 1, deep: true}}")
    assert lacking(deep, monkeypatch) == (
        "p.yaml:3:3: error: stage 'prune' (acme/prune) needs acme-deep for `deep`, which is not installed\n"
        f"  hint: {choose_installer()} acme-deep"
    )


def test_a_plug_in_that_cannot_say_what_it_needs(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install(f"{GOOD}\ndef packages(params, root):\n    return root.nowhere\n")
    file = pipeline(folder, "{uses: acme/prune, needs: export, with: {amount: 1}}")
    kind = type(folder).__name__
    assert lacking(file, monkeypatch) == (
        "p.yaml:3:3: error: the kind 'acme/prune' of the package acme-orun cannot say which packages it needs:"
        f" AttributeError: {kind!r} object has no attribute 'nowhere'\n"
        f"  hint: {choose_installer()} --upgrade acme-orun"
    )


def lacking(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the error of a run of the file."""
    monkeypatch.chdir(file.parent)
    with pytest.raises(PipelineError) as caught:
        orun.run(file, store=file.parent / "store")
    return render(caught.value.problems)


def test_a_plug_in_is_not_imported_by_a_pipeline_that_does_not_use_it(install: Install) -> None:
    folder = install("raise RuntimeError\n")
    load(pipeline(folder, "{uses: optimize/simplify, needs: export}"))
    assert "acme_orun.prune" not in sys.modules


@pytest.mark.parametrize("name", BUILTIN)
def test_a_kind_declares_each_metric_that_parameters_may_yield(name: str) -> None:
    kind = find(name, Path())
    names = kind.metrics({param.name: param.default for param in kind.params if not param.required}) or ()
    assert {metric.partition("[")[0] for metric in names} <= (kind.spec.metrics or {}).keys()


def test_metrics_that_a_plug_in_names_without_declaring_them_are_listed(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(GOOD.replace("amount: float", "amount: float = 0.5"))
    assert main(["stages", "acme/prune"]) == 0
    assert "\nmetrics: removed\n" in capsys.readouterr().out
