"""Origin of a dataset, and the error for inputs that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from orun.errors import UsageError
from orun.measure.dataset import Values

TOKENS = "input_ids"  # the input that a tokenizer makes of a text
NOT_OF_TEXTS = ("decoder_", "past_key_values", "position_ids")  # prefixes of inputs that no tokenizer makes


@dataclass(frozen=True)
class Origin:
    """Source of the examples of a dataset, for errors.

    Attributes:
        title: the dataset as the pipeline file names it; empty if it is made up.
        is_folder: whether it is a folder of images.
        tokenizer: folder of the tokenizer that makes the inputs of texts; empty if none does.
        list_columns: returns the names of the columns or arrays of a file.
    """

    title: str = ""
    is_folder: bool = False
    tokenizer: str = ""
    list_columns: Callable[[], Collection[str]] = tuple

    @property
    def is_function(self) -> bool:
        """Whether a function returns the dataset."""
        return ".py:" in self.title

    def require_inputs(self, names: Iterable[str], inputs: Mapping[str, Values], taker: str = "model") -> None:
        """Refuse a dataset that lacks values for inputs.

        Args:
            names: names of these inputs.
            inputs: values that it has.
            taker: what takes them, for the message.

        Raises:
            UsageError: if it lacks one.
        """
        if missing := [name for name in names if name not in inputs]:
            raise UsageError(
                f"{self.title or 'the dataset'} has no values for {', '.join(missing)}, which the {taker} takes",
                why=f"it has {', '.join(inputs)}",
                hint=self._suggest_inputs(missing, inputs),
            )

    def _suggest_inputs(self, missing: Collection[str], inputs: Mapping[str, Values]) -> str:
        """Return how the dataset can have values for inputs that it lacks."""
        if self.tokenizer and (never := [name for name in missing if name.startswith(NOT_OF_TEXTS)]):
            listed = ", ".join(never)
            return f"no tokenizer makes {listed}: write file.py:function that returns an orun.Dataset with all inputs"
        if self.tokenizer:
            return f"{self.tokenizer} does not make {', '.join(missing)}: is it the model's own tokenizer?"
        has_texts = any(np.asarray(values[0]).dtype.kind in "OUS" for values in inputs.values())
        if TOKENS in missing and has_texts and not self.is_function:
            return "tokenize the texts: `text: {tokenizer: FOLDER}`"
        return "name the arrays of the dataset after the model's inputs"
