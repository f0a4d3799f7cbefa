"""Tokens of texts inside the model, by the BERT tokenizer of onnxruntime-extensions."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, TensorProto, helper

from orun.measure.extension_operators import DOMAIN
from orun.stages._graph.io import list_input_names
from orun.stages._graph.signature import name_axes
from orun.stages.optimize._pipeline.draft import Draft, Nodes
from orun.stages.optimize._pipeline.wordpiece import WordPiece

TEXT = "text"  # name of the new input
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"  # inputs of BERT, the last one optional
ORDER = (IDS, TYPES, MASK)  # of the operator's outputs
INTEGERS = (TensorProto.INT64, TensorProto.INT32)


def add_tokenizer(draft: Draft, tokenizer: WordPiece) -> None:
    """Let the model take texts, `[batch]`, in the place of tokens; they are padded to the longest of a batch.

    Raises:
        StageFailed: when the model has other inputs than BERT.
    """
    inputs = [name for name in (IDS, MASK, TYPES) if name in list_input_names(draft.model)]
    _require_tokens(draft, inputs)
    fixed = next((size for name in inputs if isinstance(size := name_axes(draft.require_input(name))[1], int)), None)
    if fixed not in (None, tokenizer.length):
        raise draft.context.failed(
            f"the model takes {fixed} tokens, and `length` is {tokenizer.length}", hint=f"`length: {fixed}`"
        )
    nodes = draft.begin_step(TEXT)
    tokens = dict(zip(ORDER, _tokenize(nodes, tokenizer), strict=True))
    if fixed is None:
        counts = nodes.add("ReduceSum", tokens[MASK], nodes.add_constant(np.array([1], np.int64)), keepdims=0)
        longest = nodes.add("ReduceMax", counts, keepdims=1)
        zero, axis = (nodes.add_constant(np.array([number], np.int64)) for number in (0, 1))
        tokens = {name: nodes.add("Slice", value, zero, longest, axis) for name, value in tokens.items()}
    for name in inputs:
        nodes.add("Cast", tokens[name], outputs=[name], to=draft.require_input(name).type.tensor_type.elem_type)
    batch = name_axes(draft.require_input(IDS))[:1]
    draft.replace_inputs(inputs, helper.make_tensor_value_info(TEXT, TensorProto.STRING, batch), nodes)


def _require_tokens(draft: Draft, inputs: list[str]) -> None:
    if {IDS, MASK} - set(inputs):
        known = ", ".join(list_input_names(draft.model))
        raise draft.context.failed(
            f"the model has no inputs {IDS} and {MASK} for tokens",
            why=f"it has {known}",
            hint="rename them: `rename` of `optimize/edit`",
        )
    for name in inputs:
        tensor = draft.require_input(name).type.tensor_type
        if tensor.elem_type not in INTEGERS or len(tensor.shape.dim) != 2:  # noqa: PLR2004 - batch and tokens
            kind = TensorProto.DataType.Name(tensor.elem_type).lower()
            raise draft.context.failed(
                f"input {name!r} is {kind} of {len(tensor.shape.dim)} axes, and tokens are int64 or int32 of two"
            )


def _tokenize(nodes: Nodes, tokenizer: WordPiece) -> list[str]:
    """Tokenize each text; return ids, types and mask, `[batch, length]`. The operator takes one text at a time."""
    zero = nodes.add_constant(np.array(0, np.int64))
    count = nodes.add("Gather", nodes.add("Shape", TEXT), zero)
    body = _build_loop_body(nodes.step, tokenizer)
    outputs = [f"{nodes.step}/padded_{name}" for name in ORDER]
    nodes.add("Loop", count, "", outputs=outputs, body=body)
    return outputs


def _build_loop_body(step: str, tokenizer: WordPiece) -> GraphProto:
    """Return the graph that tokenizes the text of one number, and pads its tokens."""
    body = Nodes(f"{step}/one")
    first = np.array([0], np.int64)
    going, number = f"{body.step}/going", f"{body.step}/number"
    text = body.add("Gather", TEXT, body.add("Unsqueeze", number, body.add_constant(first)))
    tokens = [f"{body.step}/{name}" for name in ORDER]
    body.add("BertTokenizer", text, outputs=tokens, domain=DOMAIN, **_build_attributes(tokenizer))
    outputs = []
    for name, value in zip(ORDER, tokens, strict=True):
        filler = tokenizer.vocabulary.index(tokenizer.special["pad"]) if name == IDS else 0
        missing = body.add("Sub", body.add_constant(np.array([tokenizer.length], np.int64)), body.add("Shape", value))
        pads = body.add("Concat", body.add_constant(first), missing, axis=0)
        outputs.append(body.add("Pad", value, pads, body.add_constant(np.array(filler, np.int64))))
    still = body.add("Identity", going)
    return helper.make_graph(
        body.nodes,
        "tokenize",
        [
            helper.make_tensor_value_info(number, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info(still, TensorProto.BOOL, []),
            *(helper.make_tensor_value_info(output, TensorProto.INT64, [tokenizer.length]) for output in outputs),
        ],
    )


def _build_attributes(tokenizer: WordPiece) -> dict[str, str | int]:
    special = {f"{kind}_token": token for kind, token in tokenizer.special.items()}
    return {
        "vocab_file": "\n".join(tokenizer.vocabulary),
        "do_lower_case": int(tokenizer.lowercase),
        "strip_accents": int(tokenizer.strip_accents),
        "tokenize_chinese_chars": int(tokenizer.chinese),
        "suffix_indicator": tokenizer.prefix,
        "max_length": tokenizer.length,
        **special,
    }
