"""Terms of a comparison, and the record of what it did not compare strictly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orun.stages._graph.differences import MULTIPLE, Tolerance, compare_values
from orun.stages._graph.feeds import Case
from orun.stages._graph.limits import Limit
from orun.stages.contract import Context

if TYPE_CHECKING:
    from orun.measure.dataset import Array


@dataclass(frozen=True)
class Agreement:
    """Terms of a comparison, and the words for its messages.

    Attributes:
        candidate, reference: the two models, for messages ("the simplified model", "the model before it").
        outputs: names of the outputs.
        tolerance: None when only shapes, types and finiteness must agree.
        hint: what to do about a disagreement.
        counts: axes of outputs whose size depends on values, and may differ without a tolerance.
    """

    candidate: str
    reference: str
    outputs: Sequence[str]
    tolerance: Tolerance | None
    hint: str
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def pair(self, name: str, reference: Array, value: Array) -> tuple[Array, Array]:
        """Return what both models have of an output: of axes whose size may differ, the part that both have."""
        counts = self.counts.get(name, ()) if self.tolerance is None else ()
        if not counts or reference.ndim != value.ndim:
            return reference, value
        both = tuple(
            slice(min(sizes)) if axis in counts else slice(None)
            for axis, sizes in enumerate(zip(reference.shape, value.shape, strict=True))
        )
        return reference[both], value[both]

    def describe_range(self, case: Case) -> str:
        """Say which input of a case is beyond the range of the candidate's numbers; an empty text if none is."""
        import numpy as np

        if self.tolerance is None or self.tolerance.bounds is None:
            return ""
        kind, largest = self.tolerance.bounds
        for name, values in case.feed.items():
            if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
                continue
            numbers = values[np.isfinite(values)]
            if numbers.size and np.abs(numbers).max() > largest:
                worst = numbers[np.abs(numbers).argmax()]
                return f": input {name!r} holds {worst:.6g}, beyond the largest number of {kind}, {largest:g}"
        return ""


class Leniency:
    """Record of values that a check left out, and of errors beyond the tolerance that it allowed."""

    def __init__(self, agreement: Agreement, spread: str) -> None:
        self._agreement = agreement
        self._spread = spread
        self._values: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._widened: dict[str, tuple[float, float, str]] = {}  # error, spread and case, by output

    def add(self, case: Case, name: str, reference: Array, value: Array, limit: Limit | None) -> None:
        """Add an output that agrees within its limit."""
        import numpy as np

        self._values[name] += np.size(reference) if not isinstance(reference, (list, dict)) else 1
        if limit is None:
            return
        self._left_out[name] += int(np.count_nonzero(limit.arbitrary))
        strict = replace(limit, spread=np.zeros_like(limit.spread))
        problem, error = compare_values(reference, value, self._agreement.tolerance, strict)
        if problem and error >= self._widened.get(name, (0.0,))[0]:
            self._widened[name] = (error, float(limit.spread.max()), case.title)

    def require_compared(self, context: Context) -> None:
        """Refuse a check in which every value of an output was left out."""
        for name, number in self._left_out.items():
            if number and number == self._values[name]:
                raise context.failed(
                    f"no value of output {name!r} can be compared",
                    why=f"in {self._agreement.reference} each of its {number:,} values depends on attention rows that "
                    "see nothing",
                    hint="declare masks that show something to each row, such as `fill: right-padded`, where the model "
                    "is converted; or give inputs, `inputs: file.py:function`",
                )

    def iter_notes(self) -> Iterator[str]:
        """Yield a sentence for each output that was partly left out or compared loosely."""
        for name, number in self._left_out.items():
            if number:
                yield (
                    f"{number:,} of {self._values[name]:,} values of output {name!r} were not compared: they depend on "
                    "attention rows that see nothing"
                )
        for name, (error, spread, title) in self._widened.items():
            yield (
                f"{self._agreement.candidate} is off by {error:.3g} in output {name!r} for {title}, beyond the "
                f"tolerance: {self._agreement.reference} {self._spread} by up to {spread:.3g} there, and {MULTIPLE} "
                "times that is allowed"
            )
