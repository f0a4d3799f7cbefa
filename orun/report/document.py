"""JSON for machines: one document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from orun.core.run_record import RunResult
from orun.core.serialization import decode, encode
from orun.errors import OrunError, PipelineError


def dumps(value: Any) -> str:
    """Return the JSON text of plain data or a record; of a run with its verdict."""
    plain = run_document(value) if isinstance(value, RunResult) else encode(value)
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)


def run_document(result: RunResult, blame: Sequence[object] = ()) -> dict[str, Any]:
    """Return the record of a run with its verdict in a word, `outcome`, and with what is behind its failed gates."""
    document = {"outcome": result.outcome, **encode(result)}
    return {**document, "blame": encode(blame)} if blame else document


def run_of(document: Any) -> RunResult:
    """Return the run of its document; ValueError if it is none."""
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in ("outcome", "blame")}
    return decode(RunResult, document)


def error_document(error: OrunError, exit_code: int) -> dict[str, Any]:
    """What went wrong, for `--json`."""
    told: dict[str, Any] = {"type": type(error).__name__, "exit_code": exit_code, "what": error.what}
    if isinstance(error, PipelineError):
        return {"error": {**told, "problems": error.problems}}
    return {"error": told | {name: text for name, text in (("why", error.why), ("hint", error.hint)) if text}}
