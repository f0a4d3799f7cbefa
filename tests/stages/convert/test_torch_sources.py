"""PyTorch models from files, folders and the hub."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file

import orun
from orun.errors import OrunError
from orun.stages._graph.feeds import Input
from orun.stages._torch.export import advise_other, bind_program
from orun.store import Store
from tests.stages.conftest import MODULES, SCORER
from tests.stages.modules import small
from tests.stages.support import StageRun, run_stage

SAVED: dict[str, Any] = {**SCORER, "dims": {"batch": [2, 5], "length": [3, 6]}, "exporter": "torchscript"}


class Listed(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """What a module returns as a tuple: ONNX has no dictionaries, and TorchScript keeps them."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.module(ids, mask).values())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One module in every kind of file."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(7)
    module = small.scorer().eval()
    torch.save(module.state_dict(), folder / "state.pt")
    save_file(module.state_dict(), folder / "state.safetensors")
    example = torch.ones(2, 4, dtype=torch.int64), torch.ones(2, 4, dtype=torch.int64)
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated, and here to stay in files
        torch.jit.save(torch.jit.trace(Listed(module), example), folder / "module.pt")
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    torch.export.save(torch.export.export(module, example, dynamic_shapes=(axes, axes)), folder / "module.pt2")
    (folder / "small.py").write_text((MODULES / "small.py").read_text())
    return folder


def convert(files: Path, folder: Path, **params: Any) -> StageRun:
    return run_stage("convert/torch", folder, {**SAVED, **params}, root=files)


def refusal(files: Path, folder: Path, **params: Any) -> str:
    with pytest.raises(OrunError) as caught:
        convert(files, folder, **params)
    return str(caught.value)


def weights(run: StageRun) -> set[bytes]:
    tensors = onnx.load(run.model).graph.initializer
    return {onnx.numpy_helper.to_array(tensor).tobytes() for tensor in tensors if len(tensor.dims) == 2}


def test_weights_from_a_file(files: Path, tmp_path: Path) -> None:
    plain = convert(files, tmp_path)
    loaded = convert(files, tmp_path, weights="state.pt")
    safe = convert(files, tmp_path, weights="state.safetensors")
    assert weights(loaded) == weights(safe) != weights(plain)


def test_a_class_with_random_weights_is_noted(files: Path, tmp_path: Path) -> None:
    """Somebody names the class of the module and forgets the weights: every gate would pass."""
    (files / "classes.py").write_text(
        "import torch\nfrom small import Scorer\n"
        "class Trained(Scorer):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.load_state_dict(torch.load(__file__.replace('classes.py', 'state.pt')))\n",
        "utf-8",
    )
    note = (
        "the weights of small.py:Scorer are drawn at random, as it is a class: name a file of trained ones, "
        "`weights: FILE`, or a function that loads them"
    )
    assert convert(files, tmp_path, model="small.py:Scorer").notes == (note,)
    for params in ({"model": "small.py:Scorer", "weights": "state.pt"}, {"model": "classes.py:Trained"}):
        assert convert(files, tmp_path, **params).notes == ()


def trained(folder: Path, *names: str) -> dict[str, Path]:
    """What a stage that trains leaves, for the port."""
    path = Path(tempfile.mkdtemp(dir=folder))
    for name in names:
        (path / name).write_bytes((folder / name).read_bytes())
    return {"weights": path}


@pytest.mark.parametrize("name", ["state.pt", "state.safetensors"])
def test_weights_from_a_stage(files: Path, tmp_path: Path, name: str) -> None:
    loaded = convert(files, tmp_path, weights=name)
    ports = trained(files, name)
    run = run_stage("convert/torch", tmp_path, SAVED, root=files, inputs=ports)
    assert weights(run) == weights(loaded)


def test_a_suffix_of_weights_may_be_in_capitals(files: Path, tmp_path: Path) -> None:
    (tmp_path / "trained" / "older.pt").mkdir(parents=True)
    shutil.copy(files / "state.safetensors", tmp_path / "trained" / "STATE.SAFETENSORS")
    params = SAVED
    run = run_stage("convert/torch", tmp_path, params, root=files, inputs={"weights": tmp_path / "trained"})
    assert weights(run) == weights(convert(files, tmp_path, weights="state.pt"))


@pytest.mark.parametrize(
    ("names", "params", "message"),
    [
        (
            ("state.pt", "state.safetensors"),
            {"model": "small.py:scorer"},
            (
                "the input `weights` must hold one file of weights: .safetensors, .pt, .pth\n"
                "  found state.pt, state.safetensors"
            ),
        ),
        (
            ("small.py",),
            {"model": "small.py:scorer"},
            "the input `weights` must hold one file of weights: .safetensors, .pt, .pth\n  found none",
        ),
        (
            ("state.pt",),
            {"model": "small.py:scorer", "weights": "state.pt"},
            "weights come from a stage and from a file\n  hint: leave one of them out: `needs` or `weights`",
        ),
        (
            ("state.pt",),
            {"model": "module.pt"},
            (
                "the input `weights` is of no use, as module.pt brings its own\n  hint: leave it out, or a pickled "
                "module or `state_dict` takes a function that makes the module: model: file.py:function, weights: FILE"
            ),
        ),
    ],
)
def test_weights_from_a_stage_that_do_not_fit(
    files: Path, tmp_path: Path, names: tuple[str, ...], params: dict[str, str], message: str
) -> None:
    with pytest.raises(OrunError) as caught:
        run_stage("convert/torch", tmp_path, {**SAVED, **params}, root=files, inputs=trained(files, *names))
    assert str(caught.value) == message


@pytest.mark.slow
def test_torchscript_and_exported_programs(files: Path, tmp_path: Path) -> None:
    expected = weights(convert(files, tmp_path, weights="state.pt"))
    scripted = convert(files, tmp_path, model="module.pt")
    exported = convert(files, tmp_path, model="module.pt2", exporter="dynamo")
    assert scripted.value("max_abs_error") < 1e-6
    assert exported.value("max_abs_error") < 1e-6
    assert weights(scripted) == weights(exported) == expected
    for program in (scripted, exported):
        graph = onnx.load(program.model).graph
        values = (*graph.input, *graph.output)
        axes = [[axis.dim_param for axis in value.type.tensor_type.shape.dim] for value in values]
        assert axes == [["batch", "length"], ["batch", "length"], ["batch", "length", ""], ["batch", ""]]


class Pair(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A module whose only argument is a mapping of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = torch.nn.Linear(4, 3), torch.nn.Linear(2, 3)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.user(batch["user"]) - self.item(batch["item"])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an exported `Pair`."""
    folder = tmp_path_factory.mktemp("pair")
    rows = {0: torch.export.Dim("rows")}
    example = ({"user": torch.zeros(2, 4), "item": torch.zeros(2, 2)},)
    program = torch.export.export(Pair().eval(), example, dynamic_shapes=({"user": rows, "item": rows},))
    torch.export.save(program, folder / "pair.pt2")
    return folder


def test_an_exported_program_that_takes_a_mapping_is_given_its_tensors_by_name(pair: Path) -> None:
    program = torch.export.load(pair / "pair.pt2")
    random = np.random.default_rng(0)
    feed = {f"batch_{name}": random.random((3, size), np.float32) for name, size in (("item", 2), ("user", 4))}
    bound = bind_program(program, [Input(name, "float32", ("rows", array.shape[1])) for name, array in feed.items()])
    expected = program.module()({name: torch.tensor(feed[f"batch_{name}"]) for name in ("user", "item")})
    (answer,) = bound(feed)
    np.testing.assert_array_equal(answer, expected.detach().numpy())


@pytest.mark.slow
def test_an_exported_program_that_takes_a_mapping_is_exported(pair: Path, tmp_path: Path) -> None:
    inputs = {"batch_item": {"shape": ["rows", 2]}, "batch_user": {"shape": ["rows", 4]}}
    params = {"model": "pair.pt2", "inputs": inputs, "outputs": ["score"]}
    run = run_stage("convert/torch", tmp_path, params, root=pair)
    assert run.value("max_abs_error") < 1e-6
    assert [value.name for value in onnx.load(run.model).graph.input] == ["batch_user", "batch_item"]


FILES = {
    "saved.pt": "it is a pickle of a module or a `state_dict`, as torch.save writes",
    "legacy.pth": "it is a pickle of a module or a `state_dict`, as torch.save writes",
    "model.onnx": "PyTorch writes no such file",
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_torchscript_is_named(tmp_path: Path, name: str) -> None:
    if name == "model.onnx":
        (tmp_path / name).write_bytes(b"\x08\x09")
    else:
        state = torch.nn.Linear(4, 3).state_dict()
        torch.save(state, tmp_path / name, _use_new_zipfile_serialization=name == "saved.pt")
    assert refusal(tmp_path, tmp_path, model=name) == (
        f"{name} is neither TorchScript nor an ExportedProgram that is safe to read\n"
        f"  {FILES[name]}\n"
        "  hint: a pickled module or `state_dict` takes a function that makes the module: model: file.py:function, "
        "weights: FILE"
    )


def test_the_dynamo_exporter_takes_no_torchscript(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(torch.nn.Linear(4, 3).eval(), torch.zeros(2, 4)), tmp_path / "traced.pt")
    params = {"model": "traced.pt", "inputs": {"x": {"shape": ["rows", 4]}}, "outputs": ["y"]}
    with pytest.raises(OrunError) as caught:
        run_stage("convert/torch", tmp_path, params, root=tmp_path)
    assert str(caught.value) == ("PyTorch's dynamo exporter does not take TorchScript\n  hint: exporter: torchscript")


def test_the_torchscript_exporter_takes_no_exported_program(files: Path, tmp_path: Path) -> None:
    assert refusal(files, tmp_path, model="module.pt2") == (
        "PyTorch's torchscript exporter does not take an ExportedProgram\n  hint: exporter: dynamo"
    )


def test_the_form_of_a_model_decides_what_else_there_is_to_try(files: Path, tmp_path: Path) -> None:
    message = refusal(files, tmp_path, model="module.pt", opset=25)
    assert message.splitlines()[-1] == "  hint: try another `opset`; the log has the whole message"
    inputs = [Input(name, "int64", ("batch", "length")) for name in ("ids", "mask")]
    program = bind_program(torch.export.load(files / "module.pt2"), inputs)
    assert advise_other(program, "dynamo") == "try another `opset`"


class Trap:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_no_pickle_is_run(files: Path, tmp_path: Path) -> None:
    """PyTorch's own reader of .pt2 files falls back to unpickling what is in them."""
    mark = tmp_path / "it-ran"
    torch.save(Trap(mark), tmp_path / "trap.pt")
    with ZipFile(files / "module.pt2") as good, ZipFile(tmp_path / "trap.pt2", "w") as bad:
        for name in good.namelist():
            trapped = name.endswith("sample_inputs/model.pt")
            bad.writestr(name, (tmp_path / "trap.pt").read_bytes() if trapped else good.read(name))
    (tmp_path / "small.py").write_text((MODULES / "small.py").read_text())
    for params in ({"model": "trap.pt2"}, {"model": "trap.pt"}, {"model": "small.py:scorer", "weights": "trap.pt"}):
        refusal(tmp_path, tmp_path, **params)
    assert not mark.exists()
    assert refusal(tmp_path, tmp_path, model="small.py:scorer", weights="trap.pt").startswith(
        "trap.pt is no file of weights alone\n  "
    )
    assert refusal(tmp_path, tmp_path, model="trap.pt2").startswith(
        "trap.pt2 is neither TorchScript nor an ExportedProgram that is safe to read\n  "
    )


FOLDER = """
stages:
  export:
    uses: convert/torch
    with:
      model: bert
      inputs: {input_ids: {shape: [batch, 4], dtype: int64, high: 49}}
      outputs: [logits]
      exporter: torchscript
"""


@pytest.mark.slow
def test_the_version_of_transformers_counts_without_code_of_the_user(tmp_path: Path) -> None:
    """Its code is the model's: another version may make another graph, and what the one made had stayed up to date."""
    save_classifier(tmp_path / "bert")
    (tmp_path / "folder.yaml").write_text(FOLDER, encoding="utf-8")
    result = orun.run(tmp_path / "folder.yaml", store=tmp_path / "store")
    assert [stage.outcome for stage in result.stages] == ["built"]
    with Store.open(tmp_path / "store") as store:
        action = store.find_latest("folder", "export")
    assert action
    assert action.implicit_deps.packages.get("transformers") == version("transformers")


TOKENS = {"shape": ["batch", "sequence"], "dtype": "int64"}
CLASSIFIER: dict[str, Any] = {
    "model": "bert",
    "inputs": {"input_ids": {**TOKENS, "high": 49}, "attention_mask": {**TOKENS, "fill": "mask"}},
    "outputs": ["logits"],
    "exporter": "torchscript",
}


def save_classifier(folder: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=3
    )
    BertForSequenceClassification(config).save_pretrained(folder)


@pytest.mark.slow
def test_a_folder_of_transformers_by_the_other_exporter(tmp_path: Path) -> None:
    save_classifier(tmp_path / "bert")
    dynamo = run_stage("convert/torch", tmp_path, {**CLASSIFIER, "exporter": "dynamo"})
    assert dynamo.value("max_abs_error") < 1e-5


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    save_classifier(tmp_path / "bert")
    run = run_stage("convert/torch", tmp_path, CLASSIFIER)
    assert run.value("max_abs_error") < 1e-5
    (logits,) = onnx.load(run.model).graph.output
    assert [axis.dim_param or axis.dim_value for axis in logits.type.tensor_type.shape.dim] == ["batch", 3]
    body = run_stage(
        "convert/torch",
        tmp_path,
        {**CLASSIFIER, "outputs": ["hidden", "pooled"], "transformers": {"model_class": "BertModel"}},
    )
    assert len(onnx.load(body.model).graph.output) == 2
    with pytest.raises(OrunError) as caught:
        run_stage("convert/torch", tmp_path, {**CLASSIFIER, "transformers": {"model_class": "Bert"}})
    assert str(caught.value) == ("transformers has no class 'Bert'\n  hint: set `transformers: {model_class: ...}`")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OrunError) as caught:
        run_stage("convert/torch", tmp_path, {**CLASSIFIER, "model": "empty"})
    assert caught.value.problem == "transformers cannot load empty"


def test_the_hub_takes_a_commit(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(files, tmp_path, model=None, hub="owner/name") == (
        "owner/name does not say which revision of the model\n"
        "  what a name alone stands for can change, and then the result would\n"
        "  hint: give the whole commit: hub: owner/name@0123456789abcdef0123456789abcdef01234567"
    )
    monkeypatch.setattr(sys.modules["huggingface_hub"].constants, "HF_HUB_OFFLINE", True)
    commit = "0" * 40
    text = refusal(files, tmp_path, model=None, hub=f"owner/name@{commit}")
    assert text.startswith(f"transformers cannot load owner/name@{commit}\n  LocalEntryNotFoundError: Cannot find ")
    assert text.endswith("hint: see that the hub can be reached, or name a folder; the log has the whole message")


def test_weights_that_do_not_fit(files: Path, tmp_path: Path) -> None:
    text = refusal(files, tmp_path, model="small.py:same", weights="state.pt")
    assert text.startswith("state.pt does not fit the module that small.py:same returns\n  Unexpected key(s)")


def test_a_checkpoint_or_weights_of_data_parallel(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text((MODULES / "small.py").read_text())
    state = small.scorer().state_dict()
    torch.save({"epoch": 3, "model_state_dict": state}, tmp_path / "checkpoint.pt")
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "parallel.pt")
    text = refusal(tmp_path, tmp_path, model="small.py:scorer", weights="checkpoint.pt")
    assert text.startswith("checkpoint.pt does not fit the module that small.py:scorer returns\n  Missing key(s)")
    assert text.splitlines()[-1] == (
        "  hint: it is a checkpoint: save its weights alone, torch.save(checkpoint['model_state_dict'], ...)"
    )
    text = refusal(tmp_path, tmp_path, model="small.py:scorer", weights="parallel.pt")
    assert text.splitlines()[-1] == (
        "  hint: DataParallel puts 'module.' before its names: torch.save(model.module.state_dict(), ...); or save "
        "{name.removeprefix('module.'): value for name, value in state.items()}"
    )


@pytest.mark.parametrize("params", [{"model": "cut.pt"}, {"model": "small.py:scorer", "weights": "cut.pt"}])
def test_a_file_that_is_cut_off(tmp_path: Path, params: dict[str, str]) -> None:
    (tmp_path / "small.py").write_text((MODULES / "small.py").read_text())
    torch.save(torch.zeros(999), tmp_path / "full.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "full.pt").read_bytes()[:2000])
    assert refusal(tmp_path, tmp_path, **params) == "cut.pt is cut off\n  its end is missing\n  hint: copy it again"
