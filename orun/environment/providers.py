"""Probe of execution providers: whether a session with them can be created.

`onnxruntime.get_available_providers()` lists what was compiled in. With a missing library, a misspelt option or a
missing device, ONNX Runtime prints a message and creates a session on the CPU. So a probe opens a one-node model with
each provider of a target, in a separate process, and asks the session for its providers.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

from orun.core.activity import report
from orun.core.serialization import Record
from orun.core.targets import Environment, Target
from orun.environment import venvs
from orun.environment.call_cache import cache_calls
from orun.environment.distributions import find

PROBE = """
import json, sys
import onnx, onnxruntime
from orun.errors import OrunError
from orun.measure.plugins import CPU, make_session
from orun.core.targets import Provider
from orun.providers.spec import ProviderSpec
spec = ProviderSpec(plugin=sys.argv[5]) if sys.argv[5] else None
wanted = Provider(sys.argv[1], json.loads(sys.argv[2]), sys.argv[4], spec)
header = '<ir_version: 8, opset_import: ["" : 17]> '
model = onnx.parser.parse_model(header + 'probe (float[1] x) => (float[1] y) {y = Relu(x)}')
options = onnxruntime.SessionOptions()
try:
    session = make_session(model.SerializeToString(), options, [wanted, Provider(CPU)], enable_fallback=1)
except OrunError as error:
    sys.exit(str(error))
print()
print(sys.argv[3] + json.dumps(session.get_providers()), flush=True)
"""
ANSWER = "orun found "  # prefix of the line with the answer: libraries print too
TRACEBACK = "Traceback (most recent call last):"
UNLOADED = r"(Failed to load library .*? with error: )?"
NOISE = rf"^.*\[ONNXRuntimeError\] : \d+ : \w+ : {UNLOADED}|^(\S+ \S+ )?\[[EWF]:[^\]]*\] |^.*Warning: "
PROBE_SECONDS = 120  # TensorRT's first start takes tens of seconds


class ProbeResult(Record, frozen=True):
    """Result of a probe: the session's providers, and the runtime's messages about the missing ones."""

    providers: tuple[str, ...]
    messages: str


def list_compiled_in() -> tuple[str, ...]:
    """Return the providers that the installed ONNX Runtime was built with; none when it is not installed."""
    command = [sys.executable, "-c", "import onnxruntime; print(*onnxruntime.get_available_providers())"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    return tuple(done.stdout.split()) if done.returncode == 0 else ()


def explain(target: Target, environment: Environment | None = None) -> str:
    """Return why the target cannot run on this machine, one sentence for each provider; empty when it can.

    The CPU provider is in every build of ONNX Runtime and is not probed.

    Paths of the target are absolute. ONNX Runtime comes from orun's own packages where `environment` is None.
    """
    problems = []
    for provider in target.providers:
        if provider.name == "CPUExecutionProvider":
            continue
        report(f"looking for {provider.name}")
        options = json.dumps(dict(provider.options), sort_keys=True)
        module = provider.spec.plugin if provider.spec else ""
        loaded = probe(provider.name, options, environment, provider.library, module)
        if provider.name not in loaded.providers:
            reason = find_first_reason(loaded.messages)
            problems.append(f"{provider.name} does not load on this machine" + (f" ({reason})" if reason else ""))
    return "; ".join(problems)


@cache_calls
def probe(
    provider: str, options: str, environment: Environment | None = None, library: str = "", module: str = ""
) -> ProbeResult:
    """Create a session with a provider, and the CPU as its fallback; return the providers of the session.

    Args:
        provider: its full name.
        options: its options as a JSON object.
        environment: where ONNX Runtime comes from; that of orun itself for None.
        library: absolute path of its plug-in, if the target names one.
        module: module that knows the path of its plug-in, if a package declares the provider.
    """
    packages = venvs.read_packages(environment)
    if find("onnx", packages) is None or find("onnxruntime", packages) is None:
        return ProbeResult((), "onnx and ONNX Runtime are not installed")
    interpreter = venvs.choose_interpreter(environment)
    command = [interpreter.python, "-P", "-c", PROBE, provider, options, ANSWER, library, module]
    variables = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
    if interpreter.path is not None:
        variables["PYTHONPATH"] = interpreter.path
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS, check=False, env=variables
        )
    except subprocess.TimeoutExpired:
        return ProbeResult((), f"no session within {PROBE_SECONDS} s")
    for line in done.stdout.splitlines():
        if line.startswith(ANSWER):
            return ProbeResult(tuple(json.loads(line.removeprefix(ANSWER))), done.stderr)
    if done.returncode < 0:
        return ProbeResult((), f"its process died: {signal.strsignal(-done.returncode)}\n{done.stderr}")
    return ProbeResult((), done.stderr)


def find_first_reason(messages: str) -> str:
    """Return the runtime's first message without colours, times and source locations, or Python's exception."""
    _, traceback, raised = messages.rpartition(TRACEBACK)  # without a traceback, `raised` is all of the text
    for line in raised.splitlines():
        if traceback and line.startswith(" "):
            continue  # a frame of the traceback
        text = re.sub(r"\x1b\[[0-9;]*m", "", line)
        text = re.sub(NOISE, "", text).strip()
        if text:
            return text[:300]
    return ""
