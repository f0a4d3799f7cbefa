"""Server of one ONNX model: the Open Inference Protocol v2 over HTTP and gRPC, health and Prometheus metrics.

    python runtime.py [--host HOST] [--http-port PORT] [--grpc-port PORT] [--sample-log FILE]

`server.json` beside this file holds the settings. After SIGTERM the server is not ready, answers for five seconds more,
and ends after the requests that are under way. A second SIGTERM, or Ctrl-C, does without the five seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
import onnxruntime
import uvicorn
from batcher import Batcher  # which lies beside this file in the release, as `protocol` and `sample_log` do
from kserve import InferRequest, InferResponse, Model, ModelRepository
from kserve.errors import InferenceError, InvalidInput
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from prometheus_client import Histogram
from protocol import (
    LARGEST_MESSAGE,
    REQUESTS,
    FixedRepository,
    Protocol,
    Servicer,
    describe_value,
    read_inputs,
    require_outputs,
    write_outputs,
)
from rest import Endpoints
from sample_log import SampleLog

Array = NDArray[Any]

logger = logging.getLogger("server")

HERE = Path(__file__).parent
LEAVING_SECONDS = 5  # after SIGTERM, for what a load balancer sends before it knows
GRACE_SECONDS = 12  # then for requests under way over HTTP, and over gRPC: Kubernetes gives 30 s in all
IDLE_SECONDS = 65  # of a connection: longer than load balancers keep one
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ROWS = Histogram("inference_batch_rows", "Rows of each run of the model", ["model_name"], buckets=SIZES)
SECONDS = Histogram("inference_run_seconds", "Time of each run of the model", ["model_name"])


def open_session(settings: Mapping[str, Any]) -> onnxruntime.InferenceSession:
    """Open the model with the options and providers that it was measured with; refuse another provider."""
    options = onnxruntime.SessionOptions()
    for name, value in settings["session"]["attributes"].items():
        setattr(options, name, value)
    for name, (kind, member) in settings["session"]["enums"].items():
        setattr(options, name, getattr(getattr(onnxruntime, kind), member))
    for name, value in settings["session"]["entries"].items():
        options.add_session_config_entry(name, value)
    for name, size in settings["session"]["dimensions"].items():
        options.add_free_dimension_override_by_name(name, size)
    if settings["extensions"]:
        options.register_custom_ops_library(importlib.import_module("onnxruntime_extensions").get_library_path())
    providers = [(name, values) for name, values in settings["providers"]]
    if {"CUDAExecutionProvider", "TensorrtExecutionProvider"} & {name for name, _ in providers}:
        onnxruntime.preload_dlls()  # CUDA's libraries that pip has installed
    off = settings["disabled_optimizers"]
    model = str(HERE / settings["model"])
    session = onnxruntime.InferenceSession(model, options, providers=providers, disabled_optimizers=off)
    if session.get_providers()[0] != providers[0][0]:
        sys.exit(f"{providers[0][0]} is not available here: the model would run on {session.get_providers()[0]}")
    return session


class ServedModel(Model):  # type: ignore[misc]  # KServe's classes have no types
    """Model behind the protocol."""

    def __init__(self, settings: Mapping[str, Any], samples: SampleLog | None) -> None:
        super().__init__(settings["name"])
        self.version = settings["version"]
        self._session = open_session(settings)
        self._samples = samples
        self._threads = ThreadPoolExecutor(settings["workers"], "session")
        self._inputs, self._outputs = self._session.get_inputs(), self._session.get_outputs()
        self._names = [item.name for item in self._outputs]
        size = settings["max_batch_size"]
        self._batcher = Batcher(self._run, size, settings["max_queue_delay"]) if size > 1 else None
        self.ready = True

    def load(self) -> bool:
        """Do nothing: the constructor has opened the session."""
        return bool(self.ready)

    def get_input_types(self) -> list[dict[str, Any]]:
        """Return name, datatype and shape of the inputs."""
        return [describe_value(item) for item in self._inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        """Return name, datatype and shape of the outputs."""
        return [describe_value(item) for item in self._outputs]

    async def predict(self, payload: InferRequest, headers: Mapping[str, str] | None = None) -> InferResponse:  # noqa: ARG002
        """Answer a request."""
        outcome = "failed"
        try:
            response = await self._answer(payload)
            outcome = "ok"
        except InvalidInput:
            outcome = "invalid"
            raise
        finally:
            REQUESTS.labels(self.name, outcome).inc()
        return response

    async def _answer(self, payload: InferRequest) -> InferResponse:
        start = time.perf_counter()
        feed = read_inputs(payload, self._inputs, batched=self._batcher is not None)
        require_outputs(payload, self._names)
        values = await (self._batcher.run(feed) if self._batcher else self._run(feed))
        outputs = dict(zip(self._names, values, strict=True))
        if self._samples:
            self._samples.record(feed, outputs, time.perf_counter() - start)
        return write_outputs(payload, outputs, self.name, self.version)

    async def _run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run_session, feed)
        except InvalidArgument as error:
            raise InvalidInput(str(error)) from error
        except Exception as error:  # ONNX Runtime's errors share no base class but this
            logger.exception("the model failed")
            raise InferenceError(str(error)) from error

    def _run_session(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        first = next(iter(feed.values()), None)
        ROWS.labels(self.name).observe(len(first) if first is not None and first.ndim else 1)
        with SECONDS.labels(self.name).time():
            outputs: Sequence[Array] = self._session.run(self._names, feed)
        return outputs


async def serve(model: ServedModel, host: str, http_port: int, grpc_port: int) -> None:
    """Serve over HTTP, and over gRPC if its port is not 0, until a signal ends the server."""
    repository = ModelRepository()
    repository.update(model)
    plane = Protocol(repository, model.name, model.version)
    http = uvicorn.Server(
        uvicorn.Config(
            Endpoints(plane).build_app(),
            host,
            http_port,
            log_config=None,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=IDLE_SECONDS,
        )
    )
    sizes = [(f"grpc.max_{way}_message_length", LARGEST_MESSAGE) for way in ("send", "receive")]
    rpc = grpc.aio.server(interceptors=(ExceptionToStatusInterceptor(),), options=sizes)
    add_GRPCInferenceServiceServicer_to_server(Servicer(plane, FixedRepository(repository)), rpc)
    if grpc_port:
        rpc.add_insecure_port(f"{host}:{grpc_port}")
        await rpc.start()
    over_grpc = f", gRPC at {host}:{grpc_port}" if grpc_port else ""
    logger.info("%s: HTTP at %s:%d%s", model.name, host, http_port, over_grpc)
    serving = asyncio.create_task(http.serve())
    await asyncio.sleep(0)  # it has set uvicorn's handlers of signals when it first waits
    end = signal.getsignal(signal.SIGTERM)
    assert callable(end)  # noqa: S101 - it is uvicorn's
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave, plane, end)
    await serving
    await rpc.stop(GRACE_SECONDS)


def leave(plane: Protocol, end: Callable[[int, FrameType | None], Any]) -> None:
    """Be ready no more, and end soon by uvicorn's handler of SIGTERM; at once if this is the second time."""
    seconds = 0 if plane.leaving else LEAVING_SECONDS
    plane.leaving = True
    asyncio.get_running_loop().call_later(seconds, end, signal.SIGTERM, None)


def main() -> None:
    """Read the settings and the command line, and serve."""
    settings = json.loads((HERE / "server.json").read_bytes())
    parser = argparse.ArgumentParser(description=f"Serve {settings['name']}.", allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--http-port", type=int, default=settings["http_port"], help="default: %(default)s")
    parser.add_argument("--grpc-port", type=int, default=settings["grpc_port"], help="0 for none; default: %(default)s")
    parser.add_argument("--sample-log", default=settings["sample_log"], help="file of sampled requests")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    logging.getLogger("kserve").setLevel(logging.CRITICAL)  # it logs mistakes of clients with tracebacks
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises the signal again when it has ended well
    samples = None
    if options.sample_log:
        samples = SampleLog(
            Path(options.sample_log),
            settings["sample_rate"],
            settings["sample_seed"],
            without=settings["sample_without"],
            model=settings["sha256"],
        )
        try:
            samples.open()
        except OSError as error:
            sys.exit(
                f"cannot write to the sample log {options.sample_log}: {error.strerror}\n"
                "  hint: name a file that this user may write: --sample-log FILE"
            )
    asyncio.run(serve(ServedModel(settings, samples), options.host, options.http_port, options.grpc_port))


if __name__ == "__main__":
    main()
