"""JSON for machines: one document."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orun.core.run_record import RunResult
from orun.core.serialization import decode, encode
from orun.errors import OrunError, PipelineError
from orun.report.facts import decode_stage, decode_verdict, encode_stage, encode_verdict


def dumps(value: Any) -> str:
    """Return the JSON text of plain data or a record; of a run with its verdict."""
    plain = build_run_document(value) if isinstance(value, RunResult) else encode(value)
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)


def build_run_document(result: RunResult, blame: Sequence[object] = ()) -> dict[str, Any]:
    """Return the record of a run with its verdict in a word, `outcome`, and with what is behind its failed gates."""
    document = {"outcome": result.outcome, **encode(result)}
    document["stages"] = [
        encoded | encode_stage(stage.reasons, stage.inputs)
        for encoded, stage in zip(document["stages"], result.stages, strict=True)
    ]
    document["verdicts"] = [
        encoded | encode_verdict(verdict)
        for encoded, verdict in zip(document["verdicts"], result.verdicts, strict=True)
    ]
    return {**document, "blame": encode(blame)} if blame else document


def decode_run(document: Any) -> RunResult:
    """Return the run of a document; ValueError if the document is no run."""
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in ("outcome", "blame")}
        document["stages"] = _restore_records(document.get("stages"), decode_stage)
        document["verdicts"] = _restore_records(document.get("verdicts", []), decode_verdict)
    return decode(RunResult, document)


def _restore_records(documents: Any, record_of: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """Return the record of each document; what is none stays as it is, for the decoder to refuse."""
    if not isinstance(documents, list):
        return documents
    return [record_of(document) if isinstance(document, dict) else document for document in documents]


def build_error_document(error: OrunError) -> dict[str, Any]:
    """Return an error as the document of `--json`."""
    document: dict[str, Any] = {"type": type(error).__name__, "exit_code": error.exit_code, "problem": error.problem}
    if isinstance(error, PipelineError):
        return {"error": {**document, "problems": error.problems}}
    return {"error": document | {name: text for name, text in (("why", error.why), ("hint", error.hint)) if text}}
