"""Findings of an investigation, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from orun.core.metrics import Estimate, Unit

OUT_OF_TIME = "the rest was skipped: time limit reached"


@dataclass(frozen=True)
class Level:
    """The gate's metric at the artifact of one stage.

    Attributes:
        stage: whose artifact it is.
        value: of the metric; None when it could not be measured there.
        passes: whether the gate would pass there; None when that cannot be told.
        why: why it could not be measured; else empty.
    """

    stage: str
    value: float | None
    passes: bool | None = None
    why: str = ""


@dataclass(frozen=True)
class Place:
    """A node, or nodes in the place of others, that brings some of the harm.

    Attributes:
        node: its name.
        share: of the outputs' error, or of the slow-down.
        nodes: names of all of its nodes in the model before the stage; for a slow-down in the model after it.
        op: type of its operator; for a slow-down how many nodes are there for how many before.
        now: types of the nodes that the model after the stage has there; empty for a slow-down.
        tensor: what it yields, by its name in the model before the stage; empty for a slow-down.
        before, after: accuracy: the lowest SQNR in dB of what comes before it, and that of what it yields; None where
            there is none. Latency: seconds in the model before, and in the one after.
    """

    node: str
    share: float
    nodes: tuple[str, ...]
    op: str
    tensor: str = ""
    now: tuple[str, ...] = ()
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class Proof:
    """The variant that was built to see whether the places make the difference.

    Attributes:
        how: `excluded` from the stage by its own parameter; `restored`: computed as in the model before the stage; or
            `mixed`: the stages of now on the first model of then.
        stage: its id in the pipeline that was run for it.
        value: the gate's metric of it; None where that was not measured.
        passes: whether the gate would pass.
        seconds: what an inference of it takes longer than one of the stage's model; None where that was not measured.
        why: why it could not be built or measured; else empty.
    """

    how: str
    stage: str
    value: float | None = None
    passes: bool | None = None
    seconds: Estimate | None = None
    why: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Why a gate failed.

    Attributes:
        gate: the gate as one reads it.
        stage: the stage that has it.
        metric: what it judges.
        unit: of the metric.
        sentence: the answer.
        levels: the metric at each artifact upstream, the first made first.
        culprit: the stage that did it; empty when none did.
        lost: by how much it made the metric worse.
        places: the worst first.
        chosen: how many of the first places the proof puts right.
        proof: the variant that was built, if any.
        stopped: what was left out, mostly for want of time; empty when nothing was.
        note: what else should be known of it; else empty.
        seconds: that the investigation took.
    """

    gate: str
    stage: str
    metric: str
    unit: Unit
    sentence: str
    levels: tuple[Level, ...] = ()
    culprit: str = ""
    lost: float = 0.0
    places: tuple[Place, ...] = ()
    chosen: int = 0
    proof: Proof | None = None
    stopped: str = ""
    note: str = ""
    seconds: float = 0.0
