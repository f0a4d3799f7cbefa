"""ONNX Runtime's mobile tools: the `.ort` format, the operators of a minimal build, support by CoreML and NNAPI."""

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

from orun.stages.contract import Context
from orun.stages.library_errors import describe_error

if TYPE_CHECKING:
    from onnx import ModelProto

CONFIG = "required_operators.config"
# Lists of supported operators in the package, by provider.
COREML = {
    "coreml": "coreml_supported_neuralnetwork_ops.md",
    "coreml-mlprogram": "coreml_supported_mlprogram_ops.md",
}


def convert(context: Context, optimization: str, platform: str | None, *, types: bool) -> int:
    """Write `model.ort` and the configuration of a build that runs it; return the number of its operators.

    Raises:
        StageFailed: when ONNX Runtime cannot write it.
    """
    from onnxruntime.tools.convert_onnx_models_to_ort import OptimizationStyle, convert_onnx_models_to_ort

    from orun.measure.session import describe_refusal

    style = OptimizationStyle.Fixed if optimization == "fixed" else OptimizationStyle.Runtime
    folder = Path("converted")  # in the temporary working folder
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # it does not close the model file
            convert_onnx_models_to_ort(
                context.model(), folder, [style], target_platform=platform, enable_type_reduction=types
            )
    except Exception as error:  # of any type
        message = "ONNX Runtime cannot write the model in its own format"
        raise context.failed(message, why=describe_refusal(error)) from error
    context.log.info("%s", printed.getvalue().strip())
    (model,) = folder.rglob("*.ort")
    (config,) = folder.rglob("*.config")
    shutil.copyfile(model, context.output / "model.ort")
    lines = [line for line in config.read_text("utf-8").splitlines() if line and not line.startswith("#")]  # paths
    (context.output / CONFIG).write_text(
        "".join(f"{line}\n" for line in sorted(lines, key=_parse_operator_set)), "utf-8"
    )
    return sum(len(re.sub(r"\{.*?\}\}|\{.*?\]\}", "", line.split(";")[2]).split(",")) for line in lines)


def _parse_operator_set(line: str) -> tuple[str, int]:
    domain, version, _ = line.split(";", 2)
    return domain, int(version)


def measure_usability(context: Context) -> dict[str, float]:
    """Return the share of nodes that CoreML and NNAPI take, and in how many partitions; write `usability.json`.

    The checker fails on some valid models (a Transpose without `perm`, operators of ONNX Runtime alone). The file then
    holds its error, and there are no metrics.
    """
    from onnxruntime.tools.mobile_helpers import usability_checker

    logging.getLogger("default").setLevel(logging.ERROR)
    shaped = functools.cache(usability_checker.ModelProtoWithShapeInfo)  # which may fail too
    metrics: dict[str, float] = {}
    document: dict[str, Any] = {}
    for name in ("nnapi", *COREML):
        try:
            model = shaped(context.model()).model_with_shape_info
            dynamic, fixed_sizes = (_find_partitions(model, name, fixed=fixed) for fixed in (False, True))
            document[name] = {
                "verdict": dynamic.suitability().name,
                "verdict_if_fixed": fixed_sizes.suitability().name,
                "unsupported_operators": sorted(map(str, dynamic.unsupported_ops)),
                "nodes_with_dynamic_input": dynamic.nodes_unsupported_due_to_dynamic_input,
            }
        except Exception as error:  # noqa: BLE001 - the checker raises errors of any type
            document[name] = {"verdict": "UNKNOWN", "why": describe_error(error)}
            context.log.warning("the suitability of %s for this model is unknown: %s", name, describe_error(error))
            continue
        metrics[f"share.{name}"] = _compute_share(dynamic)
        metrics[f"partitions.{name}"] = dynamic.num_partitions
        metrics[f"share_if_fixed.{name}"] = _compute_share(fixed_sizes)
        context.log.info("suitability of %s for this model: %s", name, document[name]["verdict"])
    text = json.dumps(document, indent=2, sort_keys=True)
    (context.output / "usability.json").write_text(text + "\n", "utf-8")
    return metrics


def _find_partitions(model: ModelProto, name: str, *, fixed: bool) -> Any:
    """Return the partitions of a provider, for the model as it is or as if its input sizes were fixed."""
    from onnxruntime.tools.mobile_helpers import usability_checker

    if name == "nnapi":
        return usability_checker.check_nnapi_partitions(model, not fixed)
    return usability_checker.check_coreml_partitions(model, not fixed, COREML[name])


def _compute_share(partitions: Any) -> float:
    return partitions.num_supported_nodes / partitions.num_nodes if partitions.num_nodes else 0.0
