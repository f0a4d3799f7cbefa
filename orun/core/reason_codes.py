"""Codes of reasons. docs/reference/reasons.md says what each means and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from orun.core.component_kinds import ComponentKind


class ReasonCode(StrEnum):
    """Codes of reasons, in groups."""

    # A component of the key differs from the last time. The first word is the component's kind.
    KIND_CHANGED = "kind-changed"
    STAGE_CODE_CHANGED = "stage-code-changed"
    PARAMETER_CHANGED = "parameter-changed"
    CODE_FILE_CHANGED = "code-file-changed"
    INPUT_CHANGED = "input-changed"
    CONTENT_CHANGED = "content-changed"
    VARIABLE_CHANGED = "variable-changed"
    PYTHON_CHANGED = "python-changed"
    ENCODING_CHANGED = "encoding-changed"
    MODULE_FOLDERS_CHANGED = "module-folders-changed"
    STARTUP_CHANGED = "startup-changed"
    TOOL_CHANGED = "tool-changed"
    PACKAGE_CHANGED = "package-changed"
    TARGET_CHANGED = "target-changed"
    DEVICE_CHANGED = "device-changed"
    SEED_CHANGED = "seed-changed"
    PIPELINE_CHANGED = "pipeline-changed"
    HISTORY_CHANGED = "history-changed"
    PROVENANCE_CHANGED = "provenance-changed"
    VERDICTS_CHANGED = "verdicts-changed"
    SOFTWARE_CHANGED = "software-changed"

    COMPONENT_CHANGED = "component-changed"

    # Something that the stage was seen to use differs from the last time.
    READ_CHANGED = "read-changed"
    LISTED_CHANGED = "listed-changed"
    IMPORTED_CHANGED = "imported-changed"
    LOOKED_UP_CHANGED = "looked-up-changed"
    LOOKED_FOR_CHANGED = "looked-for-changed"

    # Why else a stage runs.
    NEVER_RUN = "never-run"
    FORCED = "forced"
    MEASURED_AGAIN = "measured-again"
    RESULT_MISSING = "result-missing"
    RESULT_DAMAGED = "result-damaged"
    EARLIER_RESULT_STALE = "earlier-result-stale"
    OTHER_RESULT = "other-result"
    WAITS = "waits"
    DEVICE_UNKNOWN = "device-unknown"
    NO_MACHINE = "no-machine"

    # Why a stage does not run.
    UP_TO_DATE = "up-to-date"
    FETCHED = "fetched"
    ON_MACHINE = "on-machine"
    PROVIDER_MISSING = "provider-missing"
    GATE_BEFORE = "gate-before"
    STAGE_BEFORE = "stage-before"
    STOPPED = "stopped"
    NOT_SELECTED = "not-selected"

    # What a gate found: a metric by itself.
    VALUE_WITHIN = "value-within"
    VALUE_BEYOND = "value-beyond"
    VALUE_UNDECIDED = "value-undecided"

    # What a gate found: one model against another.
    CHANGE_WITHIN = "change-within"
    CHANGE_BEYOND = "change-beyond"
    CHANGE_UNDECIDED = "change-undecided"
    REGRESSION_SHOWN = "regression-shown"
    REGRESSION_EXCLUDED = "regression-excluded"
    NO_REGRESSION = "no-regression"
    TOO_FEW_LAUNCHES = "too-few-launches"
    ZERO_THRESHOLD = "zero-threshold"

    # What a gate found: several figures.
    GROUP = "group"
    SLICES = "slices"

    # Why a gate could not compare.
    METRIC_MISSING = "metric-missing"
    NOT_FINITE = "not-finite"
    THRESHOLD_MISFIT = "threshold-misfit"
    SLICES_MISSING = "slices-missing"
    SLICE_GONE = "slice-gone"
    NO_REFERENCE = "no-reference"
    NO_DIRECTION = "no-direction"
    NEGATIVE_VALUE = "negative-value"
    NOT_COMPARABLE = "not-comparable"
    NO_BASELINE = "no-baseline"
    OTHER_UNIT = "other-unit"
    OTHER_MACHINE = "other-machine"
    OTHER_SETUP = "other-setup"
    NO_INTERVALS = "no-intervals"

    # How a comparison with the baseline was made.
    SAME_MODEL = "same-model"
    SAME_MEASUREMENT = "same-measurement"
    STORED_FIGURES = "stored-figures"
    NO_MODEL_MEASURED = "no-model-measured"
    OTHER_INPUTS = "other-inputs"
    OTHER_REFERENCE = "other-reference"
    MODEL_MISSING = "model-missing"
    ONE_MODEL_KIND = "one-model-kind"
    ACCEPTED_BY = "accepted-by"

    # What would decide an undecided gate.
    DISTURBED = "disturbed"
    TOO_NEAR = "too-near"
    MEASURE_AGAIN = "measure-again"
    RAISE_PARAMETERS = "raise-parameters"
    SET_RESOLUTION = "set-resolution"
    TIME_USED_UP = "time-used-up"
    MORE_LAUNCHES = "more-launches"
    TOO_MANY_LAUNCHES = "too-many-launches"
    MORE_EXAMPLES = "more-examples"
    TOO_MANY_EXAMPLES = "too-many-examples"
    NARROWER_INTERVALS = "narrower-intervals"

    # What a verdict does not tell.
    FITTED_DATA = "fitted-data"
    UNCHECKED_TARGET = "unchecked-target"
    CHANGED_SINCE_BASELINE = "changed-since-baseline"


CHANGED: Mapping[str, ReasonCode] = {kind: ReasonCode(f"{kind}-changed") for kind in ComponentKind}
