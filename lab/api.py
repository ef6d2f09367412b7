# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to a Kubernetes API, and the kubeconfigs with its address and credentials.

The `kubernetes` package is not used: importing it and its models takes longer than the start of the
control plane.
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, cast

import urllib3
import yaml

from lab.errors import LabError

CONNECTIONS = 16
TIMEOUT_SECONDS = 30.0
MERGE_PATCH = "application/merge-patch+json"
FILE_FIELDS = ("certificate-authority", "client-certificate", "client-key")
JsonObject = dict[str, Any]


class ApiError(LabError):
    """An answer other than 2xx; `status` is 0 if there was no answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """One cluster's API, for up to 16 threads; `with` closes its connections."""

    def __init__(self, kubeconfig: Path) -> None:
        """Use the current context; certificates and tokens only, no credential plug-ins."""
        cluster, user = _current(kubeconfig)
        self.server: str = cluster["server"].rstrip("/")
        token = user.get("token")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS, block=True, ssl_context=_tls(cluster, user), retries=False
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()

    def request(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """The JSON answer; raises ApiError with the server's own message."""
        return cast(JsonObject, self._answer(method, path, body).json())

    def merge(self, path: str, body: JsonObject) -> JsonObject:
        """Change these fields of an object and no others; raises ApiError."""
        return cast(JsonObject, self._answer("PATCH", path, body, MERGE_PATCH).json())

    def find(self, path: str) -> JsonObject | None:
        """The object, or None if it does not exist. Raises ApiError."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def text(self, path: str) -> str:
        """The answer to a GET as text, for formats other than JSON. Raises ApiError."""
        return self._answer("GET", path, None).data.decode()

    def _answer(
        self, method: str, path: str, body: JsonObject | None, kind: str = "application/json"
    ) -> urllib3.BaseHTTPResponse:
        url = self.server + path
        headers = self._headers | ({} if body is None else {"Content-Type": kind})
        encoded = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method, url, body=encoded, headers=headers, timeout=TIMEOUT_SECONDS
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(
                f"Cannot reach the Kubernetes API ({method} {url}): {error};"
                " see `python -m lab status`.",
                0,
            ) from error
        if answer.status >= 300:
            reason = _message(answer.data) or answer.reason
            raise ApiError(
                f"The Kubernetes API refused {method} {url}: HTTP {answer.status}: {reason}.",
                answer.status,
            )
        return answer


def standalone_kubeconfig(source: Path) -> str:
    """A kubeconfig as text, with the files that it names embedded, so that it can be moved."""
    document = _read(source)
    for kind, key in (("clusters", "cluster"), ("users", "user")):
        for entry in document.get(kind) or []:
            settings = entry.get(key) or {}
            for field in FILE_FIELDS:
                if field in settings:
                    content = (source.parent / settings.pop(field)).read_bytes()
                    settings[f"{field}-data"] = base64.b64encode(content).decode()
    return json.dumps(document, indent=2) + "\n"


def _read(kubeconfig: Path) -> JsonObject:
    try:
        document = yaml.safe_load(kubeconfig.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise LabError(f"Cannot read the kubeconfig {kubeconfig}: {error}.") from error
    if not isinstance(document, dict):
        raise LabError(f"{kubeconfig} is not a kubeconfig; name one in LAB_KUBECONFIG.")
    return document


def _current(kubeconfig: Path) -> tuple[JsonObject, JsonObject]:
    """Cluster and user of the current context."""
    document = _read(kubeconfig)
    try:
        context = _named(document["contexts"], document["current-context"])["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"]
    except (KeyError, TypeError, StopIteration):
        raise LabError(
            f"{kubeconfig} has no complete current context;"
            " choose one with `kubectl config use-context`."
        ) from None
    return cluster, user


def _named(entries: list[JsonObject], name: str) -> JsonObject:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(cluster: JsonObject, user: JsonObject) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _data(user, "client-certificate"), _data(user, "client-key")
    if certificate and key:
        # The ssl module loads certificate chains only from files.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _data(settings: JsonObject, field: str) -> bytes:
    try:
        if path := settings.get(field):
            return Path(path).read_bytes()
        return base64.b64decode(settings.get(f"{field}-data") or "")
    except (OSError, binascii.Error) as error:
        raise LabError(f"The kubeconfig's {field} cannot be read: {error}.") from error


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return ""
