"""Request for a pipeline: the model, its facts, and the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orun.core.serialization import Record
from orun.scaffold.data_text import Declaration
from orun.scaffold.goal import Condition, Fidelity, Objective
from orun.scaffold.label_facts import LabelFacts
from orun.scaffold.model_facts import ModelFacts
from orun.scaffold.targets import TargetText

LabelKind = Literal["", "classes", "numbers", "other"]


class Request(Record, frozen=True):
    """Request for a pipeline: the model, its facts, and the options."""

    facts: ModelFacts
    target: TargetText
    data: Declaration = ""  # as the file names them; empty for made-up examples that need no name
    goal: tuple[Condition, ...] = ()  # conditions of the release; without any, gates have measured thresholds
    objective: Objective = "latency"  # figure that the search for a goal minimizes
    left_out: Mapping[str, str] = {}  # names of optional stages that refused the model, with their reasons
    is_made_up: bool = False  # whether `data` names made-up examples
    outputs: tuple[str, ...] = ()  # to compare with the original's; all when empty
    runs_here: bool = False  # whether this machine has the target (not the CPU), to compare outputs on
    labels: LabelKind = ""  # what the labels of the examples are, as far as that is known; empty without labels
    label_refusal: str = ""  # why they are not what the model answers, with what to do; empty while that is not known
    label_facts: LabelFacts = LabelFacts()  # of data whose declaration named no labels
    agreement: str = ""  # share of examples that must agree after a conversion, as its refusal asks for; all when empty
    label_doubt: str = ""  # why assumed labels may be wrong, as measured; empty for none
    drawback: str = ""  # what is worse than in the original, as measured: `larger and slower`; empty for none

    @property
    def has_own_data(self) -> bool:
        """Whether its examples are the user's own."""
        return bool(self.data) and not self.is_made_up

    @property
    def data_source(self) -> str:
        """The file, folder or `file.py:function` that yields the examples; empty without a name."""
        return self.data if isinstance(self.data, str) else str(self.data["path"])

    @property
    def has_labels(self) -> bool:
        """Whether the user's data has labels, as far as that is known."""
        return bool(self.labels) or (isinstance(self.data, Mapping) and bool({"labels", "classes"} & {*self.data}))

    @property
    def label_metric(self) -> str:
        """Metric by which outputs are compared with the labels of the data; empty if it has none, or none suits.

        Classes have an accuracy, real numbers an error. An estimator of scikit-learn without classes predicts numbers.
        A single score of another model may be either.
        """
        graph = self.facts.graph
        if graph is None or self.goal or self.label_refusal or not self.has_labels or self.facts.is_ctc:
            return ""
        if self.labels == "other" and not isinstance(self.data, Mapping):  # boxes, or several classes an example
            return ""
        has_classes = graph.classes or graph.texts
        if not has_classes and (self.facts.form == "sklearn" or self.labels == "numbers"):
            return "rmse"
        return "accuracy" if has_classes or not graph.is_single_valued else ""

    @property
    def fidelity(self) -> Fidelity:
        """How outputs are compared with the original's: by their angle if they are known to have one that matters."""
        graph = self.facts.graph
        has_angle = graph and not graph.is_single_valued and self.label_metric != "rmse"
        return "cosine" if has_angle else "sqnr"

    @property
    def gaps(self) -> Mapping[str, str]:
        """Stages that are not in the file, with reasons: the graph does not suit them, or they refused the model."""
        graph = self.facts.graph
        if graph is None:
            return self.left_out
        reduction = "half" if self.target.precision == "float16" else "int8"
        if graph.unknown:
            why = f"it cannot run {', '.join(graph.unknown)}, for which only targets name a library"
            fusion = ("fuse",) if graph.attention else ()
            return {**dict.fromkeys(("simplify", *fusion, reduction), why), **self.left_out}
        if graph.is_quantized and not self.goal:
            why = "the model is quantized already. Next: to quantize it otherwise, begin with the float32 model"
            return {reduction: why, **self.left_out}
        return self.left_out
