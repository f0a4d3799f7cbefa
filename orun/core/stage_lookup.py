"""Error of a look-up by stage id, with the id that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


class UnknownStage(KeyError):
    """A stage id that a plan or a run does not have.

    Args:
        owner: the plan or the run: `run 20260921-141320-1f3c`.
        stage: the id that it does not have.
        stages: the ids that it has.
    """

    def __init__(self, owner: str, stage: str, stages: Iterable[str]) -> None:
        super().__init__(stage)
        self.owner, self.stage, self.stages = owner, stage, tuple(stages)

    def __str__(self) -> str:
        from difflib import get_close_matches  # of no use before something is wrong

        close = get_close_matches(self.stage, self.stages, n=1)
        few = len(self.stages) <= 2  # noqa: PLR2004 - `a or b`
        known = " or ".join(self.stages) if few else f"one of {', '.join(self.stages)}"
        expected = f"expected {known or 'no stage: it has none'}"
        return f"{self.owner} has no stage {self.stage!r}\n  {f'did you mean {close[0]}?' if close else expected}"
