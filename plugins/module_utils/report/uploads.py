# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Files of a report, sent by HTTP PUT: to presigned URLs of an object store, or with headers.

The query and the headers may be secrets, so messages have only the scheme, host, port and path.
"""

from __future__ import annotations

import re
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from ..base.errors import InvalidInput, TargetError, TargetFailure
from ..fleet.urls import origin_of, origin_text
from ..fleet.visits import Client, FleetOptions, Target, Trust, visit

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
# Headers that belong to the connection; a wrong one lets two servers read two different requests.
_FRAMING = frozenset({"connection", "content-length", "host", "te", "transfer-encoding", "upgrade"})


@dataclass(frozen=True)
class Upload:
    """One file for one URL; ``label`` names the upload in messages."""

    label: str
    url: str = field(repr=False)
    content: bytes = field(repr=False)
    headers: t.Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """The URL without its query."""
        parts = urllib.parse.urlsplit(self.url.strip())
        origin = origin_of(self.url)
        return "" if origin is None else f"{origin_text(origin)}{parts.path or '/'}"


def check(upload: Upload, *, allow_plain_http: bool) -> None:
    """Raise InvalidInput for an invalid URL or header."""
    origin = origin_of(upload.url)
    if origin is None:
        raise InvalidInput(
            f"{upload.label}: its url is not a URL with https:// and a host, without a user name; "
            "copy the whole URL that the object store signed"
        )
    if origin.scheme == "http" and not allow_plain_http:
        raise InvalidInput(
            f"{upload.label}: {upload.place} is plain HTTP, which exposes the report and the "
            "permission to write it on the network; give an https:// URL, or set allow_plain_http"
        )
    for name, value in upload.headers.items():
        if not _HEADER_NAME.fullmatch(str(name)) or str(name).lower() in _FRAMING:
            raise InvalidInput(
                f"{upload.label}: a header has a name that cannot be given here; leave out headers of "
                "the connection such as Host, and names with characters that HTTP does not allow"
            )
        if not _HEADER_VALUE.fullmatch(str(value)):
            raise InvalidInput(
                f"{upload.label}: the value of header {name} has line breaks or characters beyond "
                "ASCII; give one line"
            )


def send(uploads: t.Sequence[Upload], trust: Trust, timeout: float) -> list[TargetError | None]:
    """Send all files concurrently; None for each accepted file."""
    targets = [
        Target(upload.label, upload.place, None, trust, {"upload": upload}) for upload in uploads
    ]
    options = FleetOptions(timeout=timeout, per_host=4)
    return visit(targets, _put, options) if targets else []


async def _put(client: Client, target: Target) -> None:
    upload: Upload = target.extra["upload"]
    parts = urllib.parse.urlsplit(upload.url.strip())
    link = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    headers = {str(name): str(value) for name, value in upload.headers.items()}
    status = (await client.put(link, upload.content, headers)).status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise TargetFailure(
            "refused",
            f"HTTP {status}: the server points to another URL, which is not followed because the "
            "permission to write would go there; give the URL that takes the file",
        )
    if status in (400, 401, 403):
        raise TargetFailure(
            "forbidden",
            f"HTTP {status}: the server does not take the file; a signature expires and holds for "
            "one method and its headers, so sign the URL anew for PUT, or correct the headers",
        )
    raise TargetFailure(
        "server_error", f"HTTP {status}: the server does not take the file; check its log"
    )
