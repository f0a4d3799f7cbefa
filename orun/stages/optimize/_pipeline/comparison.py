"""Comparison of the model with the Python code that it replaces: Pillow, `transformers` and NumPy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orun.measure.dataset import Array, choose, spread_indices
from orun.stages._data.images import ORIENTATION, list_images, open_image, prepare_image
from orun.stages._data.source import Images, Source, Text
from orun.stages._data.tables import read_lines
from orun.stages._data.texts import tokenize
from orun.stages._graph.agreement import check, run_cases
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.feeds import Case
from orun.stages._graph.io import load_graph
from orun.stages._graph.leniency import Agreement
from orun.stages._graph.sessions import open_model
from orun.stages._graph.signature import build_inputs
from orun.stages.contract import Context
from orun.stages.optimize._pipeline.draft import Draft
from orun.stages.optimize._pipeline.image import BYTES
from orun.stages.optimize._pipeline.outputs import Boxes, Labels
from orun.stages.optimize._pipeline.text import TEXT
from orun.stages.params import FilePath

if TYPE_CHECKING:
    from PIL.Image import Image

EXAMPLES = 16  # files or texts that are compared
FORMATS = ("JPEG", "MPO", "PNG")  # that the operator decodes; cameras append images to a JPEG file, and then it is MPO
TURNED = range(2, 9)  # values of the EXIF orientation that turn or mirror an image
MISREAD = ("\u0130", "\0")  # characters that the operator reads otherwise than `transformers`


def read_image_cases(context: Context, folder: str, images: Images) -> tuple[Case, ...]:
    """Return images of a folder as Pillow prepares them, with the bytes of their files: first one of each form.

    Raises:
        StageFailed: when the operator cannot decode a file.
    """
    root = context.root / folder
    files = list_images(root, folder, images)
    titles = [f"{folder}/{path.relative_to(root).as_posix()}" for path in files]
    forms = [_read_form(context, *item) for item in zip(files, titles, strict=True)]
    places = [forms.index(form) for form in dict.fromkeys(forms)]
    chosen = list(dict.fromkeys([*places, *spread_indices(len(files), EXAMPLES)]))[:EXAMPLES]
    return tuple(
        Case(
            titles[place],
            {},
            {
                images.input: prepare_image(files[place], titles[place], images)[None],
                BYTES: np.frombuffer(files[place].read_bytes(), np.uint8)[None],
            },
        )
        for place in chosen
    )


def _read_form(context: Context, path: Path, name: str) -> tuple[str | None, str, bool]:
    """Return the format and the mode of an image, and whether its EXIF orientation turns it."""
    with open_image(path, name) as opened:
        if opened.format not in FORMATS or opened.mode == "CMYK":
            raise context.failed(
                f"a model cannot decode {name}",
                why=f"it is {opened.format} in {opened.mode}; the operator decodes JPEG and PNG files, and no CMYK",
                hint="convert it to an RGB file that ends in .jpg or .png, or take it out of `examples`",
            )
        return opened.format, opened.mode, _is_turned(opened)


def _is_turned(image: Image) -> bool:
    return image.getexif().get(ORIENTATION) in TURNED


def explain_turned_image(cases: Sequence[Case]) -> str:
    """Name an image that Pillow turns and the operator does not; empty if there is none."""
    import PIL.Image

    for case in cases:
        if _is_turned(PIL.Image.open(BytesIO(case.feed[BYTES].tobytes()))):
            return (
                f"the operator does not turn {case.title} as its EXIF orientation says: turn such photos before the "
                "model, and leave them out here, or keep the preparation in your own code"
            )
    return ""


def read_text_cases(draft: Draft, file: str, tokenizer: str, length: int) -> tuple[Case, ...]:
    """Return each text of a file as `transformers` tokenizes it, with the text itself."""
    root, inputs = draft.context.root, {item.name: item for item in build_inputs(draft.model)}
    pad = any(isinstance(item.shape[-1], int) for item in inputs.values() if item.shape)
    texts = read_lines(root / file, file)["text"]
    texts = choose(texts, spread_indices(len(texts), EXAMPLES))
    source = Source(FilePath(file), text=Text(FilePath(tokenizer), length=length, pad=pad))
    dataset = tokenize(root, file, {"text": texts}, source)
    return tuple(
        Case(
            f"{texts[number]!r:.60}",
            {},
            {
                TEXT: np.array([texts[number]], object),
                **{
                    name: np.asarray(values[number])[None].astype(inputs[name].dtype)
                    for name, values in dataset.inputs.items()
                    if name in inputs
                },
            },
        )
        for number in range(len(dataset))
    )


def explain_odd_texts(cases: Sequence[Case], special: Collection[str]) -> str:
    """Name what texts contain that the operator tokenizes otherwise than `transformers`; empty if there is nothing."""
    texts = [str(text) for case in cases for text in case.feed[TEXT]]
    written = [sign for sign in (*special, *MISREAD) if any(sign in text for text in texts)]
    if not written:
        return ""
    return (
        f"the operator reads {', '.join(map(repr, written))} otherwise than transformers: leave such texts out if your "
        "users write none, or keep the tokenizer in your own code"
    )


def compare_preparation(
    context: Context, model: Path, cases: Sequence[Case], code: str, tolerance: Tolerance, hint: str
) -> float:
    """Compare a model that prepares its inputs with the one before it on what Python prepared.

    `code` is what prepared the inputs (`Pillow`), `hint` what to do about a disagreement whose cause is known.

    Raises:
        StageFailed: when the outputs disagree.
    """
    outputs = [value.name for value in load_graph(context.model()).graph.output]
    expected = run_cases(context, "the model before it", open_model(context.model(), outputs), cases)
    agreement = Agreement(
        "the model with its preparation",
        f"the model on what {code} prepares",
        outputs,
        tolerance,
        hint or "raise `atol` if so much is small for your outputs, or keep the preparation in your own code",
    )
    return check(context, agreement, cases, expected, open_model(model, outputs))


def compare_outputs(
    context: Context,
    before: Path,
    cases: Sequence[Case],
    labels: Labels | None,
    boxes: Boxes | None,
    tolerance: Tolerance,
) -> float:
    """Compare the labels or boxes of the result with what NumPy makes of the outputs before it.

    Raises:
        StageFailed: when they disagree.
    """
    graph = load_graph(before).graph
    names = [value.name for value in graph.output]
    plain = run_cases(context, "the model before it", open_model(before, names), cases)
    after = [value.name for value in load_graph(context.result).graph.output]
    expected = [_compute_expected(dict(zip(names, values, strict=True)), labels, boxes) for values in plain]
    agreement = Agreement("the model with its outputs", "what NumPy makes of them", after, tolerance, "")
    wanted = [[values[name] for name in after] for values in expected]
    return check(context, agreement, cases, wanted, open_model(context.result, after))


def _compute_expected(values: Mapping[str, Array], labels: Labels | None, boxes: Boxes | None) -> dict[str, Array]:
    results = dict(values)
    if labels:
        results |= choose_labels(values[labels.output or next(iter(values))], labels)
    if boxes:
        results |= choose_boxes(values[boxes.output or next(iter(values))], boxes)
    return results


def choose_labels(scores: Array, labels: Labels) -> dict[str, Array]:
    """Return the best classes of each row and their scores; of equal scores, the first class is the better."""
    if labels.softmax:
        exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores = exponents / exponents.sum(axis=-1, keepdims=True)
    order = np.argsort(-scores, axis=-1, kind="stable")[:, : labels.top]
    named = np.array(labels.names, object)[order] if labels.names else order
    return {"labels": named, "scores": np.take_along_axis(scores, order, axis=-1)}


def choose_boxes(output: Array, boxes: Boxes) -> dict[str, Array]:
    """Return the boxes of all images and classes, best first, that no better box of the class overlaps too much."""
    rows: list[tuple[Array, float, int, int]] = []
    for image, values in enumerate(output):
        middle, size = values[:2].T, values[2:4].T
        corners = np.concatenate([middle - size / 2, middle + size / 2], axis=1)
        for number, scores in enumerate(values[4:]):
            kept: list[int] = []
            for place in np.argsort(-scores, kind="stable"):
                if scores[place] <= boxes.score or len(kept) == boxes.most:
                    break
                if all(compute_overlap(corners[place], corners[other]) <= boxes.overlap for other in kept):
                    kept.append(int(place))
            rows += [(corners[place], scores[place], number, image) for place in kept]
    return {
        "boxes": np.array([row[0] for row in rows], np.float32).reshape(-1, 4),
        "scores": np.array([row[1] for row in rows], np.float32),
        "classes": np.array([row[2] for row in rows], np.int64),
        "images": np.array([row[3] for row in rows], np.int64),
    }


def compute_overlap(box: Array, other: Array) -> float:
    """Return the intersection of two boxes over their union."""
    lengths = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    shared = float(np.prod(np.maximum(lengths, 0)))
    union = float(np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2])) - shared
    return shared / union if union > 0 else 0.0
