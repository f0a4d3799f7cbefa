"""HTTP side of the Open Inference Protocol v2: paths, bodies and errors.

Every error is `{"error": "..."}`. A tensor is a list in the JSON, or bytes after it (Triton's binary tensor extension).
JSON has no NaN and no infinity: lists have the texts "NaN", "Infinity" and "-Infinity" in their place.
https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from kserve import InferInput, InferRequest, InferResponse
from kserve.errors import InferenceError, InvalidInput, ModelNotFound
from kserve.protocol.infer_type import RequestedOutput
from kserve.protocol.rest.v2_datamodels import InferenceRequest, RequestInput
from numpy.typing import NDArray
from prometheus_client import REGISTRY, exposition
from protocol import DATATYPES, LARGEST_MESSAGE, NOT_FINITE, REQUESTS, Protocol
from pydantic import Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

Array = NDArray[Any]

LENGTH_HEADER = "inference-header-content-length"  # bytes of the JSON, if tensors follow it
STATUSES = {InvalidInput: 400, ClientDisconnect: 400, ModelNotFound: 404, InferenceError: 500}
TEXTS = {str(value): text for text, value in NOT_FINITE.items()}


class Input(RequestInput):  # type: ignore[misc]  # KServe's classes have no types
    """Input of a request, without a list if bytes follow the JSON."""

    data: list[Any] = Field(default_factory=list)


class Content(InferenceRequest):  # type: ignore[misc]  # KServe's classes have no types
    """JSON of a request."""

    inputs: list[Input]


class Endpoints:
    """Endpoints of a server."""

    def __init__(self, plane: Protocol) -> None:
        self._plane = plane

    def build_app(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/", self.answer_live),  # where load balancers look by default
            Route("/v2", self.describe_server),
            Route("/v2/", self.describe_server),
            Route("/v2/health/live", self.answer_live),
            Route("/v2/health/ready", self.answer_ready),
            Route("/metrics", self.show_metrics),
        ]
        for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            routes += [
                Route(path, self.describe_model),
                Route(f"{path}/ready", self.answer_model_ready),
                Route(f"{path}/infer", self.infer, methods=["POST"]),
            ]
        handlers = dict.fromkeys((*STATUSES, HTTPException, Exception), self.refuse)
        return Starlette(routes=routes, exception_handlers=handlers)

    async def describe_server(self, _: Request) -> Response:
        """Answer with the metadata of the server."""
        return write_json(self._plane.metadata())

    async def answer_live(self, _: Request) -> Response:
        """Answer that the process lives."""
        return write_json({"live": True})

    async def answer_ready(self, _: Request) -> Response:
        """Answer whether a load balancer may send requests."""
        if await self._plane.ready():
            return write_json({"ready": True})
        return write_json({"error": "the server is not ready: it ends"}, 503)

    async def describe_model(self, request: Request) -> Response:
        """Answer with the metadata of the model."""
        return write_json(await self._plane.model_metadata(self._require_model(request)))

    async def answer_model_ready(self, request: Request) -> Response:
        """Answer that the model is ready: the server starts with it."""
        return write_json({"name": self._require_model(request), "ready": True})

    async def infer(self, request: Request) -> Response:
        """Answer a request to the model."""
        model = self._require_model(request)
        try:
            question = read_request(await read_body(request), request.headers, model)
        except (InvalidInput, HTTPException):
            REQUESTS.labels(model, "invalid").inc()
            raise
        response, _ = await self._plane.infer(model, question)
        return write_response(response, question)

    async def show_metrics(self, request: Request) -> Response:
        """Answer with the metrics in the format that Prometheus asks for."""
        encoder, kind = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(REGISTRY), media_type=kind)

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Answer with the text of an error. Where there is no such path or method, it names one that there is."""
        if not isinstance(error, HTTPException):
            return write_json({"error": str(error)}, STATUSES.get(type(error), 500))
        text = error.detail
        if error.status_code in (404, 405):
            example = f"POST /v2/models/{self._plane.name}/infer"
            text = f"{request.method} {request.url.path}: {text.lower()}; requests to the model are {example}"
        return write_json({"error": text}, error.status_code, error.headers)

    def _require_model(self, request: Request) -> str:
        model: str = request.path_params["model"]
        self._plane.require_model(model, request.path_params.get("version", ""))
        return model


def write_json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of JSON alone."""
    return Response(orjson.dumps(content), status, headers, media_type="application/json")


async def read_body(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: if it is compressed or too large.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, f"the body is {request.headers['content-encoding']}; send it without compression")
    too_large = HTTPException(413, f"the body is larger than {LARGEST_MESSAGE} bytes; send fewer rows at a time")
    if int(request.headers.get("content-length", 0)) > LARGEST_MESSAGE:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_MESSAGE:
            raise too_large
    return bytes(body)


def read_request(body: bytes, headers: Mapping[str, str], model: str) -> InferRequest:
    """Return the request in a body: JSON alone, or JSON and the bytes of tensors after it.

    Raises:
        InvalidInput: if it is not of the protocol.
    """
    text = headers.get(LENGTH_HEADER, str(len(body)))
    if not text.isdecimal() or int(text) > len(body):
        raise InvalidInput(f"the header {LENGTH_HEADER} is {text!r}, and the body has {len(body)} bytes")
    start = int(text)
    content = _read_content(body[:start])
    tensors = list[bytes | None]()
    for item in content.inputs:
        if item.datatype not in DATATYPES.values():
            known = ", ".join(DATATYPES.values())
            raise InvalidInput(f"input {item.name!r} has datatype {item.datatype!r}; there are {known}")
        size = (item.parameters or {}).get("binary_data_size")
        left = len(body) - start
        if size is not None and (not isinstance(size, int) or not 0 <= size <= left):
            raise InvalidInput(f"input {item.name!r} names {size!r} bytes, and {left} are left in the body")
        tensors.append(None if size is None else body[start : start + size])
        start += size or 0
    binary = {"binary_data": bool((content.parameters or {}).get("binary_data_output"))}
    return InferRequest(
        model_name=model,
        request_id=content.id,
        parameters=content.parameters,
        infer_inputs=[InferInput(item.name, item.shape, item.datatype, item.data) for item in content.inputs],
        raw_inputs=tensors,
        request_outputs=[
            RequestedOutput(item.name, binary | (item.parameters or {})) for item in content.outputs or ()
        ],
    )


def _read_content(text: bytes) -> Content:
    try:
        content: Content = Content.model_validate(orjson.loads(text), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(["body", *map(str, first["loc"])])
        problem = "Input should be an object" if first["type"] == "model_type" else first["msg"]
        raise InvalidInput(f"{place}: {problem}") from error
    except ValueError as error:
        known = ", ".join(f'"{name}"' for name in NOT_FINITE)
        hint = f"; write NaN and infinity as {known}" if b"NaN" in text or b"Infinity" in text else ""
        raise InvalidInput(f"the body is not JSON: {error}{hint}") from error
    return content


def write_response(response: InferResponse, request: InferRequest) -> Response:
    """Return the answer to a request: JSON, and after it the outputs that were asked for as bytes."""
    binary = {item.name: item.binary_data for item in request.request_outputs or ()}
    outputs, tensors = list[dict[str, Any]](), list[bytes]()
    for output in response.outputs:
        item = {"name": output.name, "shape": output.shape, "datatype": output.datatype}
        if binary.get(output.name, request.use_binary_outputs):
            tensors.append(_write_bytes(output.data))
            item["parameters"] = {"binary_data_size": len(tensors[-1])}
        else:
            item["data"] = _write_list(output.data)
        outputs.append(item)
    content = {"id": request.id, "model_name": response.model_name, "model_version": response.model_version}
    head = orjson.dumps({key: value for key, value in content.items() if value is not None} | {"outputs": outputs})
    if not tensors:
        return Response(head, media_type="application/json")
    headers = {LENGTH_HEADER: str(len(head))}
    return Response(b"".join([head, *tensors]), headers=headers, media_type="application/octet-stream")


def _write_list(array: Array) -> list[Any]:
    values: list[Any] = array.ravel().tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return [value if math.isfinite(value) else TEXTS[str(value)] for value in values]
    return values


def _write_bytes(array: Array) -> bytes:
    if array.dtype.kind != "O":
        return array.tobytes()
    texts = [text.encode() for text in array.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
