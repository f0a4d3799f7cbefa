"""ONNX Runtime's tools for phones: the `.ort` format, what a build for it needs, and what CoreML and NNAPI take."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import re
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.stages.library_errors import describe_error

if TYPE_CHECKING:
    from onnx import ModelProto

CONFIG = "required_operators.config"
# Lists of supported operators that are in the package, by the name of who supports them.
COREML = {
    "coreml": "coreml_supported_neuralnetwork_ops.md",
    "coreml-mlprogram": "coreml_supported_mlprogram_ops.md",
}


def convert(context: Context, optimization: str, platform: str | None, *, types: bool) -> int:
    """Write `model.ort` and the configuration of a build that runs it; the number of its operators.

    Raises:
        StageFailed: when ONNX Runtime cannot.
    """
    from onnxruntime.tools.convert_onnx_models_to_ort import OptimizationStyle, convert_onnx_models_to_ort

    style = OptimizationStyle.Fixed if optimization == "fixed" else OptimizationStyle.Runtime
    made = Path("converted")  # in the working folder, which is scratch
    describe_error = io.StringIO()
    try:
        with contextlib.redirect_stdout(describe_error), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # it leaves the model that it wrote open
            convert_onnx_models_to_ort(
                context.model(), made, [style], target_platform=platform, enable_type_reduction=types
            )
    except Exception as error:  # it raises whatever its parts do
        lines = [line for line in describe_error.getvalue().splitlines() if line and not line.startswith("Converting ")]
        why = "\n".join([*lines[-3:], str(error).strip()])
        raise StageFailed(context.stage, "ONNX Runtime cannot write the model in its own format", why=why) from error
    context.log.info("%s", describe_error.getvalue().strip())
    (model,) = made.rglob("*.ort")
    (config,) = made.rglob("*.config")
    shutil.copyfile(model, context.output / "model.ort")
    lines = [line for line in config.read_text("utf-8").splitlines() if line and not line.startswith("#")]  # paths
    (context.output / CONFIG).write_text("".join(f"{line}\n" for line in sorted(lines, key=_place)), "utf-8")
    return sum(len(re.sub(r"\{.*?\}\}|\{.*?\]\}", "", line.split(";")[2]).split(",")) for line in lines)


def _place(line: str) -> tuple[str, int]:
    """Where a line of the configuration goes: by domain, then by version."""
    domain, version, _ = line.split(";", 2)
    return domain, int(version)


def usability(context: Context) -> dict[str, Metric]:
    """How much of the model CoreML and NNAPI would take, and in how many pieces; leaves `usability.json`.

    The checker fails on models that are as good as any (a Transpose without `perm`, operators that only ONNX Runtime
    has): then the file has what it says, and there are no figures.
    """
    from onnxruntime.tools.mobile_helpers import usability_checker

    logging.getLogger("default").setLevel(logging.ERROR)
    shaped = functools.cache(usability_checker.ModelProtoWithShapeInfo)  # this may fail as well
    metrics: dict[str, Metric] = {}
    document: dict[str, Any] = {}
    for name in ("nnapi", *COREML):
        try:
            model = shaped(context.model()).model_with_shape_info
            as_it_is, if_fixed = (_partitions(model, name, fixed=fixed) for fixed in (False, True))
            document[name] = {
                "verdict": as_it_is.suitability().name,
                "verdict_if_fixed": if_fixed.suitability().name,
                "unsupported_operators": sorted(map(str, as_it_is.unsupported_ops)),
                "nodes_with_dynamic_input": as_it_is.nodes_unsupported_due_to_dynamic_input,
            }
        except Exception as error:  # noqa: BLE001 - it raises whatever a graph that it did not expect leads to
            document[name] = {"verdict": "UNKNOWN", "why": describe_error(error)}
            context.log.warning("whether %s would do with this model cannot be told: %s", name, describe_error(error))
            continue
        metrics[f"share.{name}"] = Metric(_share(as_it_is), "ratio", "higher")
        metrics[f"partitions.{name}"] = Metric(as_it_is.num_partitions, better="lower")
        metrics[f"share_if_fixed.{name}"] = Metric(_share(if_fixed), "ratio", "higher")
        context.log.info("%s would do with this model: %s", name, document[name]["verdict"])
    text = json.dumps(document, indent=2, sort_keys=True)
    (context.output / "usability.json").write_text(text + "\n", "utf-8")
    return metrics


def _partitions(model: ModelProto, name: str, *, fixed: bool) -> Any:
    """What the checker finds for a provider, as the model is or as if the sizes of its inputs were fixed."""
    from onnxruntime.tools.mobile_helpers import usability_checker

    if name == "nnapi":
        return usability_checker.check_nnapi_partitions(model, not fixed)
    return usability_checker.check_coreml_partitions(model, not fixed, COREML[name])


def _share(found: Any) -> float:
    return found.num_supported_nodes / found.num_nodes if found.num_nodes else 0.0
