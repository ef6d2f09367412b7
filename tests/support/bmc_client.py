# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plain HTTPS client for one simulated BMC: it sends only what the test specifies."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from lab.embedded import EmbeddedLab
from lab.machines import Machine


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; `body` is decoded JSON, or None without a body."""

    status: int
    headers: http.client.HTTPMessage
    body: Any


def basic(username: str, password: str) -> dict[str, str]:
    encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


class BmcClient:
    """One kept-alive connection that trusts only the lab's authority."""

    def __init__(self, lab: EmbeddedLab, machine: Machine, timeout: float = 5.0) -> None:
        self.credential = basic(machine.bmc_username, machine.bmc_password)
        context = ssl.create_default_context(cafile=str(lab.ca_path))
        port = lab.settings.ports["bmc"]
        self.connection = http.client.HTTPSConnection(
            machine.bmc_address, port, timeout=timeout, context=context
        )

    def __enter__(self) -> BmcClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.connection.close()

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Answer:
        """Send a request, with the machine's password unless other headers are given."""
        data = None if body is None else json.dumps(body)
        sent = self.credential if headers is None else headers
        self.connection.request(method, path, data, dict(sent))
        answer = self.connection.getresponse()
        text = answer.read()
        return Answer(answer.status, answer.headers, json.loads(text) if text else None)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET a resource; of a redirect only the path is followed."""
        answer = self.request("GET", path, headers)
        if answer.status != 308:
            return answer
        parts = urllib.parse.urlsplit(answer.headers["Location"])
        return self.request("GET", parts._replace(scheme="", netloc="").geturl(), headers)

    def crawl(self, start: str) -> dict[str, Answer]:
        """All answers reachable by links, by path without fragment and trailing slash."""
        found: dict[str, Answer] = {}
        waiting = [start]
        while waiting:
            path = waiting.pop()
            if path not in found:
                found[path] = self.get(path)
                waiting += links(found[path].body)
        return found


def links(value: Any) -> Iterator[str]:
    """Paths that a document refers to."""
    if isinstance(value, list):
        for item in value:
            yield from links(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("@odata.id", "DataSourceUri", "@Redfish.ActionInfo") or key.endswith(
                "@odata.nextLink"
            ):
                yield item.partition("#")[0].rstrip("/")
            else:
                yield from links(item)
