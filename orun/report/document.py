"""JSON for machines: one document."""

from __future__ import annotations

import json
from typing import Any

from orun.core.run_record import RunResult
from orun.core.serialization import encode
from orun.errors import OrunError, PipelineError


def dumps(value: Any) -> str:
    """Return the JSON text of plain data or a record; of a run with its verdict."""
    plain = run_document(value) if isinstance(value, RunResult) else encode(value)
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)


def run_document(result: RunResult) -> dict[str, Any]:
    """Return the record of a run with its verdict in a word, `outcome`."""
    return {"outcome": result.outcome, **encode(result)}


def error_document(error: OrunError, exit_code: int) -> dict[str, Any]:
    """What went wrong, for `--json`."""
    told: dict[str, Any] = {"type": type(error).__name__, "exit_code": exit_code, "what": error.what}
    if isinstance(error, PipelineError):
        return {"error": {**told, "problems": error.problems}}
    return {"error": told | {name: text for name, text in (("why", error.why), ("hint", error.hint)) if text}}
