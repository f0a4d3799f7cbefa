"""Facts as the JSON output of the command line has them: words as people read them, and codes beside the words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orun.core.key_component import Components
from orun.core.reason import Reason
from orun.core.serialization import encode
from orun.core.verdict import Verdict
from orun.report.gates import explain_verdict, format_caveat
from orun.text.wording.caveats import RENDERERS as CAVEATS
from orun.text.wording.caveats import describe_caveat
from orun.text.wording.components import index_by_name
from orun.text.wording.findings import describe_finding
from orun.text.wording.reasons import describe_reasons

WORDS_OF_STAGE = ("reasons", "inputs")
WORDS_OF_VERDICT = ("why", "caveat")
FACTS_OF_STAGE = {"causes": "reasons", "components": "inputs"}  # field of the output -> field of the record


def describe_fact(reason: Reason) -> str:
    """Return the sentence of a stage's reason, a finding or a caveat."""
    return describe_caveat(reason) if reason.code in CAVEATS else describe_finding(reason)


def encode_reasons(reasons: Iterable[Reason]) -> dict[str, Any]:
    """Return the sentences of reasons, `reasons`, and the reasons themselves, `causes`."""
    return {"reasons": list(describe_reasons(reasons)), "causes": encode(tuple(reasons))}


def pair_components(old: Components, new: Components) -> list[dict[str, str | None]]:
    """Return each component of two keys with its old and its new value; None if a key lacks it."""
    before, after = ({item.identity: item.value for item in components} for components in (old, new))
    return [
        {"kind": str(kind), "subject": subject, "owner": owner, "old": before.get(key), "new": after.get(key)}
        for key in dict.fromkeys([*after, *before])
        for kind, subject, owner in [key]
    ]


def encode_stage(reasons: tuple[Reason, ...], inputs: Components) -> dict[str, Any]:
    """Return reasons and inputs of a stage's result in words, and as facts; what is empty is left out."""
    fields = {**encode_reasons(reasons), "inputs": index_by_name(inputs), "components": encode(inputs)}
    return {name: value for name, value in fields.items() if value}


def decode_stage(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a stage from its part of a JSON document; the inverse of `encode_stage`."""
    if FACTS_OF_STAGE.keys().isdisjoint(document):  # it is the record itself, or the stage has no facts
        return dict(document)
    record = {name: value for name, value in document.items() if name not in (*WORDS_OF_STAGE, *FACTS_OF_STAGE)}
    return record | {field: document[name] for name, field in FACTS_OF_STAGE.items() if name in document}


def encode_verdict(verdict: Verdict) -> dict[str, str]:
    """Return the sentences of a verdict: its finding, `explain_verdict`, and what it does not tell, `format_caveat`."""
    fields = {"why": explain_verdict(verdict), "caveat": format_caveat(verdict)}
    return {name: text for name, text in fields.items() if text}


def decode_verdict(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a verdict from its part of a JSON document; the inverse of `encode_verdict`."""
    return {name: value for name, value in document.items() if name not in WORDS_OF_VERDICT}
