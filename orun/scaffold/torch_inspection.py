"""Inspection of PyTorch models: folders of transformers, exported programs, TorchScript, modules."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orun.errors import UsageError
from orun.fs.os_errors import quoted
from orun.scaffold.model_facts import InputFact, InputsUnknown, ModelFacts, with_mask
from orun.stages._graph.axes import list_free
from orun.stages._graph.feeds import SIZES

# What `optimize/transformer` calls the families of transformers' configurations.
FAMILIES = {
    "albert": "bert", "bart": "bart", "bert": "bert", "camembert": "bert", "clip": "clip", "deit": "vit",
    "distilbert": "bert", "electra": "bert", "gpt2": "gpt2", "gpt_neox": "gpt_neox", "mpnet": "bert", "phi": "phi",
    "qwen3": "qwen3", "roberta": "bert", "swin": "swin", "t5": "t5", "vit": "vit", "xlm-roberta": "bert",
}  # fmt: skip
SEGMENTED = ("bert", "albert", "electra")  # families whose models take token_type_ids
AUDIO = ("wav2vec2", "hubert", "wavlm")
VISION = "image_size"
TRIED = 400  # size of a dynamic axis that a module is called with, enough for the convolutions of speech models
MARGIN = 2  # positions that RoBERTa does not use for tokens
WEIGHT_FILES = ("model*.safetensors", "pytorch_model*.bin")


def has_weights(folder: Path) -> bool:
    """Return whether a folder of transformers holds PyTorch weights."""
    return any(file for pattern in WEIGHT_FILES for file in folder.glob(pattern))


def inspect_transformers(name: str, path: Path) -> ModelFacts:
    """Return the facts about a folder of transformers, from its configuration and one call."""
    if not has_weights(path):
        why = "expected model.safetensors or pytorch_model.bin beside its config.json"
        raise UsageError(f"{path} has no weights", why=why, hint=f"git lfs pull, or copy them there: ls {quoted(path)}")
    config = json.loads((path / "config.json").read_text("utf-8"))
    if not isinstance(config, dict) or "model_type" not in config:
        raise UsageError(f"{path} is not a folder of transformers", why="its config.json has no model_type")
    family = str(config["model_type"])
    causal = any(str(item).endswith(("CausalLM", "LMHeadModel")) for item in config.get("architectures") or ())
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
        if config.get("is_encoder_decoder"):
            target = ("batch", "target_sequence")
            inputs.append(InputFact("decoder_input_ids", "int64", target, int(config["vocab_size"]) - 1))
    longest = int(config.get("max_position_embeddings") or config.get("n_positions") or 0)
    size = min(TRIED, longest - MARGIN) if longest else TRIED
    again = "write a function that returns it, and declare what it takes: orun init file.py:function --input ..."
    outputs, sizes = _called(str(path), _pretrained(path), inputs, again, by_name=True, size=size)
    return ModelFacts(
        "torch",
        name,
        tuple(inputs),
        outputs,
        sizes,
        family=FAMILIES.get(family, "bert"),
        longest=max(longest - MARGIN, 0),
    )


def _pretrained(path: Path) -> Any:
    """Return a model of transformers from its folder, without a cache between calls; no code in the folder is run."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    config.use_cache = False
    model_class = getattr(transformers, (config.architectures or ["AutoModel"])[0])
    return model_class.from_pretrained(path, config=config, local_files_only=True).eval()


def inspect_program(name: str, path: Path) -> ModelFacts:
    """Return the facts about an ExportedProgram, which knows its inputs."""
    import torch

    program = torch.export.load(path)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    inputs = []
    for item in program.graph_signature.user_inputs:
        value = values[item]
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        inputs.append(with_mask(InputFact(item, str(value.dtype).removeprefix("torch."), shape)))
    return ModelFacts("torch", name, tuple(inputs), output_names(len(program.graph_signature.user_outputs)))


def inspect_torchscript(name: str, path: Path, inputs: tuple[InputFact, ...]) -> ModelFacts:
    """Return the facts about a TorchScript file.

    Raises:
        UsageError: when the file holds weights or a pickled module instead.
    """
    import torch

    try:
        module = torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        raise UsageError(
            f"{path} is not TorchScript",
            why="a file of torch.save holds weights, or a pickled module, which orun does not unpickle",
            hint="write a function that builds the module and loads them: orun init file.py:function",
        ) from error
    return inspect_module(name, module, [item.debugName() for item in module.graph.inputs()][1:], inputs)


def forward_parameters(module: Any) -> list[str]:
    """Return the names of the inputs of a module's `forward`."""
    return [item for item in inspect.signature(module.forward).parameters if item not in ("args", "kwargs")]


def inspect_module(name: str, module: Any, parameters: Sequence[str], inputs: tuple[InputFact, ...]) -> ModelFacts:
    """Return the facts about a module, whose outputs are counted by one call.

    Raises:
        InputsUnknown: when no inputs are declared.
    """
    if not inputs:
        declared = " ".join(f"--input '{item}=float32[batch,...]'" for item in parameters)
        raise InputsUnknown(
            f"{name} does not say what it takes",
            parameters,
            why=f"its forward has the parameters {', '.join(parameters)}, and PyTorch keeps no shapes",
            hint=f"orun init {name} {declared}",
        )
    by_name = {item.name for item in inputs} <= set(parameters)
    again = "declare the types and axes that it takes: --input 'NAME=float32[batch,...]'"
    outputs, sizes = _called(name, module.eval(), inputs, again, by_name=by_name)
    return ModelFacts("torch", name, inputs, outputs, sizes)


def _called(
    name: str, module: Any, inputs: Sequence[InputFact], hint: str, *, by_name: bool, size: int = TRIED
) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    """Return the names of a module's outputs, and the sizes of its dynamic axes if it does not take small ones.

    Raises:
        UsageError: when it cannot be called with these inputs.
    """
    try:
        outputs = _outputs(module, inputs, by_name=by_name, size=size)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(
            f"{name} cannot be called with {', '.join(map(str, inputs))}",
            why=f"{type(error).__name__}: {lines[0] if lines else 'without a message'}",
            hint=hint,
        ) from error
    batch = {item.shape[0] for item in inputs if item.shape}
    axes = [axis for axis in list_free(item.shape for item in inputs) if axis not in batch]
    try:
        _outputs(module, inputs, by_name=by_name, size=min(SIZES))
    except Exception:  # noqa: BLE001 - whatever a module raises for sizes that it cannot take
        return outputs, dict.fromkeys(axes, (size, size + size // 2))
    return outputs, {}


def output_names(count: int) -> tuple[str, ...]:
    """Return names for the outputs of a model that has none."""
    return ("output",) if count == 1 else tuple(f"output{number}" for number in range(count))


def _outputs(module: Any, inputs: Sequence[InputFact], *, by_name: bool, size: int = TRIED) -> tuple[str, ...]:
    """Return names of a module's outputs after one call: the keys of a returned mapping, else numbers."""
    import torch

    from orun.stages._torch.export import flatten

    sizes: dict[str, int] = {}
    feeds = {}
    for item in inputs:
        shape = [
            axis if isinstance(axis, int) else sizes.setdefault(axis, 2 if not sizes else size) for axis in item.shape
        ]
        feeds[item.name] = torch.ones(shape, dtype=getattr(torch, item.dtype))
    with torch.no_grad():
        result = module(**feeds) if by_name else module(*feeds.values())
    count = len(list(flatten(result)))
    if isinstance(result, Mapping) and len(result) == count:
        return tuple(map(str, result))
    return output_names(count)
