"""Session of onnxruntime-web: a model in a process of Node.js or a page of Chromium, called from Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Literal, Protocol, Self

from numpy.typing import NDArray

from orun.core.serialization import Record
from orun.errors import OrunError, UsageError
from orun.measure.web.chromium import Chromium
from orun.measure.web.package import NODE, WebPackage
from orun.measure.web.static_server import serve_folders
from orun.measure.web.tensors import decode_tensor, encode_feed

Runtime = Literal["chromium", "node"]
Feed = Mapping[str, NDArray[Any]]

HERE = Path(__file__).parent
PROGRAMS: Mapping[Runtime, tuple[str, ...]] = {
    "node": ("node",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell"),
}
PACKAGES: Mapping[Runtime, str] = {"node": "nodejs", "chromium": "chromium"}  # of Debian
SCRIPT, HOST, TENSORS = "session.mjs", "host.mjs", "tensors.mjs"
EMPTY_PAGE = "blank.html"
OVERHEADS = 9  # requests whose median is the overhead of one
LEAST_SECONDS = 1e-6  # of a block, should its overhead have been less than usual


class WebRuntime(Record, frozen=True):
    """Runtime of web sessions: a package in Node.js or Chromium.

    Attributes:
        package: the onnxruntime-web.
        host: Node.js or Chromium.
        program: path of that.
        threads: threads of the runtime.
    """

    package: WebPackage
    host: Runtime
    program: str
    threads: int = 1


def find_program(host: Runtime) -> str:
    """Return the path of Node.js, or of a Chromium or Chrome.

    Raises:
        UsageError: if it is not on `PATH`.
    """
    program = next((path for name in PROGRAMS[host] if (path := shutil.which(name))), None)
    if program is None:
        names = ", ".join(PROGRAMS[host])
        problem = "there is no Node.js" if host == "node" else "there is no Chromium or Chrome"
        raise UsageError(problem, why=f"PATH has no {names}", hint=f"apt-get install {PACKAGES[host]}")
    return program


class Opened(Record, frozen=True):
    """A session that is ready.

    Attributes:
        load: milliseconds to load the runtime and make the session.
        threads: threads that the runtime uses.
        host: name and version of what runs it.
    """

    load: float
    threads: int
    host: str


class Host(Protocol):
    """Process that answers requests of `session.mjs`."""

    runtime: str
    model: str

    def ask(self, request: str) -> dict[str, Any]:
        """Return the answer to a request, both as `session.mjs` has them."""

    def read_cpu_seconds(self) -> float | None:
        """Return the CPU time of the thread that runs the model so far; None where `session.mjs` reads it."""


class WebSession:
    """Session of one model; a context manager.

    Args:
        runtime: what runs it.
        model: path of the proto, beside its external data.
        external_data: names of the files with external data.

    Attributes:
        opened: facts of the session.

    Raises:
        UsageError: if the model cannot be opened.
        OrunError: if it cannot be run, or Node.js or Chromium ends.
    """

    opened: Opened

    def __init__(self, runtime: WebRuntime, model: Path, external_data: Sequence[str]) -> None:
        self._runtime = runtime
        self._model = model
        self._external_data = external_data
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._host = HOSTS[self._runtime.host](stack, self._runtime, self._model)
            base = self._host.model.rpartition("/")[0]
            options = {
                "runtime": self._host.runtime,
                "model": self._host.model,
                "externalData": [{"path": name, "data": f"{base}/{name}"} for name in self._external_data],
                "threads": self._runtime.threads,
            }
            try:
                self.opened = Opened(**self._ask("open", options))
            except _Refused as error:
                raise UsageError("onnxruntime-web cannot open the model", why=error.why) from error
            if self.opened.threads != self._runtime.threads:
                problem = f"onnxruntime-web has {self.opened.threads} threads here instead of {self._runtime.threads}"
                raise UsageError(problem, why=self.opened.host)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Return the outputs by name."""
        return {name: decode_tensor(tensor) for name, tensor in self._ask("run", encode_feed(feed)).items()}

    def bind(self, feed: Feed) -> None:
        """Keep the inputs of `time`."""
        self._ask("bind", encode_feed(feed))

    def time(self, count: int, seconds: float) -> tuple[list[float], list[float]]:
        """Time inferences; return seconds of wall time of each, and of CPU time.

        Args:
            count: inferences at most.
            seconds: time in which they begin; infinite for no limit.
        """
        times, cpu = self._ask_timed("time", count, seconds if seconds < float("inf") else None)
        wall = [each / 1000 for each in times["wall"]]
        if cpu is None:
            return wall, [each / 1000 for each in times["cpu"]]
        return wall, [max(cpu - self._overhead, LEAST_SECONDS) / len(wall)] * len(wall)

    @cached_property
    def _overhead(self) -> float:
        """CPU seconds of a request without an inference."""
        readings = [self._ask_timed("rest")[1] for _ in range(OVERHEADS)]
        return median(reading for reading in readings if reading is not None)

    def _ask_timed(self, method: str, *arguments: Any) -> tuple[Any, float | None]:
        """Return the answer to a request, and the CPU seconds that the page took for it."""
        before = self._host.read_cpu_seconds()
        answer = self._ask(method, *arguments)
        after = self._host.read_cpu_seconds()
        return answer, None if before is None or after is None else after - before

    def _ask(self, method: str, *arguments: Any) -> Any:
        answer = self._host.ask(json.dumps({"method": method, "arguments": arguments}))
        if "error" in answer:
            raise _Refused("onnxruntime-web cannot run the model", why=answer["error"])
        return answer.get("result")


class _Refused(OrunError):
    """A request that the runtime refused."""


class _Node:
    """Process of Node.js."""

    def __init__(self, stack: ExitStack, runtime: WebRuntime, model: Path) -> None:
        self.runtime = (runtime.package.scripts / NODE).as_uri()
        self.model = str(model)
        self._log = stack.enter_context((Path(stack.enter_context(TemporaryDirectory())) / "log").open("w+b"))
        self._process = stack.enter_context(
            subprocess.Popen(
                [runtime.program, str(HERE / HOST)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
        )
        stack.callback(self._process.kill)

    def ask(self, request: str) -> dict[str, Any]:
        _require_pipe(self._process.stdin).write(f"{request}\n".encode())
        _require_pipe(self._process.stdin).flush()
        line = _require_pipe(self._process.stdout).readline()
        if not line:
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
            raise OrunError("Node.js ended", why="\n".join(lines[-3:]))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def read_cpu_seconds(self) -> float | None:
        return None


def _require_pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the process has no such pipe")
    return stream


class _Page:
    """Page of Chromium, isolated so that it may use threads."""

    def __init__(self, stack: ExitStack, runtime: WebRuntime, model: Path) -> None:
        folders = {"": HERE, "ort": runtime.package.scripts, "model": model.parent}
        address = stack.enter_context(serve_folders(folders))
        self.runtime = f"{address}/ort/{runtime.package.browser_module}"
        self.model = f"{address}/model/{model.name}"
        profile = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        self._tab = stack.enter_context(Chromium(runtime.program, profile))
        self._tab.ask("Performance.enable", timeDomain="threadTicks")
        self._tab.load(f"{address}/{EMPTY_PAGE}")

    def ask(self, request: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._tab.evaluate(f"import('/{SCRIPT}').then(module => module.answer({request}))")
        return answer

    def read_cpu_seconds(self) -> float | None:
        metrics = {item["name"]: item["value"] for item in self._tab.ask("Performance.getMetrics")["metrics"]}
        seconds: float = metrics["ThreadTime"]
        return seconds


HOSTS: Mapping[Runtime, Callable[[ExitStack, WebRuntime, Path], Host]] = {"node": _Node, "chromium": _Page}
