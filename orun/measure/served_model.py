"""Client of a served model: the Open Inference Protocol v2 over HTTP, with tensors as bytes.

A request is made once and sent often, so that the client costs little of the time that it measures. `tritonclient`
would serve, but allows no version of ml_dtypes that ONNX's current release is built with.
https://github.com/kserve/open-inference-protocol, and the binary tensor extension of
https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/extension_binary_data.html
"""

from __future__ import annotations

import http.client
import json
import string
import struct
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError

Array = NDArray[Any]

LENGTH_HEADER = "Inference-Header-Content-Length"
TIMEOUT_SECONDS = 60.0  # without any answer
DATATYPES: Mapping[str, str] = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "object": "BYTES",
}  # fmt: skip
TYPES = {datatype: np.dtype(name) for name, datatype in DATATYPES.items()}


class ServedModel:
    """Model on a server.

    Args:
        url: address of the server, `http://host:port`.
        name: name of the model there.

    Raises:
        UsageError: if the address is none.
    """

    def __init__(self, url: str, name: str) -> None:
        if not _is_address(url):
            raise UsageError(f"{url!r} is not an address", hint="write it as `http://host:8080`")
        parts = urlsplit(url)
        self.url, self.name = url, name
        self._secure, self._place = parts.scheme == "https", parts.netloc.rpartition("@")[2]
        self._path = f"{quote(parts.path.rstrip('/'), safe=string.punctuation)}/v2/models/{quote(name, safe='')}"

    def is_ready(self) -> bool:
        """Return whether the model is ready."""
        connection = self._connect()
        try:
            connection.request("GET", f"{self._path}/ready")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def infer(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs for a feed, by name.

        Raises:
            UsageError: if no server answers, or it refuses the request.
        """
        with closing(self.bind(feed)) as request:
            content, length = request()
        try:
            return _decode(content, length)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
            why = f"{type(error).__name__}: {error}"
            raise UsageError(f"the server at {self.url} does not answer as the protocol says", why=why) from error

    def bind(self, feed: Mapping[str, Array]) -> BoundRequest:
        """Return the request of a feed, over a connection of its own."""
        head, body = _encode(feed)
        headers = {"Content-Type": "application/octet-stream", LENGTH_HEADER: str(head)}
        return BoundRequest(self, self._connect(), f"{self._path}/infer", body, headers)

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._place, timeout=TIMEOUT_SECONDS)


@dataclass
class BoundRequest:
    """Request that is sent again and again over one connection; called, it returns the answer and its JSON's length."""

    model: ServedModel
    connection: http.client.HTTPConnection
    path: str
    body: bytes
    headers: Mapping[str, str]

    def __call__(self) -> tuple[bytes, str | None]:
        """Send it and wait for the answer; once more over a new connection if the server has closed an idle one.

        Raises:
            UsageError: if no server answers, or it refuses the request.
        """
        try:
            response = self._send()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise UsageError(
                f"no server answers at {self.model.url}", why=str(error) or type(error).__name__
            ) from error
        if response.status != http.client.OK:
            raise UsageError(
                f"the server at {self.model.url} refuses a request to the model {self.model.name!r}",
                why=f"{response.status}: {_parse_error(content)}",
            )
        return content, response.getheader(LENGTH_HEADER)

    def _send(self) -> http.client.HTTPResponse:
        is_reused = self.connection.sock is not None
        try:
            self.connection.request("POST", self.path, self.body, self.headers)
            return self.connection.getresponse()
        except ConnectionError:  # RemoteDisconnected is one
            if not is_reused:
                raise
        self.connection.close()
        self.connection.request("POST", self.path, self.body, self.headers)
        return self.connection.getresponse()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_port = parts.port is None or parts.port > 0
    except ValueError:  # of the port or an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_port and not any(map(str.isspace, url))


def _decode(content: bytes, length: str | None) -> dict[str, Array]:
    end = int(length or len(content))
    outputs: dict[str, Array] = {}
    for item in json.loads(content[:end])["outputs"]:
        size = item.get("parameters", {}).get("binary_data_size")
        kind = TYPES[item["datatype"]]
        if size is None:
            values = np.array(item["data"], kind)
        else:
            part, end = content[end : end + size], end + size
            values = _decode_texts(part) if kind.hasobject else np.frombuffer(part, kind)
        outputs[item["name"]] = values.reshape(item["shape"])
    return outputs


def _encode(feed: Mapping[str, Array]) -> tuple[int, bytes]:
    """Return the length of the request's JSON, and the request."""
    inputs, tensors = [], []
    for name, array in feed.items():
        text = array.dtype.kind in "OSU"
        tensor = _encode_texts(array) if text else np.ascontiguousarray(array).tobytes()
        inputs.append(
            {
                "name": name,
                "shape": list(array.shape),
                "datatype": "BYTES" if text else DATATYPES[array.dtype.name],
                "parameters": {"binary_data_size": len(tensor)},
            }
        )
        tensors.append(tensor)
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return len(head), b"".join([head, *tensors])


def _encode_texts(array: Array) -> bytes:
    texts = [value if isinstance(value, bytes) else str(value).encode() for value in array.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _decode_texts(content: bytes) -> Array:
    texts, place = [], 0
    while place < len(content):
        (size,) = struct.unpack_from("<I", content, place)
        texts.append(content[place + 4 : place + 4 + size].decode())
        place += 4 + size
    return np.array(texts, object)


def _parse_error(content: bytes) -> str:
    """Return the text of an error of the protocol, or the begin of another answer."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")
