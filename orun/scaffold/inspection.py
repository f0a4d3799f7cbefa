"""Inspection of a model, run as a program so that the frameworks are imported in a process of its own."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.core.serialization import encode, replace
from orun.errors import OrunError, UsageError
from orun.scaffold.model_facts import MARK, InputFact, ModelFacts

QUANTIZED = ("MatMul", "Gemm", "Conv", "Attention", "LSTM", "GRU")
ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")
CODE = re.compile(r".+\.py:\w+")
INPUT = re.compile(r"(?P<name>[\w.:/-]+)=(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")
# What `optimize/transformer` calls the families of transformers' configurations.
FAMILIES = {
    "albert": "bert", "bart": "bart", "bert": "bert", "camembert": "bert", "clip": "clip", "deit": "vit",
    "distilbert": "bert", "electra": "bert", "gpt2": "gpt2", "gpt_neox": "gpt_neox", "mpnet": "bert", "phi": "phi",
    "qwen3": "qwen3", "roberta": "bert", "swin": "swin", "t5": "t5", "vit": "vit", "xlm-roberta": "bert",
}  # fmt: skip
SEGMENTED = ("bert", "albert", "electra")  # families whose models take token_type_ids
VISION = "image_size"
TRIED = 400  # size of a dynamic axis that a module is called with, enough for the convolutions of speech models
AUDIO = ("wav2vec2", "hubert", "wavlm")
TENSORFLOW = (".keras", ".h5", ".tflite", ".pb")
PICKLES = (".joblib", ".pkl", ".pickle")


def main(request: str) -> int:
    """Print the facts, or what is wrong, as one marked line of JSON."""
    source, folder, inputs, trust = json.loads(request)
    try:
        answer: dict[str, Any] = {"facts": encode(read(source, Path(folder), declared(inputs), trust=trust))}
    except OrunError as error:
        answer = {"what": error.what, "why": error.why, "hint": error.hint}
    except Exception as error:  # noqa: BLE001 - whatever a framework or the user's function runs into
        answer = {"what": f"{source} cannot be read", "why": f"{type(error).__name__}: {error}", "hint": ""}
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    return 0


def declared(texts: Sequence[str]) -> tuple[InputFact, ...]:
    """Inputs as the command line declares them: `input_ids=int64[batch,sequence]`."""
    found = []
    for text in texts:
        matched = INPUT.fullmatch(text.replace(" ", ""))
        if matched is None:
            raise UsageError(
                f"{text!r} is not an input",
                why="expected name=dtype[axis,axis]",
                hint="--input image=float32[batch,3,224,224]",
            )
        axes = tuple(int(axis) if axis.isdigit() else axis for axis in matched["shape"].split(",") if axis)
        found.append(_masked(InputFact(matched["name"], matched["dtype"], axes)))
    return tuple(found)


def read(source: str, folder: Path, inputs: tuple[InputFact, ...], *, trust: bool) -> ModelFacts:
    """Return the facts about a model, by what kind of file, folder or function it is.

    Raises:
        UsageError: when it is none that orun converts.
    """
    if CODE.fullmatch(source):
        file, _, function = source.rpartition(":")
        return _of_function(_relative(Path(file), folder) + f":{function}", Path(file), function, inputs)
    path = Path(source)
    if not path.exists():
        raise UsageError(f"there is no {source}", hint="name a model: a file, a folder, or file.py:function")
    name = _relative(path, folder)
    if path.suffix == ".onnx":
        return _of_onnx(name, path)
    if path.is_dir() and (path / "config.json").is_file():
        return _of_transformers(name, path, json.loads((path / "config.json").read_text("utf-8")))
    if path.suffix in TENSORFLOW or (path / "saved_model.pb").is_file():
        return ModelFacts("tensorflow", name, inputs)
    if path.suffix == ".pt2":
        return _of_program(name, path)
    if path.suffix in (".pt", ".pth"):
        return _of_torchscript(name, path, inputs)
    if path.suffix in PICKLES:
        return _of_pickle(name, path, trust=trust)
    raise UsageError(
        f"{source} is not a model that orun knows",
        why="expected .onnx, .pt2, .pt, .keras, .h5, .tflite, .pb, .joblib, a SavedModel, a folder of transformers, "
        "or file.py:function",
        hint="orun stages",
    )


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()


def _masked(item: InputFact) -> InputFact:
    """The input, as an attention mask where its name says so."""
    mask = item.name.endswith("attention_mask") and item.dtype.startswith("int")
    return InputFact(item.name, item.dtype, item.shape, item.high, "right-padded") if mask else item


def _of_onnx(name: str, path: Path) -> ModelFacts:
    from orun.stages._graph.io import load_graph
    from orun.stages._graph.signature import inputs_of

    model = load_graph(path)
    inputs = tuple(
        InputFact(item.name, item.dtype, tuple(item.shape), None if item.high is None else int(item.high))
        for item in inputs_of(model)
    )
    types = Counter(node.op_type for node in model.graph.node)
    readers = {value: node.op_type for node in model.graph.node for value in node.input}
    scores = sum(
        readers.get(node.output[0]) == "MatMul"
        for node in model.graph.node
        if node.op_type == "Softmax" and node.output
    )
    return ModelFacts(
        "onnx",
        name,
        inputs,
        tuple(value.name for value in model.graph.output),
        {kind: types[kind] for kind in QUANTIZED if types[kind]},
        attention=scores + sum(types[kind] for kind in ATTENTION),
    )


def _of_transformers(name: str, path: Path, config: Mapping[str, Any]) -> ModelFacts:
    family = str(config.get("model_type", ""))
    causal = any(str(one).endswith(("CausalLM", "LMHeadModel")) for one in config.get("architectures") or ())
    if VISION in config:
        size = config[VISION]
        height, width = (size, size) if isinstance(size, int) else size
        inputs = [InputFact("pixel_values", "float32", ("batch", config.get("num_channels", 3), height, width))]
    elif family in AUDIO:
        inputs = [InputFact("input_values", "float32", ("batch", "samples"))]
    else:
        text = ("batch", "sequence")
        inputs = [
            InputFact("input_ids", "int64", text, int(config["vocab_size"]) - 1),
            InputFact("attention_mask", "int64", text, None, "right-padded" if causal else "mask"),
        ]
        if family in SEGMENTED:
            inputs.append(InputFact("token_type_ids", "int64", text, int(config.get("type_vocab_size", 2)) - 1))
    outputs = _outputs(_pretrained(path), inputs, by_name=True)
    return ModelFacts("torch", name, tuple(inputs), outputs, attention=1, family=FAMILIES.get(family, ""))


def _pretrained(path: Path) -> Any:
    """A model of transformers from its folder, without what it keeps between calls; none of its code is run."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    config.use_cache = False
    kind = getattr(transformers, (config.architectures or ["AutoModel"])[0])
    return kind.from_pretrained(path, config=config, local_files_only=True).eval()


def _outputs(module: Any, inputs: Sequence[InputFact], *, by_name: bool) -> tuple[str, ...]:
    """Names for what a module returns, found by one call: its own keys where it has some, else numbers."""
    import torch

    from orun.stages._torch.export import flatten

    sizes: dict[str, int] = {}
    feeds = {}
    for item in inputs:
        shape = [
            axis if isinstance(axis, int) else sizes.setdefault(axis, 2 if not sizes else TRIED) for axis in item.shape
        ]
        feeds[item.name] = torch.ones(shape, dtype=getattr(torch, item.dtype))
    with torch.no_grad():
        result = module(**feeds) if by_name else module(*feeds.values())
    count = len(list(flatten(result)))
    if isinstance(result, Mapping) and len(result) == count:
        return tuple(map(str, result))
    return ("output",) if count == 1 else tuple(f"output{number}" for number in range(count))


def _of_program(name: str, path: Path) -> ModelFacts:
    import torch

    program = torch.export.load(path)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    inputs = []
    for item in program.graph_signature.user_inputs:
        value = values[item]
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        inputs.append(InputFact(item, str(value.dtype).removeprefix("torch."), shape))
    outputs = tuple(f"output{number}" for number, _ in enumerate(program.graph_signature.user_outputs))
    return ModelFacts("torch", name, tuple(map(_masked, inputs)), outputs if len(outputs) > 1 else ("output",))


def _of_torchscript(name: str, path: Path, inputs: tuple[InputFact, ...]) -> ModelFacts:
    import torch

    module = torch.jit.load(path, map_location="cpu")
    return _of_module(name, module, [item.debugName() for item in module.graph.inputs()][1:], inputs)


def _of_function(name: str, file: Path, function: str, inputs: tuple[InputFact, ...]) -> ModelFacts:
    if not file.is_file():
        raise UsageError(f"there is no {file}")
    sys.path.insert(0, str(file.parent.absolute()))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        raise UsageError(f"{file} has no function {function!r}")
    made = getattr(module, function)()
    origin = {kind.__module__.partition(".")[0] for kind in type(made).__mro__}
    if "torch" in origin:
        parameters = [item for item in inspect.signature(made.forward).parameters if item not in ("args", "kwargs")]
        return _of_module(name, made, parameters, inputs)
    if origin & {"keras", "tensorflow", "tf_keras"}:
        return ModelFacts("tensorflow", name, inputs)
    if hasattr(made, "predict") or hasattr(made, "transform"):
        return _of_estimator(name, made)
    raise UsageError(
        f"{name} must return a model", why=f"it returned a {type(made).__name__}", hint="orun stages convert/torch"
    )


def _of_module(name: str, module: Any, parameters: Sequence[str], inputs: tuple[InputFact, ...]) -> ModelFacts:
    if not inputs:
        asked = " ".join(f"--input '{item}=float32[batch,...]'" for item in parameters)
        raise UsageError(
            f"{name} does not say what it takes",
            why=f"its forward has the parameters {', '.join(parameters)}, and PyTorch keeps no shapes",
            hint=f"orun init {name} {asked}",
        )
    by_name = {item.name for item in inputs} <= set(parameters)
    return ModelFacts("torch", name, inputs, _outputs(module.eval(), inputs, by_name=by_name))


def _of_pickle(name: str, path: Path, *, trust: bool) -> ModelFacts:
    import joblib

    if not trust:
        raise UsageError(
            f"{path} was not read: it is a pickle, which can run any code",
            hint=f"if you know where it comes from: orun init {path} --trust",
        )
    facts = _of_estimator(name, joblib.load(path))
    return replace(facts, needs_trust=True)


def _of_estimator(name: str, made: Any) -> ModelFacts:
    features = getattr(made, "n_features_in_", None)
    if features is None:
        raise UsageError(f"{name} is not fitted", why="it has no n_features_in_")
    return ModelFacts("sklearn", name, features=int(features))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
