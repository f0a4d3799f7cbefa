"""Put the preparation of inputs and the reading of outputs into the model, so that users need no code for them.

- `image`: the model takes the bytes of a JPEG or PNG file, `image_bytes [1, bytes]`, and decodes, resizes, crops and
  normalizes the image as Pillow does. The keys are those of a dataset of images (see `measure/accuracy`). Photos that
  their file says to turn (EXIF orientation) are not turned: turn them before. CMYK JPEGs are not read, and a file of
  another format may end the process.
- `text`: the model takes texts, `text [batch]`, and makes the tokens of a BERT WordPiece tokenizer.
- `labels`: a classifier yields the best `labels` and their `scores`, after a softmax.
- `boxes`: a detector yields `boxes` (two corners each), `scores`, `classes` and the number of the image, after
  non-maximum suppression.

Decoding and tokenizing are operators of onnxruntime-extensions. Sessions of orun load its library by themselves. A
release says that it needs the library, and its card shows how to load it.

The result is compared with the Python code that it replaces, on `examples`: with Pillow and with the tokenizer of
`transformers`, by the outputs of the model, and with NumPy for labels and boxes. Decoded PNG files are equal; decoders
of JPEG and resizing may round to the next of 255 steps.

Random bytes are no image, so stages that measure the result need `inputs` with files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import COUNT, LOWER, SIZE
from orun.stages._data.source import Images
from orun.stages.common_parameters import Dims
from orun.stages.contract import Context, Port, Spec
from orun.stages.optimize._pipeline.outputs import Boxes, Labels
from orun.stages.params import Doc, FilePath, Range

if TYPE_CHECKING:
    from orun.stages._graph.feeds import Case
    from orun.stages.optimize._pipeline.draft import Draft
    from orun.stages.optimize._pipeline.wordpiece import WordPiece

EXACT = (1e-4, 1e-3)  # errors, absolute and relative, of outputs whose inputs are equal
ROUNDED = 0.02  # likewise, of images whose pixels may differ by a step
SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model that takes prepared inputs.")},
    tools=("onnxruntime|onnxruntime-gpu", "onnx", "onnxruntime-extensions", "numpy"),
    extra="extensions",
    interface="changed",
    preload=("onnx", "onnxruntime"),
    metrics={"size": SIZE, "nodes": LOWER, "nodes_before": LOWER, "compared": COUNT, "max_abs_error": LOWER},
)


@dataclass(frozen=True)
class Tokens:
    """Tokens of texts, for the inputs `input_ids`, `attention_mask` and `token_type_ids`."""

    tokenizer: Annotated[FilePath, Doc("Folder of a BERT WordPiece tokenizer, from `save_pretrained`.")]
    length: Annotated[
        int | None, Doc("Most tokens of a text, which is cut there; the tokenizer's own limit when left out."), Range(3)
    ] = None


@dataclass(frozen=True)
class Params:
    """Parameters of `optimize/pipeline-in-model`."""

    image: Annotated[Images | None, Doc("Take the bytes of an image file in the place of an input.")] = None
    text: Annotated[Tokens | None, Doc("Take texts in the place of tokens.")] = None
    labels: Annotated[Labels | None, Doc("Yield the best labels.")] = None
    boxes: Annotated[Boxes | None, Doc("Yield the boxes of a detector.")] = None
    examples: Annotated[
        FilePath | None,
        Doc(
            "Required with `image`, a folder of JPEG or PNG files to compare on, and with `text`, a .txt file with a "
            "text in each line."
        ),
    ] = None
    dims: Dims = field(default_factory=dict)
    atol: Annotated[
        float | None,
        Doc(
            "Largest allowed absolute error of outputs, in addition to `rtol` times the value; when left out 1e-4, and"
            " 0.02 with `image`, because pixels may be rounded to the next of 255 steps."
        ),
        Range(0),
    ] = None
    rtol: Annotated[
        float | None, Doc("Largest allowed relative error; when left out 1e-3, and 0.02 with `image`."), Range(0)
    ] = None


def packages(params: Params, _root: Path) -> Mapping[str, str]:
    """Return the packages that the comparison needs."""
    needed = {"pillow|pillow-simd": "`image`"} if params.image else {}
    return {**needed, "transformers": "`text`"} if params.text else needed


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the model with its pipeline to `context.result`."""
    from orun.stages._graph.differences import Tolerance
    from orun.stages._graph.input_domain import read_domain, write_domain
    from orun.stages._graph.io import load_graph, save_graph, weigh
    from orun.stages._graph.signature import fit_domain
    from orun.stages.optimize._pipeline.comparison import (
        compare_outputs,
        compare_preparation,
        explain_odd_texts,
        explain_turned_image,
    )
    from orun.stages.optimize._pipeline.draft import Draft
    from orun.stages.optimize._pipeline.image import add_decoding
    from orun.stages.optimize._pipeline.outputs import add_boxes, add_labels
    from orun.stages.optimize._pipeline.text import add_tokenizer
    from orun.stages.optimize._pipeline.wordpiece import read_wordpiece

    _require_sense(context, params)
    draft = Draft(context, load_graph(context.model()))
    text = params.text
    tokenizer = read_wordpiece(context.root, text.tokenizer, text.length) if text else None
    cases = _read_cases(draft, params, tokenizer)
    atol, rtol = (ROUNDED, ROUNDED) if params.image else EXACT
    tolerance = Tolerance(atol if params.atol is None else params.atol, rtol if params.rtol is None else params.rtol)
    prepared, errors = context.model(), list[float]()
    if params.image or params.text:
        if params.image:
            add_decoding(draft, params.image)
        if tokenizer:
            add_tokenizer(draft, tokenizer)
        prepared = Path("prepared", prepared.name)  # in the temporary working folder
        prepared.parent.mkdir()
        save_graph(draft.model, context.model(), prepared)
        code = "Pillow" if params.image else "transformers"
        hint = explain_odd_texts(cases, tokenizer.special.values()) if tokenizer else explain_turned_image(cases)
        errors.append(compare_preparation(context, prepared, cases, code, tolerance, hint))
    if params.labels:
        add_labels(draft, params.labels)
    if params.boxes:
        add_boxes(draft, params.boxes)
    write_domain(draft.model, fit_domain(draft.model, read_domain(draft.model)))
    save_graph(draft.model, context.model(), context.result)
    if params.labels or params.boxes:
        errors.append(compare_outputs(context, prepared, cases, params.labels, params.boxes, tolerance))
    return {
        **weigh(context.result),
        "nodes_before": weigh(context.model())["nodes"],
        "compared": len(cases),
        "max_abs_error": max(errors),
    }


def _require_sense(context: Context, params: Params) -> None:
    if not (params.image or params.text or params.labels or params.boxes):
        hint = "set `image`, `text`, `labels` or `boxes`"
        raise context.failed("there is nothing to put into the model", hint=hint)
    if params.image and params.text:
        raise context.failed(
            "`image` and `text` cannot both be put into a model",
            why="a file of examples holds one of them",
            hint="prepare one of them in your own code",
        )
    if (params.image or params.text) and params.examples is None:
        kind = "a folder of images" if params.image else "a .txt file with a text in each line"
        raise context.failed(
            "`examples` is missing",
            why="the result is compared with the code that it replaces",
            hint=f"`examples: PATH`, {kind}",
        )
    if params.text and params.examples and Path(params.examples).suffix != ".txt":
        raise context.failed(f"{params.examples} is not a .txt file", why="texts are read from its lines")
    if params.examples is not None and not (params.image or params.text):
        why = "without these, inputs are made up"
        raise context.failed("`examples` is for `image` and `text`", why=why, hint="leave it out")


def _read_cases(draft: Draft, params: Params, tokenizer: WordPiece | None) -> Sequence[Case]:
    """Return the inputs to compare on, as the code prepares them and as they are."""
    from orun.stages._graph.agreement import Trial, load_cases
    from orun.stages.optimize._pipeline.comparison import read_image_cases, read_text_cases

    if params.image and params.examples:
        return read_image_cases(draft.context, params.examples, params.image)
    if params.text and params.examples and tokenizer:
        return read_text_cases(draft, params.examples, params.text.tokenizer, tokenizer.length)
    return load_cases(draft.context, draft.model, Trial(params.dims))
