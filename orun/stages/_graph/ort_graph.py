"""ONNX Runtime's own graph optimizations, written back to a model."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections.abc import Collection
from pathlib import Path

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from orun.core.targets import Target
from orun.errors import UsageError
from orun.measure.extension_operators import add_extensions
from orun.measure.plugins import make_session
from orun.measure.session import describe_refusal, open_session
from orun.measure.session_options import build_session_options
from orun.stages._graph.domains import tidy_domains
from orun.stages._graph.io import load, save, store_freely

# Optimizers of ONNX Runtime that hide operators from fusion and quantization, or stop shape inference.
IN_THE_WAY = (
    "ConstantSharing", "MatMulScaleFusion", "MatMulAddFusion", "MatmulTransposeFusion", "GemmActivationFusion",
    "BiasSoftmaxFusion",
)  # fmt: skip


LEVELLED = re.compile(r"Level[0-9]_")  # composed names, which are not in the libraries


def optimize(model: Path, level: str, disabled: Collection[str] = (), target: Target | None = None) -> ModelProto:
    """Optimize a model with ONNX Runtime and load the result; see `write_optimized`."""
    result = load(write_optimized(model, level, disabled, target))
    store_freely(result)
    tidy_domains(result)
    return result


def write_optimized(model: Path, level: str, disabled: Collection[str], target: Target | None = None) -> Path:
    """Optimize a model with ONNX Runtime and write the result to the working folder.

    The level is that of a target's `graph_optimization_level`. Sizes of dynamic axes that the target fixes are not
    built in, so that the model keeps its inputs.

    Raises:
        UsageError: when the model cannot run, or not on the target.
    """
    result = Path("optimized.onnx")
    chosen = add_extensions(model, (target or Target("cpu")).with_any_size(graph_optimization_level=level))
    options = build_session_options(chosen)
    options.optimized_model_filepath = str(result)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimized.data")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    if target is not None:
        open_session(model, target)  # refuses a provider that does not load and would be replaced by another
    try:
        make_session(model, options, chosen.providers, disabled_optimizers=list(disabled))
    except Exception as error:  # ONNX Runtime's errors share no other base class
        raise UsageError("ONNX Runtime cannot optimize the model", why=describe_refusal(error)) from error
    return result


def require_optimizers(names: Collection[str]) -> None:
    """Refuse unknown names of optimizers: ONNX Runtime ignores them, and does not list the names it knows.

    Each name is a string in its libraries, except those with a level in them (`Level1_RuleBasedTransformer`).

    Raises:
        UsageError: for the first unknown name.
    """
    import onnxruntime

    libraries = sorted(Path(onnxruntime.__file__).parent.glob("capi/*onnxruntime*.so*"))
    for name in names:
        if not LEVELLED.match(name) and not (name and any(_holds(library, name) for library in libraries)):
            raise UsageError(
                f"skip: ONNX Runtime {onnxruntime.__version__} has no optimizer {name!r}",
                hint="with `log_severity_level: 1` in a target's `session` the log names the optimizers that change "
                "the model",
            )


def _holds(library: Path, text: str) -> bool:
    """Return whether a string is in a library, perhaps as the end of a longer one: linkers merge these."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as code:
        return code.find(text.encode() + b"\0") >= 0


def add_types(model: ModelProto) -> ModelProto:
    """Return a new model with the type of every value of the main graph declared, as ONNX Runtime infers it.

    ONNX cannot infer the results of ONNX Runtime's own operators, and converters guess their types. The input model is
    emptied; drop it to free its memory.
    """
    outputs = len(model.graph.output)
    known = {value.name for value in (*model.graph.value_info, *model.graph.output)}
    inner = [name for node in model.graph.node for name in node.output if name and name not in known]
    model.graph.output.extend(ValueInfoProto(name=name) for name in inner)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "types.onnx")
        save(model, path, external=True)
        session = open_session(path, Target("cpu", session={"graph_optimization_level": "disable"}))
        inferred = {value.name: value.type for value in session.get_outputs()[outputs:]}
        del session  # frees its copy of the weights before they are read again
        result = load(path)
    del result.graph.output[outputs:]
    for name, kind in inferred.items():
        if kind.startswith("tensor("):
            element = TensorProto.DataType.Value(kind.removeprefix("tensor(").removesuffix(")").upper())
            result.graph.value_info.append(helper.make_tensor_value_info(name, element, None))
    return result
