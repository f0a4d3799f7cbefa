"""Publisher to an OCI registry: an artifact with a layer for each file. The only module that imports oras.

Requests are sent and authorized here, because of the client of oras 0.2.43: it retries for minutes, waits without a
timeout, supports only tokens, and keeps a token whose scope does not allow a request.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from oras.client import OrasClient
from requests import ConnectionError as NoConnectionError
from requests import HTTPError, RequestException, Response, Timeout

from orun.errors import UsageError
from orun.stages.release import _destination
from orun.stages.release._destination import Publisher, parse_digest, report_refusal
from orun.stages.release._manifest import MANIFEST

IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/octet-stream"
TITLE = "org.opencontainers.image.title"
ANNOTATION = "org.orun.manifest"
TEMPORARY = (NoConnectionError, Timeout, HTTPError)


class Registry(Publisher):
    """OCI artifact with a layer for each file, titled with its path, and the manifest's digest as an annotation."""

    def __init__(self, address: str) -> None:
        self._place = f"oci://{address}"
        self._errors = (RequestException, ValueError, OSError)
        host = urlsplit(f"//{address}")
        plain = host.hostname in ("localhost", "127.0.0.1", "::1")
        self._client = _Client(hostname=host.netloc, insecure=plain)
        with report_refusal(self._place, *self._errors):
            self._container = self._client.get_container(address)
            self._client.auth.load_configs(self._container)
        self._digest = ""

    def read_manifest_digest(self) -> str:
        """See `Publisher`."""
        with report_refusal(self._place, *self._errors):
            url = f"{self._client.prefix}://{self._container.manifest_url()}"
            answer = self._client.do_request(url, headers={"Accept": IMAGE_MANIFEST})
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return ""
            answer.raise_for_status()
            self._digest = answer.headers.get("Docker-Content-Digest", "")
            return str(answer.json().get("annotations", {}).get(ANNOTATION, "unknown: it is not a release of orun"))

    def publish(self, bundle: Path, names: Sequence[str]) -> None:
        """See `Publisher`."""
        digest = parse_digest((bundle / MANIFEST).read_bytes())
        with report_refusal(self._place, *self._errors), TemporaryDirectory() as folder, chdir(bundle):
            titles = Path(folder, "titles.json")  # by default a layer's title lacks the folders of its file
            titles.write_text(json.dumps({name: {TITLE: name} for name in names}), "utf-8")
            answer = self._client.push(
                self._container,
                files=[f"{name}:{LAYER}" for name in names],
                annotation_file=str(titles),
                manifest_annotations={ANNOTATION: digest},
                quiet=True,
            )
        self._digest = answer.headers.get("Docker-Content-Digest", "")

    def read_reference(self) -> str:
        """See `Publisher`."""
        return self._digest


class _Client(OrasClient):  # type: ignore[misc]  # oras has no types
    """Client with timeouts, authorized as the registry requires: by name and password, or by a token."""

    def __init__(self, hostname: str, insecure: bool) -> None:
        super().__init__(hostname=hostname, insecure=insecure)
        self._host = hostname
        self._authorization: dict[str, str] = {}  # headers
        self.session.request = partial(self.session.request, timeout=_destination.QUICK)

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        json: object = None,
        stream: bool = False,
    ) -> Response:
        """Return the answer to a request, authorized if the registry requires it."""
        send = partial(self._send, method, url, data, headers=headers or {}, json=json, stream=stream)
        answer: Response = self._retry(url, send)
        if answer.status_code == HTTPStatus.FORBIDDEN and self._authorization:  # the token's scope may be too small
            self._authorization = {}
            answer = self._retry(url, send)
        if answer.status_code == HTTPStatus.UNAUTHORIZED and self._authorize(answer):
            answer = self._retry(url, send)
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            raise UsageError(
                f"{self._host} did not take the release",
                why="it requires credentials, and accepts none of those stored for it",
                hint=f"docker login {self._host}",
            )
        return answer

    def _send(self, method: str, url: str, data: bytes | None, *, headers: dict[str, str], **options: Any) -> Response:
        to_registry = urlsplit(url).netloc == self._host  # a file may go to another host, which gets no credentials
        answer: Response = self.session.request(
            method,
            url,
            data=io.BytesIO(data) if data else data,  # sent in chunks, each with its own timeout
            headers={**headers, **(self._authorization if to_registry else {})},
            timeout=(_destination.QUICK, _destination.LONG if data else _destination.QUICK),
            **options,
        )
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            answer.raise_for_status()
        return answer

    def _authorize(self, answer: Response) -> bool:
        """Authorize later requests as the registry requires; return whether credentials for it are known."""
        challenge = answer.headers.get("Www-Authenticate", "")
        if challenge.lower().startswith("basic"):
            stored = vars(self.auth).get("_basic_auth")
            self._authorization = {"Authorization": f"Basic {stored}"} if stored else {}
            return bool(stored)
        grant = partial(self.auth.authenticate_request, answer, {}, refresh=True)
        self._authorization, granted = self._retry(answer.url, grant)
        return bool(granted)

    def _retry(self, url: str, request: Callable[[], Any]) -> Any:
        return _destination.retry(urlsplit(url).netloc, request, TEMPORARY)
