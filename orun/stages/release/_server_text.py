"""Container file of a server's folder, and its guide."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from orun.stages._graph.signature import list_inputs, name_axes
from orun.stages.release._container_log import locate_log

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

CONTAINERFILE = """\
# Server of the model {name}: docker build -t {tag} -f Containerfile .
# A tag can move. Name the base image with its digest to pin its bytes too (`image` of release/server).
FROM {image}
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
WORKDIR /srv/model
COPY requirements.lock ./
RUN pip install --no-deps --require-hashes -r requirements.lock && useradd --uid 1000 --user-group server
COPY . ./
{log_folder}USER 1000
EXPOSE {ports}
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{http_port}/v2/health/ready', timeout=5)"]
ENTRYPOINT {command}
"""
LOG_FOLDER = """\
RUN mkdir -p {quoted} && chown server: {quoted}
VOLUME ["{folder}"]
"""
GUIDE = """\
# {title}

A server of the model `{name}`. It speaks the Open Inference Protocol v2.

```sh
docker build -t {tag} -f Containerfile .
docker run --rm {options} {tag}
```

Without a container, in an environment of its own:

```sh
python{python} -m venv ../env && ../env/bin/pip install --no-deps --require-hashes -r requirements.lock
../env/bin/python -B runtime.py{log_option}
```

`-B` keeps Python from writing byte code beside the files, which `orun verify` would name.

Ask it, by `pip install 'tritonclient[http]'`:

```python
import numpy as np
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import np_to_triton_dtype

arrays = {{
{arrays}
}}
inputs = [InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)) for name, array in arrays.items()]
for item, array in zip(inputs, arrays.values()):
    item.set_data_from_numpy(array)
result = InferenceServerClient("localhost:{http_port}").infer("{name}", inputs)
print(result.as_numpy("{output}"))
```

- Health: `/v2/health/live`, `/v2/health/ready`. Metrics: `/metrics`.
- An error is `{{"error": "..."}}`, and says what the model takes.
- JSON has no NaN and no infinity. Write "NaN", "Infinity" or "-Infinity" in `data`; the server does the same.
- `server.json` has the settings. `python runtime.py --help` lists what the command line can change.
{log_note}- The server has no access control and no TLS. Put it behind a proxy that has.
- `orun verify .` checks every file against `manifest.json`.
"""
LOG_NOTE = """\
- The server logs sampled requests for `orun watch`. In a container the log is `{log}`, on the volume that `-v` names.
  The server does not start if user 1000 cannot write there.
"""


def render_containerfile(settings: Mapping[str, Any], image: str) -> str:
    """Return the container file; an empty base image is Python's own, in the version of this process."""
    log = locate_log(settings)
    command = ["python", "runtime.py", "--host", "0.0.0.0"]  # noqa: S104 - of the container alone
    return CONTAINERFILE.format(
        name=settings["name"],
        tag=settings["name"].lower(),
        image=image or f"python:{platform.python_version()}-slim",
        ports=" ".join(map(str, _list_ports(settings))),
        http_port=settings["http_port"],
        log_folder=LOG_FOLDER.format(folder=log.parent, quoted=shlex.quote(str(log.parent))) if log else "",
        command=json.dumps([*command, "--sample-log", str(log)] if log else command),
    )


def render_guide(settings: Mapping[str, Any], model: ModelProto) -> str:
    """Return the guide to the folder."""
    log, name = locate_log(settings), PurePosixPath(settings["sample_log"])
    options = [f"-p {port}:{port}" for port in _list_ports(settings)]
    if log:
        options.append(f"-v {settings['name'].lower()}-log:{shlex.quote(str(log.parent))}")
    return GUIDE.format(
        title=f"{settings['name']} {settings['version']}".strip(),
        name=settings["name"],
        tag=settings["name"].lower(),
        options=" ".join(options),
        log_option=f" --sample-log {shlex.quote(f'../{name.name}')}" if log and not name.is_absolute() else "",
        log_note=LOG_NOTE.format(log=log) if log else "",
        python=".".join(platform.python_version_tuple()[:2]),
        http_port=settings["http_port"],
        arrays="\n".join(map(_format_array, list_inputs(model))),
        output=model.graph.output[0].name,
    )


def _list_ports(settings: Mapping[str, Any]) -> list[int]:
    """Return the ports that the server listens at: 0 for gRPC means none."""
    return [port for port in (settings["http_port"], settings["grpc_port"]) if port]


def _format_array(value: ValueInfoProto) -> str:
    """Return a line of code that makes up an input, with 1 for each dynamic axis."""
    from onnx import TensorProto, helper

    shape = [axis if isinstance(axis, int) else 1 for axis in name_axes(value)]
    code = value.type.tensor_type.elem_type
    if code == TensorProto.STRING:
        return f'    "{value.name}": np.full({shape}, "text", dtype=object),'
    return f'    "{value.name}": np.zeros({shape}, dtype=np.{helper.tensor_dtype_to_np_dtype(code)}),'
