# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Publication of an existing report to a ConfigMap, to URLs, and to a folder of a web server.

URLs get files by HTTP PUT: presigned ones of an object store, or others with headers.
"""

from __future__ import annotations

import base64
import gzip
import re
import typing as t
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

from ..base.argspec import KUBERNETES, ArgumentSpec
from ..base.boundary import shown
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, TargetError, TargetFailure, WattwiseError
from ..base.fields.strict import is_subdomain
from ..fleet.urls import origin_of, origin_text
from ..fleet.visits import Client, FleetOptions, Target, Trust, visit
from ..kube.apply import work
from . import web_folder

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
# Headers that belong to the connection; a wrong one lets two servers read two different requests.
_FRAMING = frozenset({"connection", "content-length", "host", "te", "transfer-encoding", "upgrade"})


@dataclass(frozen=True)
class Upload:
    """One file for one URL; ``label`` names the upload in messages.

    The query and the headers may be secrets, so messages have only ``place``.
    """

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


def _check_upload(upload: Upload, *, allow_plain_http: bool) -> None:
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


def _send_uploads(
    uploads: t.Sequence[Upload], trust: Trust, timeout: float
) -> list[TargetError | None]:
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


SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "run_dir": {"type": "path", "required": True},
            "path": {"type": "path"},
            "name": {"type": "str"},
            "config_map": {"type": "str"},
            "web_folder": {"type": "path"},
            "uploads": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "url": {"type": "str", "required": True, "no_log": True},
                    "document": {
                        "type": "str",
                        "default": "page",
                        "choices": ["page", "data", "summary"],
                    },
                    "headers": {"type": "dict", "no_log": True},
                },
            },
            "timeout": {"type": "float", "default": 60.0},
            "validate_certs": {"type": "bool", "default": True},
            "ca_path": {"type": "path"},
            "allow_plain_http": {"type": "bool", "default": False},
        },
        required_one_of=(("config_map", "web_folder", "uploads"),),
    )
)

# A ConfigMap holds 1 MiB, keys and metadata included.
_MAX_CONTENT = 900 * 1024


@dataclass(frozen=True)
class _Files:
    """The bytes of a report."""

    page: bytes
    data: bytes
    summary: bytes


def publish(parameters: Parameters, context: Context = Context()) -> Result:
    """Publish the files of a run folder to every place that ``parameters`` (of SPEC) name.

    A failed place does not stop the others. Raises WattwiseError with ``published`` then, and
    InvalidInput before the first publication for invalid uploads.
    """
    options = SPEC.complete(parameters)
    folder = Path(options["run_dir"]).expanduser()
    files = _read(folder, Path(options["path"] or folder / "report.html").expanduser())
    sent = _uploads(options, files)
    published: list[Result] = []
    problems: list[str] = []
    for kind, place, act in (
        ("config_map", options["config_map"], _to_config_map),
        ("web_folder", options["web_folder"], _to_web_folder),
    ):
        if place:
            try:
                changed = act(options, files, context)
                published.append({"kind": kind, "place": place, "changed": changed})
            except WattwiseError as error:
                problems.append(str(error))
    for upload, problem in zip(sent, _send(sent, options, context)):
        if problem is None:
            published.append({"kind": "upload", "place": upload.place, "changed": True})
        else:
            problems.append(f"Cannot upload to {upload.place} ({upload.label}): {problem}")
    changed = any(each["changed"] for each in published)
    if problems:
        raise WattwiseError(". ".join(problems), changed=changed, published=published)
    return {"changed": changed, "published": published}


def _read(folder: Path, page: Path) -> _Files:
    paths = [page, folder / "report.json", folder / "summary.json"]
    try:
        return _Files(*(path.read_bytes() for path in paths))
    except OSError as error:
        raise InvalidInput(
            f"Cannot read {error.filename}: {error.strerror}; make the report with fleet_report first"
        ) from error


def _uploads(options: Parameters, files: _Files) -> list[Upload]:
    found = []
    for index, item in enumerate(options["uploads"] or []):
        kind = item["document"]
        content_type = "text/html; charset=utf-8" if kind == "page" else "application/json"
        headers = {"Content-Type": content_type, **(item["headers"] or {})}
        upload = Upload(f"uploads[{index}]", item["url"], getattr(files, kind), headers)
        _check_upload(upload, allow_plain_http=options["allow_plain_http"])
        found.append(upload)
    return found


def _send(sent: list[Upload], options: Parameters, context: Context) -> t.Iterator[str | None]:
    if context.check_mode:
        return iter([None] * len(sent))
    trust = Trust(validate_certs=options["validate_certs"], ca_path=options["ca_path"])
    answers = _send_uploads(sent, trust, options["timeout"])
    return (None if answer is None else answer.detail for answer in answers)


def _text(content: bytes, what: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"config_map: {what} is not UTF-8 text; make the report with fleet_report first"
        ) from None


def _to_config_map(options: Parameters, files: _Files, context: Context) -> bool:
    """Apply the ConfigMap. A page that is too large for it is compressed."""
    namespace, _slash, name = options["config_map"].partition("/")
    if not is_subdomain(namespace) or not is_subdomain(name):
        raise InvalidInput(
            f"config_map: {shown(options['config_map'])} is no <namespace>/<name> of a ConfigMap; "
            "give it like monitoring/wattwise-report"
        )
    manifest: dict[str, t.Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name},
        "data": {"summary.json": _text(files.summary, "summary.json")},
    }
    room = _MAX_CONTENT - len(files.summary)
    if len(files.page) <= room:
        manifest["data"]["report.html"] = _text(files.page, "the page")
    else:
        packed = base64.b64encode(gzip.compress(files.page, mtime=0))
        if len(packed) > room:
            raise InvalidInput(
                f"config_map: the page has {len(packed)} bytes although it is compressed, more than "
                "a ConfigMap holds; publish it with uploads or web_folder"
            )
        manifest["binaryData"] = {"report.html.gz": packed.decode()}
    connection = {key: options[key] for key in KUBERNETES.options}
    return bool(work.apply({**connection, "manifests": [manifest]}, context)["changed"])


def _to_web_folder(options: Parameters, files: _Files, context: Context) -> bool:
    folder = Path(options["run_dir"]).expanduser().absolute()
    return web_folder.publish(
        Path(options["web_folder"]).expanduser(),
        options["name"] or folder.name,
        files.page,
        files.summary,
        check_mode=context.check_mode,
    )
