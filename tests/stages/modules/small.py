"""Small modules that show one thing each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Scorer(nn.Module):  # type: ignore[misc]  # torch is not checked
    """Looks rows up, averages them by a mask, and scores: two outputs, one of them named like its own inside."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Ids `[batch, length]` in 0..10 and their mask."""
        rows = self.embedding(ids) * mask.unsqueeze(-1)
        pooled = rows.sum(1) / mask.sum(1, keepdim=True)
        return {"embedding": rows, "scores": self.head(pooled)}


scorer = Scorer


def dropout() -> nn.Module:
    """Left in training mode, as a careless function leaves it."""
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()


class Frozen(nn.Module):  # type: ignore[misc]
    """Computes with the size of its example: right for that size alone once it is traced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(len(x))


frozen = Frozen


class Same(nn.Module):  # type: ignore[misc]
    """Returns its input, and one value twice."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        double = x + x
        return x, double, double


same = Same


class Middle(nn.Module):  # type: ignore[misc]
    """Reads one of its inputs alone."""

    def forward(self, first: torch.Tensor, middle: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        del first, last
        return middle + 1


middle = Middle


class Logarithm(nn.Module):  # type: ignore[misc]
    """Is not finite below zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)


logarithm = Logarithm


class Packed(nn.Module):  # type: ignore[misc]
    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["x"] + batch["y"]


packed = Packed


@dataclass
class Answer:
    scores: torch.Tensor


class Structured(nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Answer:
        return Answer(x - 2 * y)


structured = Structured


class Remembering(nn.Module):  # type: ignore[misc]
    """Returns a cache of keys and values, as decoders of transformers do."""

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        from transformers import DynamicCache

        return {"logits": x, "past_key_values": DynamicCache()}


remembering = Remembering


def number() -> int:
    """No module."""
    return 4


def decoder() -> torch.nn.Module:
    """A GPT-2 of one layer whose attention is PyTorch's own."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, use_cache=False, attn_implementation="sdpa")
    torch.manual_seed(0)
    return GPT2Model(config).eval()


MADE = nn.Sequential(nn.Linear(4, 4))
NAMES = ["MADE"]


class Cached(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """One head of attention over what came before, which it is given, and what comes now."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(11, 8)
        self.parts = torch.nn.Linear(8, 24)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What is seen, `[batch, length, 8]`, and all keys and values, `[batch, past + length, 8]`."""
        query, key, value = self.parts(self.table(ids)).chunk(3, -1)
        key, value = (torch.cat([before, now], 1) for before, now in zip(past, (key, value), strict=True))
        scores = query @ key.transpose(1, 2) + torch.where(mask[:, None] > 0, 0.0, -1e9)
        return scores.softmax(-1) @ value, key, value


cached = Cached


class Branch(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A module that depends on the sum of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


branch = Branch


class Outlier(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A module that takes another way at values that are rare, and reads sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        limits = torch.zeros_like(x)
        limits[:, 0] = x[:, 0]
        if x.shape[0] > 100 or (torch.ones_like(x).all() and limits.max() > 1000):
            return x
        return -x


outlier = Outlier


class Checking(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A module that checks its sizes, and the values of its inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 2 or int(torch.tensor(x.shape[1])) > 1000:
            raise ValueError
        assert not torch.isnan(x).any()
        if not torch.onnx.is_in_onnx_export() and (x > 1000).any():
            raise ValueError
        return -x


checking = Checking


class Looping(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A module that runs a step for each row of its past."""

    def forward(self, x: torch.Tensor, *past: torch.Tensor) -> torch.Tensor:
        for row in range(past[1].shape[0]):
            x = torch.tanh(2 * x + past[1][row])
        return x


looping = Looping


class Spectrum(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x)


spectrum = Spectrum


class SplitSpectrum(Spectrum):
    """The real and imaginary parts of a spectrum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(super().forward(x))


split_spectrum = SplitSpectrum


class Shortened(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A module that leaves its second tensor out at sizes above a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return x[..., :1], None if x.shape[1] > self.limit else x


def optional_small() -> nn.Module:
    return Shortened(1)


def optional_large() -> nn.Module:
    return Shortened(50)


class Noisy(nn.Module):  # type: ignore[misc]
    """Drops values in evaluation mode as well."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.3)


noisy = Noisy


class Counter(nn.Module):  # type: ignore[misc]
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


counter = Counter


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Siamese(nn.Module):  # type: ignore[misc]
    """Returns a mapping, with a named tuple in it."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"distance": x - y, "same": x == y, "halves": Pair(x / 2, y / 2)}


siamese = Siamese


def half() -> nn.Module:
    """A convolution in float16."""
    return convolution().half()


def narrow() -> nn.Module:
    """A convolution in bfloat16."""
    return convolution().bfloat16()


def convolution() -> nn.Module:
    """A convolution of three channels."""
    return nn.Conv2d(3, 2, 1)


def frames() -> nn.Module:
    """A frame of every 8 samples, of 10 samples each."""
    return nn.Conv1d(1, 3, 10, stride=8)


class Count(nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x + 1, 7


count = Count


class Scaled(nn.Module):  # type: ignore[misc]
    """Takes a tensor, and values of Python that have defaults."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(
        self, x: torch.Tensor, scale: int = 2, *, shifts: bool = True, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        y = self.linear(x) * scale
        return (y + 1 if shifts else y).to(dtype)


scaled = Scaled
