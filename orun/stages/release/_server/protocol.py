"""Metadata of the model, and its inputs and outputs in the types of the Open Inference Protocol v2.

HTTP (`rest.py`) and gRPC share them. Each mistake of a client is an error that says what the model takes.
https://github.com/kserve/open-inference-protocol
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import prometheus_client
from kserve import InferInput, InferOutput, InferRequest, InferResponse, ModelRepository
from kserve.errors import InvalidInput, ModelNotFound
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.servicer import InferenceServicer
from kserve.protocol.infer_type import deserialize_bytes_tensor
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.utils.numpy_codec import to_np_dtype
from numpy.typing import NDArray
from onnxruntime import NodeArg

Array = NDArray[Any]

FIXED = "this server loads and unloads no models: it has the one that it was released with"
PLATFORM = "onnx_onnxv1"  # the protocol's name of ONNX Runtime
LARGEST_MESSAGE = 1 << 30  # bytes of a request
DATATYPES: Mapping[str, str] = {  # of ONNX Runtime's types
    "tensor(bool)": "BOOL", "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16", "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64", "tensor(int8)": "INT8", "tensor(int16)": "INT16", "tensor(int32)": "INT32",
    "tensor(int64)": "INT64", "tensor(float16)": "FP16", "tensor(float)": "FP32", "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}  # fmt: skip
REQUESTS = prometheus_client.Counter(
    "inference_requests", "Requests by outcome: ok, invalid, failed", ["model_name", "outcome"]
)
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # floats that JSON lacks
KINDS: Mapping[str, tuple[set[type], str]] = {  # types of the values in a list, and their name
    "BOOL": ({bool}, "true and false"),
    "BYTES": ({str, bytes}, "texts"),
    "FP": ({int, float}, "numbers, " + ", ".join(f'"{text}"' for text in NOT_FINITE)),
    "INT": ({int}, "whole numbers"),
    "UINT": ({int}, "whole numbers"),
}


class Protocol(DataPlane):  # type: ignore[misc]  # KServe's classes have no types
    """Metadata of the model and the server, and whether the server is ready.

    Attributes:
        leaving: whether the server is about to end: it still answers requests, and is not ready for more.
    """

    def __init__(self, repository: ModelRepository, name: str, version: str) -> None:
        super().__init__(repository)
        self.name, self.version, self.leaving = name, version, False

    def require_model(self, name: str, version: str = "") -> None:
        """Refuse a model or a version that is not here; an empty version is any.

        Raises:
            ModelNotFound: if it is refused.
        """
        error = ModelNotFound()
        if name != self.name:
            error.reason = f"there is no model {name!r}; this server has {self.name!r}"
        elif version not in ("", self.version):
            known = f"version {self.version!r}" if self.version else "no versions"
            error.reason = f"there is no version {version!r} of {name!r}; it has {known}"
        else:
            return
        raise error

    async def ready(self) -> bool:
        """Return whether a load balancer may send requests."""
        return not self.leaving and await super().ready()

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the server, whose library is KServe's."""
        return {**super().metadata(), "extensions": ["binary_tensor_data"]}

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """Return the metadata of the model, with the version if it has one."""
        versions = {"versions": [self.version]} if self.version else {}
        return {**await super().model_metadata(model_name), **versions, "platform": PLATFORM}


class Servicer(InferenceServicer):  # type: ignore[misc]  # KServe's classes have no types
    """Methods of gRPC, which refuse a version that the model does not have; KServe's take any."""

    async def ModelInfer(self, request: messages.ModelInferRequest, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answer a request to the model."""
        self._data_plane.require_model(request.model_name, request.model_version)
        return await super().ModelInfer(request, context)

    async def ModelReady(self, request: messages.ModelReadyRequest, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answer whether the model is ready."""
        self._data_plane.require_model(request.name, request.version)
        return await super().ModelReady(request, context)

    async def ModelMetadata(self, request: messages.ModelMetadataRequest, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Answer with the metadata of the model, with the version that KServe leaves out."""
        self._data_plane.require_model(request.name, request.version)
        response = await super().ModelMetadata(request, context)
        response.versions.extend((await self._data_plane.model_metadata(request.name)).get("versions", []))
        return response


class FixedRepository(ModelRepositoryExtension):  # type: ignore[misc]  # KServe's classes have no types
    """Repository that serves what was released: clients can neither load nor unload a model."""

    async def load(self, model_name: str) -> None:  # noqa: ARG002 - KServe's name
        """Refuse."""
        raise InvalidInput(FIXED)

    async def unload(self, model_name: str) -> None:  # noqa: ARG002 - KServe's name
        """Refuse."""
        raise InvalidInput(FIXED)


def read_inputs(request: InferRequest, expected: Sequence[NodeArg], *, batched: bool) -> dict[str, Array]:
    """Return the inputs of a request as the model takes them.

    Args:
        request: the request.
        expected: inputs of the model.
        batched: whether all arrays need the same first axis.

    Raises:
        InvalidInput: if an input is unknown, missing, twice there, or of another type or shape.
    """
    sent = {item.name: item for item in request.inputs}
    names = [item.name for item in expected]
    _require_distinct("input", [item.name for item in request.inputs])
    if sent.keys() != set(names):
        raise InvalidInput(f"the model takes the inputs {', '.join(names)}; sent: {', '.join(sent) or 'none'}")
    feed = {item.name: _read(sent[item.name], item) for item in expected}
    if batched and len({len(array) for array in feed.values()}) > 1:
        rows = ", ".join(f"{name} has {len(array)}" for name, array in feed.items())
        raise InvalidInput(f"the inputs need the same first axis: {rows}")
    if batched and not len(next(iter(feed.values()))):
        raise InvalidInput("the inputs have no rows")
    return feed


def _require_distinct(kind: str, names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInput(f"{kind} {name!r} is there {times} times; it may be there once")


def _read(item: InferInput, expected: NodeArg) -> Array:
    datatype, shape = DATATYPES[expected.type], list(item.shape)
    if item.datatype != datatype:
        raise InvalidInput(f"input {item.name!r} is {item.datatype}; the model takes {datatype}")
    if any(size < 0 for size in shape):
        raise InvalidInput(f"input {item.name!r} has shape {shape}; sizes are at least 0")
    fits = len(shape) == len(expected.shape) and all(
        not isinstance(axis, int) or axis == size for size, axis in zip(shape, expected.shape, strict=True)
    )
    if not fits:
        raise InvalidInput(
            f"input {item.name!r} has shape {shape}; the model takes {describe_value(expected)['shape']}"
        )
    raw = item._raw_data  # noqa: SLF001 - KServe has no other way to tell a list from bytes
    try:
        return _reshape(_read_list(item.data, shape, datatype) if raw is None else _read_bytes(raw, datatype), shape)
    except OverflowError as error:
        raise InvalidInput(f"input {item.name!r}: data has a value out of the range of {datatype}") from error
    except (ValueError, struct.error) as error:
        raise InvalidInput(f"input {item.name!r}: {error}") from error


def _reshape(values: Array, shape: list[int]) -> Array:
    if values.size != math.prod(shape):
        raise ValueError(f"data has {values.size} values, and shape {shape} has {math.prod(shape)}")
    return values.reshape(shape)


def _read_list(data: list[Any], shape: list[int], datatype: str) -> Array:
    """Return the values of a list; refuse those that NumPy would convert in silence.

    It would turn 1.5 into 1, "false" into True and 1e39 into infinity, and cut nested rows anew.
    """
    nested = np.array(data, dtype=object)
    if nested.ndim > 1 and list(nested.shape) != shape:
        raise ValueError(f"data is nested as {list(nested.shape)}, and the shape is {shape}")
    values = nested.ravel().tolist()
    if datatype.startswith("FP"):
        values = [NOT_FINITE.get(value, value) if type(value) is str else value for value in values]
    kinds, name = KINDS[datatype.rstrip("0123456789")]
    if set(map(type, values)) - kinds:
        wrong = next(value for value in values if type(value) not in kinds)
        shown = {"list": "rows of unequal length", "dict": "an object"}.get(type(wrong).__name__)
        raise ValueError(f"data has {shown or orjson.dumps(wrong).decode():.60}; {datatype} takes {name}")
    if datatype == "BYTES":
        return _decode_texts(values)
    with np.errstate(over="ignore"):
        array = np.array(values, to_np_dtype(datatype))
    if array.dtype.kind == "f" and any(math.isfinite(values[place]) for place in np.flatnonzero(np.isinf(array))):
        raise OverflowError
    return array


def _read_bytes(data: bytes, datatype: str) -> Array:
    if datatype == "BYTES":
        return _decode_texts(deserialize_bytes_tensor(data))
    return np.frombuffer(data, to_np_dtype(datatype))


def _decode_texts(texts: Iterable[str | bytes]) -> Array:
    return np.array([text.decode() if isinstance(text, bytes) else text for text in texts], dtype=object)


def write_outputs(request: InferRequest, outputs: Mapping[str, Array], model_name: str, version: str) -> InferResponse:
    """Return the answer to a request: the outputs that it names, or all."""
    wanted = [item.name for item in request.request_outputs or ()] or list(outputs)
    items = [
        InferOutput(name, list(outputs[name].shape), _name_datatype(outputs[name]), outputs[name]) for name in wanted
    ]
    if request.from_grpc:  # KServe's encoder takes lists or bytes
        for item in items:
            item.set_data_from_numpy(outputs[item.name])
    return InferResponse(
        response_id=request.id or "",
        model_name=model_name,
        model_version=version or None,
        infer_outputs=items,
    )


def _name_datatype(array: Array) -> str:
    name = {"b": "BOOL", "O": "BYTES", "i": "INT", "u": "UINT", "f": "FP"}[array.dtype.kind]
    return name if array.dtype.kind in "bO" else f"{name}{8 * array.itemsize}"


def require_outputs(request: InferRequest, known: Sequence[str]) -> None:
    """Refuse a request for an output that the model does not have, or for one twice.

    Raises:
        InvalidInput: if there is one.
    """
    names = [item.name for item in request.request_outputs or ()]
    _require_distinct("output", names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(f"the model has no output {', '.join(unknown)}; it has {', '.join(known)}")


def describe_value(value: NodeArg) -> dict[str, Any]:
    """Return name, datatype and shape of an input or output, -1 for a dynamic axis."""
    shape = [axis if isinstance(axis, int) else -1 for axis in value.shape]
    return {"name": value.name, "datatype": DATATYPES[value.type], "shape": shape}
