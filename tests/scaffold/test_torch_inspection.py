"""What `orun init` says of PyTorch modules that it cannot call as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.errors import UsageError
from orun.scaffold.inspection import inspect_model, parse_inputs
from tests.stages.conftest import MODULES

PACKED = (
    "  hint: name the input that it takes; if it takes several in one, let the function of `model` return a module "
    "around it, whose forward has a parameter for each of `inputs`"
)
FLOAT = "`return module.float()` in the function of `model`"
DECLARED = "  hint: the module's weights are {weights}, and its inputs are declared as {inputs}: {advice}"


@pytest.mark.parametrize(
    ("function", "inputs", "lines"),
    [
        (
            "structured",
            ["x=float32[batch]", "y=float32[batch]"],
            [
                "small.py:structured: the module returned an object of type Answer, which is no tensor",
                "  it may return tensors, and lists, tuples and mappings of them",
                (
                    "  hint: let the function of `model` return a module around it, whose forward returns the "
                    "tensors of that"
                ),
            ],
        ),
        (
            "count",
            ["x=float32[batch]"],
            [
                "small.py:count: the module returned the number 7, which is no tensor",
                "  it may return tensors, and lists, tuples and mappings of them",
                "  hint: return torch.tensor(7), or leave it out",
            ],
        ),
        (
            "packed",
            ["x=float32[batch]", "y=float32[batch]"],
            [
                "the module does not take these `inputs`",
                "  x, y: too many positional arguments",
                "  its forward is (batch: 'dict[str, torch.Tensor]') -> 'torch.Tensor'",
                PACKED,
            ],
        ),
        (
            "packed",
            ["batch=float32[batch,2]"],
            [
                "small.py:packed cannot be called with batch float32[batch, 2]",
                "  TypeError: new(): invalid data type 'str'",
                PACKED,
            ],
        ),
        (
            "narrow",
            ["input=float32[batch,3,8,8]"],
            [
                "small.py:narrow cannot be called with input float32[batch, 3, 8, 8]",
                "  RuntimeError: Input type (float) and bias type (c10::BFloat16) should be the same",
                DECLARED.format(weights="bfloat16", inputs="float32", advice=FLOAT),
            ],
        ),
        (
            "narrow",
            ["input=float16[batch,3,8,8]"],
            [
                "small.py:narrow cannot be called with input float16[batch, 3, 8, 8]",
                "  RuntimeError: Input type (c10::Half) and bias type (c10::BFloat16) should be the same",
                DECLARED.format(weights="bfloat16", inputs="float16", advice=f"declare float32, and {FLOAT}"),
            ],
        ),
        (
            "half",
            ["input=float32[batch,3,8,8]"],
            [
                "small.py:half cannot be called with input float32[batch, 3, 8, 8]",
                "  RuntimeError: Input type (float) and bias type (c10::Half) should be the same",
                DECLARED.format(weights="float16", inputs="float32", advice=f"declare float16, or {FLOAT}"),
            ],
        ),
        (
            "convolution",
            ["input=float32[batch,8,8,3]"],
            [
                "small.py:convolution cannot be called with input float32[batch, 8, 8, 3]",
                (
                    "  RuntimeError: Given groups=1, weight of size [2, 3, 1, 1], expected input[2, 8, 8, 3] to have 3 "
                    "channels, but got 8 channels instead"
                ),
                "  hint: declare the axes as forward takes them, with the 3 channels as a number: `[batch, 3, ...]`",
            ],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
def test_a_module_that_its_inputs_or_outputs_do_not_suit(
    monkeypatch: pytest.MonkeyPatch, function: str, inputs: list[str], lines: list[str]
) -> None:
    monkeypatch.chdir(MODULES)
    with pytest.raises(UsageError) as caught:
        inspect_model(f"small.py:{function}", Path(), parse_inputs(inputs), trust=False)
    assert str(caught.value).splitlines() == lines


def test_a_type_that_numpy_lacks() -> None:
    with pytest.raises(UsageError) as caught:
        parse_inputs(["x=bfloat16[batch,8]"])
    assert str(caught.value) == (
        "the input 'x' has an unknown type 'bfloat16'\n"
        "  NumPy, which holds the inputs, lacks it\n"
        "  hint: declare float32, and `return module.float()` in the function of the model"
    )
