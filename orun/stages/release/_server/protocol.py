"""Requests and answers of the Open Inference Protocol v2, checked before the model sees them.

KServe's server has the endpoints. These classes add what it lacks: binary tensors that are never turned into lists, an
error of the protocol for each mistake of a client, and a repository that no client can change.
https://github.com/kserve/open-inference-protocol
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from kserve import InferInput, InferOutput, InferRequest, InferResponse
from kserve.errors import InvalidInput
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.infer_type import RequestedOutput
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.protocol.rest.v2_datamodels import InferenceRequest
from numpy.typing import NDArray
from onnxruntime import NodeArg
from prometheus_client import Counter
from pydantic import ValidationError

Array = NDArray[Any]

FIXED = "this server loads and unloads no models: it has the one that it was released with"
PLATFORM = "onnxruntime_onnx"  # as Triton names it
LENGTH_HEADER = "inference-header-content-length"
DATATYPES: Mapping[str, str] = {  # of ONNX Runtime's types
    "tensor(bool)": "BOOL", "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16", "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64", "tensor(int8)": "INT8", "tensor(int16)": "INT16", "tensor(int32)": "INT32",
    "tensor(int64)": "INT64", "tensor(float16)": "FP16", "tensor(float)": "FP32", "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}  # fmt: skip
REQUESTS = Counter("inference_requests", "Requests by outcome: ok, invalid, failed", ["model_name", "outcome"])
KINDS: Mapping[str, str] = {"BOOL": "b", "BYTES": "OUS", "FP": "fiu", "INT": "iu", "UINT": "iu"}  # of JSON's values


class Protocol(DataPlane):  # type: ignore[misc]  # KServe's classes have no types
    """Decoder of HTTP requests, the metadata of the model, and whether the server is ready.

    Attributes:
        leaving: whether the server is about to end: it still answers requests, and is not ready for more.
    """

    leaving = False

    async def ready(self) -> bool:
        """Return whether a load balancer may send requests."""
        return not self.leaving and await super().ready()

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """Return the metadata, with the platform that KServe leaves empty; no version can be requested."""
        return {**await super().model_metadata(model_name), "platform": PLATFORM, "versions": []}

    def decode_inference_request(
        self, body: bytes | InferenceRequest, headers: Mapping[str, str], model_name: str
    ) -> InferRequest:
        """Return the request in a body: JSON alone, or JSON and the bytes of tensors after it."""
        if isinstance(body, InferenceRequest):
            return super().decode_inference_request(body, headers, model_name)
        try:
            return _decode(body, headers, model_name)
        except InvalidInput:
            REQUESTS.labels(model_name, "invalid").inc()
            raise


class FixedRepository(ModelRepositoryExtension):  # type: ignore[misc]  # KServe's classes have no types
    """Repository that serves what was released: clients can neither load nor unload a model."""

    async def load(self, model_name: str) -> None:  # noqa: ARG002 - KServe's name
        """Refuse."""
        raise InvalidInput(FIXED)

    async def unload(self, model_name: str) -> None:  # noqa: ARG002 - KServe's name
        """Refuse."""
        raise InvalidInput(FIXED)


def _decode(body: bytes, headers: Mapping[str, str], model_name: str) -> InferRequest:
    text = headers.get(LENGTH_HEADER, str(len(body)))
    if not text.isdecimal() or int(text) > len(body):
        raise InvalidInput(f"the header {LENGTH_HEADER} is {text!r}, and the body has {len(body)} bytes")
    try:
        head = orjson.loads(body[: int(text)])
        for item in head["inputs"]:
            item.setdefault("data", [])
        request = InferenceRequest.model_validate(head)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(f"the request is not one of the Open Inference Protocol: {describe(error)}") from error
    start, tensors = int(text), list[bytes | None]()
    for item in request.inputs:
        size = (item.parameters or {}).get("binary_data_size")
        left = len(body) - start
        if size is not None and (not isinstance(size, int) or not 0 <= size <= left):
            raise InvalidInput(f"input {item.name!r} names {size!r} bytes, and {left} are left in the body")
        tensors.append(None if size is None else body[start : start + size])
        start += size or 0
    binary = {"binary_data": bool((request.parameters or {}).get("binary_data_output"))}
    return InferRequest(
        model_name=model_name,
        request_id=request.id,
        parameters=request.parameters,
        infer_inputs=[InferInput(item.name, item.shape, item.datatype, item.data) for item in request.inputs],
        raw_inputs=tensors,
        request_outputs=[
            RequestedOutput(item.name, binary | (item.parameters or {})) for item in request.outputs or ()
        ],
    )


def describe(error: Exception) -> str:
    """Return the first cause of an error in a request, in a line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"it has no {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]


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
    if len(sent) != len(request.inputs):
        raise InvalidInput("an input is there twice")
    if sent.keys() != set(names):
        raise InvalidInput(f"the model takes the inputs {', '.join(names)}; sent: {', '.join(sent) or 'none'}")
    feed = {item.name: _read(sent[item.name], item) for item in expected}
    if batched and len({len(array) for array in feed.values()}) > 1:
        rows = ", ".join(f"{name} has {len(array)}" for name, array in feed.items())
        raise InvalidInput(f"the inputs need the same first axis: {rows}")
    if batched and not len(next(iter(feed.values()))):
        raise InvalidInput("the inputs have no rows")
    return feed


def _read(item: InferInput, expected: NodeArg) -> Array:
    datatype, shape = DATATYPES[expected.type], list(item.shape)
    if item.datatype != datatype:
        raise InvalidInput(f"input {item.name!r} is {item.datatype}; the model takes {datatype}")
    fits = len(shape) == len(expected.shape) and all(
        size >= 0 and (not isinstance(axis, int) or axis == size)
        for size, axis in zip(shape, expected.shape, strict=True)
    )
    if not fits:
        raise InvalidInput(
            f"input {item.name!r} has shape {shape}; the model takes {describe_value(expected)['shape']}"
        )
    try:
        is_list = item._raw_data is None  # noqa: SLF001 - KServe has no other way to tell JSON from bytes
        array: Array = _read_json(item, datatype) if is_list else item.as_numpy()
        return _as_texts(array) if datatype == "BYTES" else array
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        raise InvalidInput(f"input {item.name!r}: its data are not {datatype} of shape {shape}: {error}") from error


def _read_json(item: InferInput, datatype: str) -> Array:
    """Return values that came as a list; refuse those that numpy would convert in silence.

    It would turn 1.5 into 1, 'false' into True and 1e39 into infinity, and cut nested rows anew.
    """
    sent = np.array(item.data)
    if item.data and sent.dtype.kind not in KINDS[datatype.rstrip("0123456789")]:
        raise ValueError(f"{item.data!r:.60}")
    if sent.ndim > 1 and list(sent.shape) != list(item.shape):
        raise ValueError(f"they are nested as {list(sent.shape)}")
    array: Array = item.as_numpy()
    if array.dtype.kind == "f":
        too_large = sent.ravel()[np.isinf(array.ravel()) & np.isfinite(sent.ravel())]
        if too_large.size:
            raise ValueError(f"{too_large[0]:g} is too large")
    return array


def _as_texts(array: Array) -> Array:
    texts = [value.decode() if isinstance(value, bytes) else value for value in array.ravel()]
    return np.array(texts, dtype=object).reshape(array.shape)


def write_outputs(request: InferRequest, outputs: Mapping[str, Array], model_name: str) -> InferResponse:
    """Return the answer to a request: the outputs that it names, or all."""
    wanted = [item.name for item in request.request_outputs or ()] or list(outputs)
    items = [
        InferOutput(name, list(outputs[name].shape), _name_datatype(outputs[name]), outputs[name]) for name in wanted
    ]
    if request.from_grpc:  # KServe's encoder of gRPC takes lists or bytes, that of HTTP arrays too
        for item in items:
            item.set_data_from_numpy(outputs[item.name])
    return InferResponse(
        response_id=request.id or "",
        model_name=model_name,
        infer_outputs=items,
        use_binary_outputs=request.use_binary_outputs,
        requested_outputs=request.request_outputs,
    )


def _name_datatype(array: Array) -> str:
    name = {"b": "BOOL", "O": "BYTES", "i": "INT", "u": "UINT", "f": "FP"}[array.dtype.kind]
    return name if array.dtype.kind in "bO" else f"{name}{8 * array.itemsize}"


def require_outputs(request: InferRequest, known: Sequence[str]) -> None:
    """Refuse a request for outputs that the model does not have.

    Raises:
        InvalidInput: if there is one.
    """
    unknown = [item.name for item in request.request_outputs or () if item.name not in known]
    if unknown:
        raise InvalidInput(f"the model has no output {', '.join(unknown)}; it has {', '.join(known)}")


def describe_value(value: NodeArg) -> dict[str, Any]:
    """Return name, datatype and shape of an input or output, -1 for a dynamic axis."""
    shape = [axis if isinstance(axis, int) else -1 for axis in value.shape]
    return {"name": value.name, "datatype": DATATYPES[value.type], "shape": shape}
