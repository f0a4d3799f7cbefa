"""Parts of the schema for gates."""

from __future__ import annotations

from collections.abc import Mapping

from orun.pipeline.fragments import NAME, Fragment, choice, value
from orun.pipeline.grammar import RULES
from orun.text.units import NUMBER, THRESHOLD_UNITS

THRESHOLD = rf"^{NUMBER} *({'|'.join(THRESHOLD_UNITS)})?$"
SPEEDUP = rf"^{NUMBER}x?$"
GROUPS: Mapping[str, str] = {
    "all": "Gates that must all pass.",
    "any": "Gates at least one of which must pass; an item with several conditions passes if all of them pass.",
}
THRESHOLD_WORDS = "a number, or one with a unit such as 12ms, 300MB, 5% or 1.5x"


def gates() -> Fragment:
    """Return the schema of a stage's gates: conditions by metric, and groups."""
    return {
        "type": "object",
        "patternErrorMessage": "expected a mapping of metrics to conditions, as in `p50: {max: 12ms}`",
        "properties": {
            name: {
                "description": doc,
                "type": "array",
                "minItems": 1,
                "patternErrorMessage": "expected a list of gates, as in `[p50: {max: 12ms}, speedup: {min: 1.5}]`",
                "items": {"$ref": "#/definitions/gates"},
            }
            for name, doc in GROUPS.items()
        },
        "additionalProperties": {"$ref": "#/definitions/gate"},
    }


def gate() -> Fragment:
    """Return the schema of the conditions on a metric."""
    threshold = value(["number"], THRESHOLD, THRESHOLD_WORDS)
    speedup = value(["number"], SPEEDUP, "a factor such as 1.5 or 1.5x")
    rules: Mapping[str, Fragment] = {
        rule: (speedup if rule == "min_speedup" else threshold) | {"description": doc} for rule, doc in RULES.items()
    }
    undecided = choice(["allow", "block", "fail"]) | {
        "description": "What an undecided gate does: `allow` releases behind it, `block` them (exit 4), or `fail` the"
        " run (exit 4), whether there is a release or not.",
        "default": "block",
    }
    return {
        "type": "object",
        "x-noun": "rule of a gate",
        "x-lists": list(GROUPS),
        "patternErrorMessage": "expected a condition such as {max: 12ms} or {max_drop: 1%}",
        "additionalProperties": False,
        "properties": {**rules, "undecided": undecided, **_scopes()},
    }


def _scopes() -> dict[str, Fragment]:
    """Return the schemas of the keys that limit a gate to references, slices or a target."""
    reference = value([], NAME, "the name of a reference")
    return {
        "against": value(["array"], NAME, "the name of a reference, or a list of them")
        | {
            "description": "The references that the model is compared with: `reference`, and NAME of an input"
            " `reference.NAME`; each is a gate.",
            "items": reference,
            "minItems": 1,
        },
        "by": value([], NAME, "a field of the dataset")
        | {"description": "Field of `slices`: each of its values must pass by itself."},
        "target": value([], NAME, "the name of a target")
        | {"description": "Target of the gate; stages of the matrix on other targets do not have it."},
    }
