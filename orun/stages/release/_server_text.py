"""Container file of a server's folder, and its guide."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orun.stages._graph.io import input_names

if TYPE_CHECKING:
    from onnx import ModelProto

CONTAINERFILE = """\
# Server of the model {name}: docker build -t {tag} -f Containerfile .
# A tag can move. Name the base image with its digest to pin its bytes too (`image` of release/server).
FROM {image}
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
WORKDIR /srv/model
COPY requirements.lock ./
RUN pip install --no-deps --require-hashes -r requirements.lock && useradd --uid 1000 --user-group server
COPY . ./
USER 1000
EXPOSE {ports}
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{http_port}/v2/health/ready', timeout=5)"]
ENTRYPOINT ["python", "runtime.py", "--host", "0.0.0.0"]
"""
GUIDE = """\
# {title}

A server of the model `{name}`. It speaks the Open Inference Protocol v2.

```sh
docker build -t {tag} -f Containerfile .
docker run --rm {publish} {tag}
```

Without a container, in an environment of its own:

```sh
python{python} -m venv env && env/bin/pip install --no-deps --require-hashes -r requirements.lock
env/bin/python runtime.py
```

Ask it, by `pip install 'tritonclient[http]'`:

```python
import numpy as np
from tritonclient.http import InferenceServerClient, InferInput

client = InferenceServerClient("localhost:{http_port}")
print(client.get_model_metadata("{name}"))
# for each of {inputs}: InferInput(name, list(array.shape), datatype), then set_data_from_numpy(array)
```

- Health: `/v2/health/live`, `/v2/health/ready`. Metrics: `/metrics`.
- `server.json` has the settings. `python runtime.py --help` lists what the command line can change.
- The server has no access control and no TLS. Put it behind a proxy that has.
- `orun verify .` checks every file against `manifest.json`.
"""


def render_containerfile(settings: Mapping[str, Any], image: str) -> str:
    """Return the container file.

    Args:
        settings: content of `server.json`.
        image: base image; empty for Python's own, in the version of this process.
    """
    ports = [settings["http_port"], *([settings["grpc_port"]] if settings["grpc_port"] else [])]
    return CONTAINERFILE.format(
        name=settings["name"],
        tag=settings["name"].lower(),
        image=image or f"python:{platform.python_version()}-slim",
        ports=" ".join(map(str, ports)),
        http_port=settings["http_port"],
    )


def render_guide(settings: Mapping[str, Any], model: ModelProto) -> str:
    """Return the guide to the folder."""
    ports = [settings["http_port"], *([settings["grpc_port"]] if settings["grpc_port"] else [])]
    return GUIDE.format(
        title=f"{settings['name']} {settings['version']}".strip(),
        name=settings["name"],
        tag=settings["name"].lower(),
        publish=" ".join(f"-p {port}:{port}" for port in ports),
        python=".".join(platform.python_version_tuple()[:2]),
        http_port=settings["http_port"],
        inputs=", ".join(input_names(model)),
    )
