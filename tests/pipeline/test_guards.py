"""Stages that a release waits for without naming them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from orun.pipeline.graph import RENDERERS, select
from tests.pipeline.support import EXPORT, loaded

INT8 = "  int8: {uses: quantize/dynamic, needs: export}\n"
SIZE = "  size: {uses: measure/size, needs: int8, gate: {size: {max: 1MB}}}\n"
RELEASE = "  release: {uses: release/bundle, needs: int8}\n"
TARGETS = "targets: {one: {providers: [CPUExecutionProvider]}, two: {providers: [CPUExecutionProvider]}}\n"


def guards(folder: Path, stages: str, before: str = "") -> Mapping[str, tuple[str, ...]]:
    pipeline = loaded(folder, f"{before}stages:\n{EXPORT}{INT8}{stages}")
    return {stage.id: stage.guards for stage in pipeline.stages if stage.guards}


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (RELEASE + SIZE, {"release": ("size",)}),
        (RELEASE + SIZE.replace("1MB}", "1MB, undecided: allow}"), {"release": ("size",)}),
        (RELEASE + "  size: {uses: measure/size, needs: int8}\n", {}),  # nothing is asked of it
        (RELEASE + SIZE.replace("int8", "export"), {}),  # another model
        (RELEASE.replace("int8", "[int8, size]") + SIZE, {}),  # named
        (RELEASE + "  check: {uses: check/model, needs: int8}\n", {"release": ("check",)}),
        (RELEASE + "  check: {uses: check/coverage, needs: int8}\n", {"release": ("check",)}),
        (
            "  triton: {uses: release/triton, needs: int8, with: {name: x, max_batch_size: 0}}\n" + SIZE,
            {"triton": ("size",)},
        ),
        # a card is released: what guards it is before the release of it
        (
            "  card: {uses: release/card, needs: int8}\n" + SIZE + RELEASE.replace("int8", "{model: int8, card: card}"),
            {"card": ("size",)},
        ),
        # of two models the one that is compared with is not judged
        (
            RELEASE.replace("int8", "export")
            + "  size: {uses: measure/size, needs: {model: int8, reference: export}, gate: {size: {max: 1MB}}}\n",
            {},
        ),
        # a gate of what makes another model is no gate of this one
        (
            RELEASE.replace("int8", "export")
            + INT8.replace("int8", "gated").rstrip("}\n")
            + ", gate: {size: {max: 1kB}}}\n",
            {},
        ),
        # what a bundle holds, and the bundle, are what is published; a check of the bundle cannot come before it
        (
            "  publish: {uses: release/publish, needs: release, with: {to: there}}\n"
            "  serve: {uses: release/serve-check, needs: release}\n" + RELEASE + SIZE,
            {"release": ("size",), "publish": ("serve",)},
        ),
        # other metadata, the same weights
        (
            "  told: {uses: release/metadata, needs: int8, with: {model_version: 1}}\n"
            + RELEASE.replace("int8", "told")
            + "  told-size: {uses: measure/size, needs: told, gate: {size: {max: 1MB}}}\n"
            + SIZE,
            {"release": ("told-size", "size")},
        ),
    ],
)
def test_what_judges_the_very_artifact_guards_its_release(
    tmp_path: Path, stages: str, expected: Mapping[str, tuple[str, ...]]
) -> None:
    assert guards(tmp_path, stages) == expected


def test_of_a_matrix_the_same_values_guard(tmp_path: Path) -> None:
    latency = (
        "  latency:\n    uses: measure/latency\n    needs: int8\n    matrix: {on: [one, two]}\n"
        '    with: {target: "${matrix.on}"}\n    gate: {p50: {max: 1s}}\n'
    )
    release = (
        "  release:\n    uses: release/triton\n    needs: int8\n    matrix: {on: [one, two], kind: [a]}\n"
        '    with: {name: "${matrix.kind}", target: "${matrix.on}"}\n'
    )
    assert guards(tmp_path / "both", release + latency, TARGETS) == {
        "release[on=one,kind=a]": ("latency[on=one]",),
        "release[on=two,kind=a]": ("latency[on=two]",),
    }
    assert guards(tmp_path / "all", RELEASE + latency, TARGETS) == {"release": ("latency[on=one]", "latency[on=two]")}


def test_two_releases_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Each gate comes after the release that the other one guards: the first of the file is left without."""
    stages = (
        "  one: {uses: release/bundle, needs: int8}\n"
        "  two: {uses: release/bundle, needs: export}\n"
        "  of-int8: {uses: measure/size, needs: [int8, two], gate: {size: {max: 1MB}}}\n"
        "  of-export: {uses: measure/size, needs: [export, one], gate: {size: {max: 1MB}}}\n"
    )
    assert guards(tmp_path, stages) == {"one": ("of-int8",)}


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    tmp_path.joinpath("own.py").write_text(
        "from orun import stage\n\n\n"
        "@stage(output='files', releases=True)\ndef upload(context): ...\n\n\n"
        "@stage(output='metrics', metrics=['score'])\ndef score(context): ...\n"
    )
    stages = "  up: {uses: ./own.py:upload, needs: int8}\n  score: {uses: ./own.py:score, needs: int8"
    assert guards(tmp_path, f"{stages}, gate: {{score: {{min: 1}}}}}}\n") == {"up": ("score",)}
    assert guards(tmp_path, f"{stages}}}\n") == {}


@pytest.mark.parametrize(
    ("output", "model", "expected"),
    [
        ("metrics", "int8, reference: export", {"up": ("judge",)}),  # whatever comes first in `inputs`
        ("metrics", "export, reference: int8", {}),
        ("files", "int8, reference: export", {"up": ("judge",)}),  # a page of figures, for example
        ("dataset", "int8, reference: export", {"up": ("judge",)}),
        ("onnx", "int8, reference: export", {}),  # of another model
    ],
)
def test_what_a_function_of_ones_own_judges(
    tmp_path: Path, output: str, model: str, expected: Mapping[str, tuple[str, ...]]
) -> None:
    tmp_path.joinpath("own.py").write_text(
        "from orun import stage\n\n\n"
        "@stage(output='files', releases=True)\ndef upload(context): ...\n\n\n"
        f"@stage(inputs={{'reference': 'onnx', 'model': 'onnx'}}, output='{output}', metrics=['score'])\n"
        "def judge(context): ...\n"
    )
    judge = f"  judge: {{uses: ./own.py:judge, needs: {{model: {model}}}, gate: {{score: {{min: 1}}}}}}\n"
    assert guards(tmp_path, "  up: {uses: ./own.py:upload, needs: int8}\n" + judge) == expected


def test_a_release_that_measures_does_not_wait_for_itself(tmp_path: Path) -> None:
    tmp_path.joinpath("own.py").write_text(
        "from orun import stage\n\n\n"
        "@stage(output='metrics', releases=True, metrics=['score'])\ndef send(context): ...\n"
    )
    assert guards(tmp_path, "  send: {uses: ./own.py:send, needs: int8, gate: {score: {min: 1}}}\n" + SIZE) == {
        "send": ("size",)
    }


def test_it_is_drawn_and_chosen_with_the_release(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, f"stages:\n{RELEASE}{EXPORT}{INT8}{SIZE}")
    assert RENDERERS["text"](pipeline).split("\n")[-1] == "release  release/bundle    <- model: int8, guarded by size"
    assert [line for line in RENDERERS["mermaid"](pipeline).split("\n") if "-.->" in line] == ["  s2 -.-> s3"]
    assert [stage.id for stage in select(pipeline, to=["release"])] == ["export", "int8", "size", "release"]
    assert [stage.id for stage in select(pipeline, from_=["size"])] == ["size", "release"]
