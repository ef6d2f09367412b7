# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A Kubernetes API client for many small requests at once.

Requests and answers are plain dicts: model classes cost more time than the API server itself.
Configuration and connections are in ``connection``.
"""

from __future__ import annotations

import base64
import concurrent.futures
import copy
import time
import typing as t
import urllib.parse

from ansible_collections.wattwise.kube.plugins.module_utils.base import strict_json
from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import KUBERNETES
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    InvalidInput,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import urllib3
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection import (
    access_of,
    pool_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.errors import (
    describe_connection_failure,
    describe_status,
)

Object = dict[str, t.Any]
Query = t.Mapping[str, t.Union[str, int]]

APPLY_CONTENT_TYPE = "application/apply-patch+yaml"
MERGE_CONTENT_TYPE = "application/merge-patch+json"
PAGE_SIZE = 500
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_LONGEST_PAUSE_SECONDS = 2.0
_FIRST_PATIENCE_SECONDS = 3.0

# Asked before each attempt of a write: how many seconds it may take, or an exception to prevent it.
Guard = t.Callable[[], float]

Result = t.TypeVar("Result")
Item = t.TypeVar("Item")


class Answer(t.NamedTuple):
    """Status code and decoded body of one request."""

    status: int
    body: Object


class Kube:
    """One API server. Safe to use from several threads.

    ``patience_seconds`` is how long is waited between repetitions of a request while the server
    does not answer, once it has answered before: an API server that restarts is away for seconds.
    """

    def __init__(
        self,
        pool: t.Any,
        host: str,
        headers: t.Callable[[], t.Sequence[tuple[str, str]]],
        timeout: float = 30.0,
        patience_seconds: float = 60.0,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._pool = pool
        self.host = host.rstrip("/")
        self._headers = headers
        self._accept = "application/json"
        self._timeout = timeout
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self._has_answered = False
        self._resources: dict[tuple[str, str], Resource] = {}
        self._guard: Guard | None = None

    @classmethod
    def connect(cls, parameters: t.Mapping[str, t.Any], **options: t.Any) -> Kube:
        """A client from the options of ``argspec.KUBERNETES``. Raises InvalidInput."""
        access = access_of({name: parameters.get(name) for name in KUBERNETES.options})
        return cls(pool_of(access), access.host, access.headers, **options)

    def metadata_only(self) -> Kube:
        """The same server, which then answers lists with the metadata of their items alone."""
        wanted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        return self._altered(_accept=wanted)

    def guarded(self, guard: Guard | None) -> Kube:
        """The same server; ``guard`` is asked before each attempt of a write, repeated ones too."""
        return self._altered(_guard=guard)

    def impatient(self, timeout: float) -> Kube:
        """The same server, for requests that come too late if they are repeated."""
        return self._altered(_timeout=timeout, _patience_seconds=0.0)

    def unrepeating(self) -> Kube:
        """The same server, for requests whose refusal is an answer: nothing is sent twice."""
        return self._altered(_patience_seconds=0.0)

    def _altered(self, **attributes: t.Any) -> Kube:
        altered = copy.copy(self)
        vars(altered).update(attributes)
        return altered

    def get(self, path: str, query: Query | None = None) -> Object:
        """The object or list at ``path``. Raises ApiError."""
        return self.request("GET", path, query=query)

    def find(self, path: str, query: Query | None = None) -> Object | None:
        """As ``get``, but None where nothing is at ``path``."""
        try:
            return self.get(path, query)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def request(
        self,
        method: str,
        path: str,
        body: t.Any = None,
        content_type: str | None = None,
        query: Query | None = None,
    ) -> Object:
        """Send one request and return the decoded answer. Raises ApiError."""
        return self.send(method, path, body, content_type, query).body

    def send(
        self,
        method: str,
        path: str,
        body: t.Any = None,
        content_type: str | None = None,
        query: Query | None = None,
    ) -> Answer:
        """As ``request``, with the status code beside the body.

        Everything but POST is repeated while the server is away or asks to wait; whether a POST
        took effect can be known only by looking, which is the caller's business.
        """
        waited, pause = 0.0, 0.1
        guard = None if method == "GET" else self._guard
        while True:
            timeout = self._timeout if guard is None else min(self._timeout, guard())
            try:
                answer = self._send_once(method, path, body, content_type, query, timeout)
                self._has_answered = True
                return answer
            except ApiError as error:
                retry_after = error.fields.get("retry_after")
                repeatable = error.status == 429 or (
                    method != "POST" and error.status in (0, *RETRIED_STATUSES)
                )
                repeatable = repeatable and not error.fields.get("permanent")
                pause = max(pause, retry_after or 0.0)
                patience = self._patience_seconds
                if not self._has_answered:
                    patience = min(patience, _FIRST_PATIENCE_SECONDS)
                if not repeatable or waited + pause > patience:
                    raise
            self._sleep(pause)
            waited += pause
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _send_once(
        self,
        method: str,
        path: str,
        body: t.Any,
        content_type: str | None,
        query: Query | None,
        timeout: float,
    ) -> Answer:
        url = self.host + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = urllib3.HTTPHeaderDict({"Accept": self._accept, "User-Agent": "wattwise.kube"})
        for name, value in self._headers():
            headers.add(name, value)
        data: bytes | None = None
        if body is not None:
            try:
                data = strict_json.format_compact(body).encode()
            except ValueError as error:
                raise InvalidInput(f"{method} {path}: the object is no JSON: {error}") from error
            headers["Content-Type"] = content_type or "application/json"
        try:
            response = self._pool.request(
                method, url, body=data, headers=headers, timeout=timeout, retries=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise describe_connection_failure(error, self.host) from error
        if not 200 <= response.status < 300:
            raise describe_status(response, method, path, self.host)
        return Answer(response.status, _decoded(response.data, method, path))

    def in_parallel(
        self, work: t.Callable[[Item], Result], items: t.Sequence[Item], concurrency: int = 16
    ) -> list[Result]:
        """``work`` on every item, in threads; results in the order of the items."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, concurrency)) as executor:
            return list(executor.map(work, items))

    def list(
        self,
        path: str,
        query: Query | None = None,
        trim: t.Callable[[Object], Object] = lambda item: item,
    ) -> list[Object]:
        """Every item of a collection, page by page; all of them or ApiError, never a part.

        ``trim`` reduces each item as it arrives: whole lists take ten times the memory. A list
        that expires between two pages (410) begins again.
        """
        for _attempt in range(3):
            try:
                return [trim(item) for item in self.pages(path, query)]
            except ApiError as error:
                if error.status != 410:
                    raise
        raise ApiError(
            f"The list {path} of {self.host} expired three times while it was read; "
            "the API server is compacting faster than it answers, try again later",
            410,
        )

    def pages(self, path: str, query: Query | None = None) -> t.Iterator[Object]:
        """The items of a collection as they arrive. Raises ApiError in the middle, 410 included."""
        page_query: dict[str, str | int] = {"limit": PAGE_SIZE, **(query or {})}
        while True:
            page = self.get(path, page_query)
            kind = page.get("kind", "List")[: -len("List")]
            version = page.get("apiVersion", "v1")
            for item in page.get("items") or []:
                yield {"apiVersion": version, "kind": kind, **item}
            token = page.get("metadata", {}).get("continue")
            if not token:
                return
            page_query["continue"] = token

    def resource(self, api_version: str, kind: str) -> Resource:
        """How a kind is addressed. Raises InvalidInput where the cluster does not serve it."""
        found = self._resources.get((api_version, kind))
        if found is None:
            self._discover(api_version)
            found = self._resources.get((api_version, kind))
        if found is None:
            raise UnknownKind(api_version, kind, self.host)
        return found

    def serves(self, api_version: str, kind: str) -> bool:
        """Whether the cluster serves a kind."""
        try:
            self.resource(api_version, kind)
        except UnknownKind:
            return False
        return True

    def forget_resources(self) -> None:
        """Ask again what the cluster serves: a CustomResourceDefinition was added."""
        self._resources.clear()

    def _discover(self, api_version: str) -> None:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        for entry in (self.find(root) or {}).get("resources", []):
            if "/" not in entry["name"]:
                self._resources[(api_version, entry["kind"])] = Resource(
                    root, entry["name"], entry["namespaced"]
                )

    def read_secret(self, namespace: str, name: str) -> tuple[dict[str, str], str] | None:
        """Decoded data and resource version of a Secret, or None where there is none."""
        secret = self.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if secret is None:
            return None
        return decode_secret(secret), secret["metadata"]["resourceVersion"]


class UnknownKind(InvalidInput):
    """The cluster serves no such kind, perhaps not yet."""

    def __init__(self, api_version: str, kind: str, host: str) -> None:
        super().__init__(
            f"The cluster at {host} serves no {kind} of {api_version}; "
            "install its CustomResourceDefinition first (role wattwise.kube.crds installs ours)"
        )


class Resource(t.NamedTuple):
    """The address of a kind: ``root`` is ``/api/v1`` or ``/apis/<group>/<version>``."""

    root: str
    plural: str
    namespaced: bool

    def collection(self, namespace: str | None = None) -> str:
        """The path of all objects, or of those in one namespace."""
        if self.namespaced and namespace:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def path(self, name: str, namespace: str | None = None) -> str:
        """The path of one object."""
        return f"{self.collection(namespace)}/{name}"


def delete_object(kube: Kube, path: str, before: Object, check_mode: bool) -> None:
    """Delete exactly the object that was read; one that is gone already is as wanted."""
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": before["metadata"]["uid"]},
    }
    if check_mode:
        # Beside a body the API server ignores the query, where dryRun stands elsewhere.
        options["dryRun"] = ["All"]
    try:
        kube.request("DELETE", path, options)
    except ApiError as error:
        if error.status != 404:
            raise


def decode_secret(secret: t.Mapping[str, t.Any]) -> dict[str, str]:
    """The data of a Secret as text; bytes that are no UTF-8 are left out."""
    decoded: dict[str, str] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True).decode()
        except ValueError:
            continue
    return decoded


def _decoded(data: bytes, method: str, path: str) -> Object:
    try:
        return t.cast("Object", strict_json.parse(data)) if data else {}
    except ValueError as error:
        raise ApiError(
            f"{method} {path}: the answer is not JSON; is a proxy between this host and the API?"
        ) from error
