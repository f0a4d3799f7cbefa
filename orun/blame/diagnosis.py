"""Diagnosis: findings of an investigation, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from orun.core.metrics import Estimate, Unit

OUT_OF_TIME = "the rest was skipped: time limit reached"


@dataclass(frozen=True)
class Level:
    """The gate's metric at the artifact of one stage."""

    stage: str
    value: float | None  # of the metric; None if it could not be measured
    passes: bool | None = None  # whether the gate would pass; None if unknown
    why: str = ""  # why it could not be measured; else empty


@dataclass(frozen=True)
class Place:
    """A node, or nodes that replaced others, with a share of the error or slow-down.

    Attributes:
        node: its name.
        share: of the outputs' error, or of the slow-down.
        nodes: names of its nodes in the model before the stage; for a slow-down, in the model after it.
        op: type of its operator; for a slow-down, how many nodes replaced how many.
        now: types of the nodes that replaced it in the model after the stage; empty for a slow-down.
        tensor: its output, by its name in the model before the stage; empty for a slow-down.
        before, after: accuracy: lowest SQNR in dB of the tensors before it, and SQNR of its output; None if unknown.
            Latency: seconds in the model before and after the stage.
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
    """Variant without the places, built to verify that they are the cause.

    Attributes:
        how: `excluded` from the stage by a parameter; `restored`: computed as in the model before the stage; or
            `mixed`: today's stages on the earlier first model.
        stage: its id in the pipeline that was run for it.
        value: the gate's metric; None if not measured.
        passes: whether the gate would pass.
        seconds: how much longer an inference takes than with the stage's model; None if not measured.
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
    """Cause of a failed gate.

    Attributes:
        gate: the gate, for people.
        stage: the stage with the gate.
        metric: the metric that the gate judges.
        unit: of the metric.
        sentence: the answer.
        levels: the metric at each artifact upstream, in order.
        culprit: the stage that made the metric worse; empty if none did.
        lost: how much worse it made the metric.
        places: the nodes, the largest share first.
        chosen: how many of the first places the proof restores.
        proof: the variant that was built, if any.
        stopped: why the investigation did not get to its end, usually for lack of time; else empty.
        notes: remarks on how the answer was found.
        seconds: duration of the investigation.
        start: the first stage of all, if the metric is as bad there already and no stage made it worse; else empty.
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
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    start: str = ""
