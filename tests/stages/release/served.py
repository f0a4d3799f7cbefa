"""A client of a server, by `tritonclient` in an environment of its own: `python served.py HTTP_PORT GRPC_PORT AT_ONCE`.

It prints a line of JSON: for each protocol its answers and the texts of its errors.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as rpc
import tritonclient.http as web
from tritonclient.utils import InferenceServerException

ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)
INFINITE = np.array([[np.inf, 0, 0, 0], [np.nan, 0, 0, 0], [-np.inf, 0, 0, 0]], np.float32)


def attempt(function: Any, *arguments: Any, **options: Any) -> str:
    """Return the text of the error that a call ends with."""
    try:
        function(*arguments, **options)
    except InferenceServerException as error:
        return f"{error.status()}: {error.message()}"
    return "no error"


def inputs(library: Any, array: np.ndarray[Any, Any], name: str = "x", datatype: str = "FP32") -> list[Any]:
    """Return the input of a request."""
    item = library.InferInput(name, list(array.shape), datatype)
    item.set_data_from_numpy(array)
    return [item]


def talk(library: Any, client: Any, at_once: int) -> dict[str, Any]:
    """Ask a server everything, by one protocol."""
    plain = client.infer("scale", inputs(library, ROWS))
    named = client.infer("scale", inputs(library, ROWS), outputs=[library.InferRequestedOutput("y")], request_id="7")
    waiting = (
        [client.async_infer("scale", inputs(library, ROWS + number)) for number in range(at_once)]
        if (library is web)
        else []
    )
    unknown = [library.InferRequestedOutput("z")]
    twice = [library.InferRequestedOutput("y")] * 2
    as_json = {} if library is web else {"as_json": True}
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": client.is_model_ready("scale"),
        "answer": plain.as_numpy("y").tolist(),
        "named": named.as_numpy("y").tolist(),
        "together": [item.get_result().as_numpy("y").tolist() for item in waiting],
        "response": named.get_response(**as_json),
        "infinite": client.infer("scale", inputs(library, INFINITE)).as_numpy("y").astype(str).tolist(),
        "versions": [client.is_model_ready("scale", "1.0"), attempt(client.get_model_metadata, "scale", "2")],
        "errors": {
            "model": attempt(client.infer, "other", inputs(library, ROWS)),
            "name": attempt(client.infer, "scale", inputs(library, ROWS, "z")),
            "type": attempt(client.infer, "scale", inputs(library, ROWS.astype(np.int64), "x", "INT64")),
            "shape": attempt(client.infer, "scale", inputs(library, ROWS[:, :3])),
            "rank": attempt(client.infer, "scale", inputs(library, ROWS[0])),
            "rows": attempt(client.infer, "scale", inputs(library, ROWS[:0])),
            "output": attempt(client.infer, "scale", inputs(library, ROWS), outputs=unknown),
            "twice": attempt(client.infer, "scale", inputs(library, ROWS), outputs=twice),
            "version": attempt(client.infer, "scale", inputs(library, ROWS), "2"),
            "unload": attempt(client.unload_model, "scale"),
        },
        "after": client.infer("scale", inputs(library, ROWS)).as_numpy("y").tolist(),
    }


def main(http_port: str, grpc_port: str, at_once: int) -> None:
    """Talk by both protocols."""
    over_http = web.InferenceServerClient(f"127.0.0.1:{http_port}", concurrency=at_once)
    over_grpc = rpc.InferenceServerClient(f"127.0.0.1:{grpc_port}")
    report = {"http": talk(web, over_http, at_once), "grpc": talk(rpc, over_grpc, 0)}
    listed = [web.InferRequestedOutput("y", binary_data=False)]
    report["http"]["listed"] = (
        over_http.infer("scale", inputs(web, INFINITE), outputs=listed).as_numpy("y").astype(str).tolist()
    )
    report["http"]["server"] = over_http.get_server_metadata()
    report["http"]["metadata"] = over_http.get_model_metadata("scale")
    report["grpc"]["metadata"] = over_grpc.get_model_metadata("scale", as_json=True)
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
