"""ONNX Runtime's own graph optimizations, written back to a model."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.targets import Target
from orun.errors import UsageError
from orun.stages._graph.domains import tidy_domains

if TYPE_CHECKING:
    from onnx import ModelProto

# Optimizers of ONNX Runtime that hide the operators that fusion and quantization look for, or stop shape inference.
IN_THE_WAY = (
    "ConstantSharing", "MatMulScaleFusion", "MatMulAddFusion", "MatmulTransposeFusion", "GemmActivationFusion",
    "BiasSoftmaxFusion",
)  # fmt: skip


LEVELLED = re.compile(r"Level[0-9]_")


def optimized(model: Path, level: str, disabled: Collection[str] = (), target: Target | None = None) -> ModelProto:
    """What ONNX Runtime makes of a model at an optimization level, whole in memory; see `write_optimized`."""
    from orun.stages._graph.io import load, store_freely

    made = load(write_optimized(model, level, disabled, target))
    store_freely(made)
    tidy_domains(made)
    return made


def write_optimized(model: Path, level: str, disabled: Collection[str] = (), target: Target | None = None) -> Path:
    """Write what ONNX Runtime makes of a model at an optimization level into the working folder.

    Args:
        model: path of the model; its external data lies beside it.
        level: as in a target's `graph_optimization_level`.
        disabled: optimizers of ONNX Runtime that stay out.
        target: whose providers and session options decide; the CPU when None. Sizes of dynamic axes that it fixes are
            left to the session, so that the model keeps its inputs.

    Raises:
        UsageError: when the model cannot run at all, or not where the target says.
    """
    from orun.measure.plugins import make_session
    from orun.measure.session import open_session, session_options

    result = Path("optimized.onnx")  # in the working folder, which is scratch
    chosen = (target or Target("cpu")).any_size(graph_optimization_level=level)
    options = session_options(chosen)
    options.optimized_model_filepath = str(result)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimized.data")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    if target is not None:
        open_session(model, target)  # refuses a provider that would not load, and others would take its place
    try:
        make_session(model, options, chosen.providers, disabled_optimizers=list(disabled))
    except Exception as error:  # its errors share no base class but this
        raise UsageError("ONNX Runtime cannot optimize the model", why=str(error).strip()) from error
    return result


def require_optimizers(names: Collection[str]) -> None:
    """Refuse names of optimizers that ONNX Runtime does not have: it ignores them, and has no list of those it has.

    Each name is a text in its libraries, but for those with a level in them (`Level1_RuleBasedTransformer`).

    Raises:
        UsageError: for the first that is not there.
    """
    import onnxruntime

    libraries = sorted(Path(onnxruntime.__file__).parent.glob("capi/*onnxruntime*.so*"))
    for name in names:
        if not LEVELLED.match(name) and not (name and any(_holds(library, name) for library in libraries)):
            raise UsageError(
                f"skip: ONNX Runtime {onnxruntime.__version__} has no optimizer {name!r}",
                hint="with `log_severity_level: 1` in a target's `session` the log names those that do something",
            )


def _holds(library: Path, text: str) -> bool:
    """Whether a text, or one that ends so, is in a library: the linker lets these share their bytes."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as code:
        return code.find(text.encode() + b"\0") >= 0


def add_types(model: ModelProto) -> ModelProto:
    """The model, read anew, with the type of every value of the main graph declared as ONNX Runtime infers it.

    ONNX itself cannot infer what comes out of ONNX Runtime's own operators, and converters take such values for
    whatever they like. The model that is given is emptied, and what it held stays taken until it is let go of.
    """
    from onnx import TensorProto, ValueInfoProto, helper

    from orun.measure.session import open_session
    from orun.stages._graph.io import load, save

    outputs = len(model.graph.output)
    known = {value.name for value in (*model.graph.value_info, *model.graph.output)}
    inner = [name for node in model.graph.node for name in node.output if name and name not in known]
    model.graph.output.extend(ValueInfoProto(name=name) for name in inner)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "types.onnx")
        save(model, path, external=True)
        session = open_session(path, Target("cpu", session={"graph_optimization_level": "disable"}))
        inferred = {value.name: value.type for value in session.get_outputs()[outputs:]}
        del session  # before the weights are read once more
        made = load(path)
    del made.graph.output[outputs:]
    for name, kind in inferred.items():
        if kind.startswith("tensor("):
            element = TensorProto.DataType.Value(kind.removeprefix("tensor(").removesuffix(")").upper())
            made.graph.value_info.append(helper.make_tensor_value_info(name, element, None))
    return made
