"""Boxes and texts in the outputs of a model: parameters of `measure/accuracy`, and the functions that they ask for."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Literal

from orun.measure.accuracy.names import DETECTION, TRANSCRIPTION
from orun.stages.contract import Context
from orun.stages.params import Code, Doc, FilePath

if TYPE_CHECKING:
    from orun.measure.dataset import Values

LIBRARIES: Mapping[str, str] = {
    **dict.fromkeys(DETECTION, "pycocotools"),
    **dict.fromkeys(TRANSCRIPTION, "rapidfuzz"),
}
"""Library that a metric needs; module and distribution have the same name."""
Step = Literal["unicode", "lowercase", "punctuation"]


@dataclass(frozen=True)
class Detections:
    """Outputs that hold the boxes which a model detects."""

    format: Annotated[
        Literal["xyxy", "xywh", "cxcywh"],
        Doc("Numbers of a box: two corners; a corner, width and height; or the centre, width and height."),
    ]
    boxes: Annotated[
        str, Doc("Output of the boxes: `[n, k, 4]`, or `[n, k, 6]` with the score and the class of each.")
    ] = "boxes"
    scores: Annotated[str, Doc("Output of their scores, `[n, k]`.")] = "scores"
    classes: Annotated[str, Doc("Output of their classes, `[n, k]`.")] = "classes"


@dataclass(frozen=True)
class Text:
    """Texts of a model and of the labels."""

    tokenizer: Annotated[
        FilePath | None,
        Doc(
            "Folder of a tokenizer of `transformers`, which makes texts of the judged output: token ids `[n, length]`, "
            "or scores `[n, length, tokens]`, of which the best is taken. A CTC tokenizer joins repetitions."
        ),
    ] = None
    normalize: Annotated[
        list[Step | Code],
        Doc(
            "Steps for the texts of model and labels, in this order: `unicode` (NFKC), `lowercase`, `punctuation` "
            "(removed), or a function of a text. Nothing is normalized when left out."
        ),
    ] = field(default_factory=list)


def list_libraries(metrics: Collection[str], text: Text | None) -> dict[str, str]:
    """Return the distributions that metrics and the tokenizer need, each with its reason."""
    needed = {LIBRARIES[name]: f"the metric `{name}`" for name in metrics if name in LIBRARIES}
    if text is not None and text.tokenizer is not None:
        needed["transformers"] = f"the tokenizer {text.tokenizer}"
    return needed


def require_parameters(
    context: Context, metrics: Collection[str], detections: Detections | None, text: Text | None
) -> None:
    """Raise StageFailed if a metric lacks its parameter, or a parameter has no metric."""
    boxes = [name for name in metrics if name in DETECTION]
    if boxes and detections is None:
        raise context.failed(
            f"{boxes[0]} needs to know how the outputs hold boxes",
            hint="say it: `detections: {format: xyxy, boxes: NAME, scores: NAME, classes: NAME}`",
        )
    for value, name, wanted in ((detections, "detections", DETECTION), (text, "text", TRANSCRIPTION)):
        if value is not None and not any(metric in wanted for metric in metrics):
            raise context.failed(
                f"`{name}` is set, and no metric reads it",
                hint=f"add one of {', '.join(wanted)} to `metrics`, or leave `{name}` out",
            )


def make_decoder(context: Context, text: Text | None) -> Callable[[Values], Values] | None:
    """Return a function from the judged output to texts; None if the output holds texts itself."""
    if text is None or text.tokenizer is None:
        return None
    import numpy as np

    from orun.stages._data.texts import load_tokenizer

    tokenizer = load_tokenizer(context.root, text.tokenizer)
    # A CTC tokenizer drops its blanks itself; without them beforehand it would join the two letters of "ll".
    options = {} if hasattr(tokenizer, "word_delimiter_token") else {"skip_special_tokens": True}

    def decode(values: Values) -> Values:
        texts = []
        for example, value in enumerate(values):
            ids = value.argmax(axis=-1) if value.dtype.kind == "f" else value
            if ids.ndim != 1 or ids.dtype.kind not in "iu":
                form = "a text" if ids.dtype.kind in "OUS" else f"{value.dtype} {list(value.shape)}"
                raise context.failed(
                    "the tokenizer needs token ids `[length]` of each example, or scores `[length, tokens]`",
                    why=f"the judged output of example {example} is {form}",
                    hint="name the output that holds them first: `outputs: [NAME]`",
                )
            texts.append(tokenizer.decode(ids[ids >= 0].tolist(), **options))
        return np.array(texts, dtype=object)

    return decode


def make_normalizer(context: Context, steps: Sequence[Step | Code]) -> Callable[[str], str]:
    """Return the function that applies these steps to a text."""
    functions = [STEPS[step] if step in STEPS else _load_normalizer(context, Code(step)) for step in steps]
    return lambda text: reduce(lambda so_far, function: function(so_far), functions, text)


def _load_normalizer(context: Context, reference: Code) -> Callable[[str], str]:
    function = context.load(reference, ("text",))

    def normalize(text: str) -> str:
        result = function(text)
        if not isinstance(result, str):
            raise context.failed(
                f"normalize: {reference} must return a text",
                why=f"it returned a {type(result).__name__} for {text!r:.80}",
            )
        return result

    return normalize


def _remove_punctuation(text: str) -> str:
    letters = "".join(letter for letter in text if not unicodedata.category(letter).startswith("P"))
    return " ".join(letters.split())


STEPS: Mapping[str, Callable[[str], str]] = {
    "unicode": lambda text: unicodedata.normalize("NFKC", text),
    "lowercase": str.lower,
    "punctuation": _remove_punctuation,
}
