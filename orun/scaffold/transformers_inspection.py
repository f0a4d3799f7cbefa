"""Inspection of folders of transformers: inputs by the model's class and configuration, outputs by one call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.scaffold.image_declaration import USUAL_SIDE
from orun.scaffold.model_facts import InputFact, ModelFacts
from orun.scaffold.model_files import PREPARATION, read_json, read_object
from orun.scaffold.torch_inspection import TRIED, call_once, list_forward_parameters
from orun.stages._data.texts import load_tokenizer
from orun.stages._torch.pretrained import UnknownClass, load_pretrained

# What `optimize/transformer` calls the families of transformers' configurations.
FAMILIES = {
    "albert": "bert", "bart": "bart", "bert": "bert", "camembert": "bert", "clip": "clip", "deit": "vit",
    "distilbert": "bert", "electra": "bert", "gpt2": "gpt2", "gpt_neox": "gpt_neox", "mpnet": "bert", "phi": "phi",
    "qwen3": "qwen3", "roberta": "bert", "swin": "swin", "t5": "t5", "vit": "vit", "xlm-roberta": "bert",
}  # fmt: skip
SEGMENTS = "token_type_ids"  # the input that numbers the segments of a text
WEIGHT_FILES = ("model*.safetensors", "pytorch_model*.bin")
AGAIN = "write a function that returns it, and declare what it takes: orun init file.py:function --input ..."
OWN_CODE = (
    "if you trust the code that comes with it, write a function that returns AutoModel.from_pretrained(..., "
    "trust_remote_code=True): orun init file.py:function --input ..."
)


def has_weights(folder: Path) -> bool:
    """Return whether a folder of transformers holds PyTorch weights."""
    return any(file for pattern in WEIGHT_FILES for file in folder.glob(pattern))


def inspect_transformers(name: str, path: Path) -> ModelFacts:
    """Return the facts about a folder of transformers."""
    if not has_weights(path):
        why = "expected model.safetensors or pytorch_model.bin beside its config.json"
        raise UsageError(f"{path} has no weights", why=why, hint=f"git lfs pull, or copy them there: ls {quote(path)}")
    stated = json.loads((path / "config.json").read_text("utf-8"))
    if not isinstance(stated, dict) or "model_type" not in stated:
        raise UsageError(
            f"{path} is not a folder of transformers",
            why="its config.json has no model_type",
            hint="write a function that returns the model, such as timm.create_model(...): orun init file.py:function",
        )
    _require_known(path, stated)
    try:
        model = load_pretrained(str(path), local_files_only=True).eval()
    except UnknownClass as error:
        raise UsageError(f"{error}, which config.json of {path} names", hint=OWN_CODE) from error
    inputs = _list_inputs(path, model)
    longest = _find_longest(model)
    size = min(TRIED, longest) if longest else TRIED
    outputs, sizes = call_once(str(path), model, inputs, AGAIN, by_name=True, size=size)
    return ModelFacts(
        "torch",
        name,
        tuple(inputs),
        outputs,
        sizes,
        family=FAMILIES.get(model.config.model_type, "bert"),
        is_ctc=type(model).__name__.endswith("ForCTC"),
        longest=longest,
        warning=_warn_of_later_modules(path),
    )


def _warn_of_later_modules(path: Path) -> str:
    """Return a warning of the modules of sentence-transformers that follow the model; empty if there are none."""
    modules = read_json(path / "modules.json")
    types = [str(module["type"]) for module in modules[1:]] if isinstance(modules, list) else []
    names = ", ".join(title.rpartition(".")[2] for title in types)
    advice = "for the embedding of a text, write a function that returns the whole module: orun init file.py:function"
    return f"the release ends before {names}, which modules.json adds; {advice}" if names else ""


def _require_known(path: Path, stated: dict[str, Any]) -> None:
    """Refuse a type of model that transformers does not have.

    Raises:
        UsageError: with what to do: use the model's own code, or a newer transformers.
    """
    from transformers import CONFIG_MAPPING, __version__

    family = stated["model_type"]
    if family not in CONFIG_MAPPING:
        raise UsageError(
            f"transformers {__version__} has no model of the type {family!r}, which config.json of {path} names",
            hint=OWN_CODE if "auto_map" in stated else f"pip install --upgrade transformers; or {AGAIN}",
        )


def _list_inputs(path: Path, model: Any) -> list[InputFact]:
    """Return the inputs of a model, by what its class calls the main one.

    Raises:
        UsageError: when the main input is none of texts, images, videos or sounds.
    """
    config = model.config
    main = model.main_input_name
    if main == "pixel_values":
        inputs = [_describe_pixels(path, model)]
    elif main == "input_ids":
        inputs = _list_token_inputs(path, model)
        if hasattr(config, "vision_config") and "pixel_values" in list_forward_parameters(model):
            inputs.append(_describe_pixels(path, model))
    elif sound := _describe_sound(main, config):
        inputs = [sound]
    else:
        raise UsageError(f"orun does not know what {path} takes as {main}", hint=AGAIN)
    if config.is_encoder_decoder:
        vocabulary = config.get_text_config(decoder=True).vocab_size
        inputs.append(InputFact("decoder_input_ids", "int64", ("batch", "target_sequence"), vocabulary - 1))
    return inputs


def _list_token_inputs(path: Path, model: Any) -> list[InputFact]:
    """Return the inputs that a tokenizer makes of texts."""
    config = model.config.get_text_config()
    axes = ("batch", "sequence")
    is_causal = type(model).__name__.endswith(("CausalLM", "LMHeadModel"))
    inputs = [
        InputFact("input_ids", "int64", axes, config.vocab_size - 1),
        InputFact("attention_mask", "int64", axes, None, "right-padded" if is_causal else "mask"),
    ]
    segments = getattr(config, "type_vocab_size", 0)
    if segments > 1 and SEGMENTS in list_forward_parameters(model) and _makes_segments(path):
        inputs.append(InputFact(SEGMENTS, "int64", axes, segments - 1))
    return inputs


def _makes_segments(path: Path) -> bool:
    """Return whether the tokenizer beside a model numbers segments; True if there is none that can be read.

    RoBERTa's does not, although some of its models have embeddings for segments.
    """
    try:
        return SEGMENTS in load_tokenizer(Path(), str(path))("")
    except Exception:  # noqa: BLE001 - whatever reading a tokenizer runs into; a model can be built without it
        return True


def _describe_pixels(path: Path, model: Any) -> InputFact:
    """Return the images, or the frames of a video, that a model takes."""
    parts = (getattr(model.config, name, None) for name in ("vision_config", "encoder"))
    config = next(filter(None, parts), model.config)
    size = getattr(config, "image_size", None) or _read_prepared_size(path)
    height, width = (size, size) if isinstance(size, int) else size
    frames = getattr(config, "num_frames", None) if "video" in model.input_modalities else None
    image = (getattr(config, "num_channels", 3), height, width)
    return InputFact("pixel_values", "float32", ("batch", frames, *image) if frames else ("batch", *image))


def _read_prepared_size(path: Path) -> int | tuple[int, int]:
    """Return the size to which the file beside a model crops or resizes images, in pixels."""
    stated = read_object(path / PREPARATION)
    size = stated.get("crop_size") or stated.get("size") or USUAL_SIDE
    if isinstance(size, int):
        return size
    shortest = size.get("shortest_edge", USUAL_SIDE)
    return size.get("height", shortest), size.get("width", shortest)


def _describe_sound(main: str, config: Any) -> InputFact | None:
    """Return the waveform or the spectrogram that a model takes; None if its configuration has no size for it."""
    bands = getattr(config, "num_mel_bins", None)
    if main == "input_values":
        return InputFact(main, "float32", ("batch", config.max_length, bands) if bands else ("batch", "samples"))
    if main != "input_features":
        return None
    if bands:  # of Whisper, whose convolution halves the frames
        return InputFact(main, "float32", ("batch", bands, 2 * config.max_source_positions))
    if bands := getattr(config, "input_feat_per_channel", None):
        return InputFact(main, "float32", ("batch", "frames", bands))
    return None


def _find_longest(model: Any) -> int:
    """Return the largest number of tokens that a model takes; 0 when unknown or unlimited."""
    config = model.config
    text = config.get_text_config(decoder=config.is_encoder_decoder or None)
    names = ("max_position_embeddings", "n_positions", "max_target_positions")
    stated = next((number for name in names if (number := getattr(text, name, None) or 0) > 0), 0)
    return max(stated - _count_unused_positions(model), 0)


def _count_unused_positions(model: Any) -> int:
    """Return how many of the first positions stand for padding, as in RoBERTa, and not for tokens."""
    padding = [
        module.padding_idx
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return padding[0] + 1 if padding else 0
