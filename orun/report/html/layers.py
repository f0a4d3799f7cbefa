"""Error by layer, as `quantize/debug` found it, and time by layer, as `measure/profile` did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orun.core.run_record import StageResult
from orun.core.serialization import parse_foreign_json
from orun.report.blame import format_share
from orun.report.figures import ABSENT
from orun.report.html.chart import Bar, BarRow
from orun.report.html.source import Source
from orun.text.units import show

MOST = 12  # layers or operators of a table
KINDS = ("quantize/debug", "measure/profile")


@dataclass(frozen=True)
class Layers:
    """Table of layers with bars.

    Attributes:
        stage: that measured.
        title: what the bars show.
        note: how to read them.
        titles: of the columns.
        rows: the largest first.
        legend: pairs of a style and a text.
        more: rows that are left out.
    """

    stage: str
    title: str
    note: str
    titles: Sequence[tuple[str, str]]
    rows: Sequence[BarRow]
    legend: Sequence[tuple[str, str]] = ()
    more: int = 0


def view_layers(source: Source) -> list[Layers]:
    """Return the tables of all stages that looked into layers."""
    return [table for stage in source.result.stages if stage.uses in KINDS for table in _read_tables(source, stage)]


def _read_tables(source: Source, stage: StageResult) -> list[Layers]:
    content = source.stored.contents.get(stage.stage)
    try:
        document = parse_foreign_json(content) if content else {}
        if not document:
            return []
        return (
            [_view_errors(stage.stage, document)]
            if stage.uses == "quantize/debug"
            else _view_times(stage.stage, document)
        )
    except (ValueError, KeyError, TypeError, AttributeError):  # a document of another version
        return []


def _view_errors(stage: str, document: Mapping[str, Any]) -> Layers:
    findings = document["findings"]
    tried = [finding for finding in findings if finding["share"] is not None]
    shown = sorted(tried, key=lambda finding: -finding["share"])[:MOST]
    largest = max((finding["share"] for finding in shown if finding["share"] > 0), default=1.0)
    return Layers(
        stage=stage,
        title="Error by layer",
        note="The bar is the share of the outputs' error that goes if this layer alone computes in float. "
        "Shares need not add up to 100 %, because errors of layers may cancel out.",
        titles=(("layer", "left"), ("operator", "left"), ("SQNR", "right"), ("share", "right"), ("", "left")),
        rows=[
            BarRow(
                finding["node"],
                (finding["op"], f"{float(finding['sqnr']):.1f} dB", format_share(finding["share"])),
                [Bar(0.0, max(finding["share"], 0.0) / largest, "added")],
            )
            for finding in shown
        ],
        more=len(findings) - len(shown),
    )


def _view_times(stage: str, document: Mapping[str, Any]) -> list[Layers]:
    nodes, total = document["models"]["model"]["nodes"], document["models"]["model"]["total"]
    shown = sorted(nodes, key=lambda node: -node["seconds"])[:MOST]
    largest = max((node["seconds"] for node in shown), default=0.0) or 1.0
    by_node = Layers(
        stage=stage,
        title="Time by layer",
        note="The nodes of the optimized graph that take the most time.",
        titles=(("layer", "left"), ("operator", "left"), ("time", "right"), ("share", "right"), ("", "left")),
        rows=[
            BarRow(
                node["name"] or f"{node['op']} {node['index']}",
                (node["op"], show(node["seconds"], "s"), show(node["seconds"] / total, "ratio") if total else ""),
                [Bar(0.0, node["seconds"] / largest, "size")],
            )
            for node in shown
        ],
        more=len(nodes) - len(shown),
    )
    return [*_view_operators(stage, document), by_node]


def _format_time(seconds: float) -> str:
    return show(seconds, "s") if seconds else ABSENT


def _view_operators(stage: str, document: Mapping[str, Any]) -> list[Layers]:
    if "slower" not in document:
        return []
    every = document["slower"]["operators"]
    shown = sorted(every, key=lambda operator: -max(operator["seconds"], operator["reference"]))[:MOST]
    largest = max((max(operator["seconds"], operator["reference"]) for operator in shown), default=0.0) or 1.0
    return [
        Layers(
            stage=stage,
            title="Time by operator",
            note="",
            titles=(("operator", "left"), ("model", "right"), ("reference", "right"), ("", "left")),
            rows=[
                BarRow(
                    operator["name"],
                    (_format_time(operator["seconds"]), _format_time(operator["reference"])),
                    [
                        Bar(0.0, operator["reference"] / largest, "other", "reference"),
                        Bar(0.0, operator["seconds"] / largest, "size thin", "model"),
                    ],
                )
                for operator in shown
            ],
            legend=(("size", "model"), ("other", "reference")),
            more=len(every) - len(shown),
        )
    ]
