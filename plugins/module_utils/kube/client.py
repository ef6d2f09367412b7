# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A Kubernetes API client for many small concurrent requests.

Requests and answers are plain dicts, because model classes take more time than the API server.
Configuration and connections are in ``connection``.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import copy
import functools
import time
import typing as t
import urllib.parse
from dataclasses import dataclass

from ..base import strict_json
from ..base.argspec import KUBERNETES
from ..base.boundary import Finding
from ..base.errors import ApiError, InvalidInput
from ..base.json_types import MutableObject
from ..base.libraries import urllib3
from . import reading
from .authorizer import Authorizer
from .connection.pool import access_of, pool_of
from .errors import describe_connection_failure, describe_status

Query = t.Mapping[str, t.Union[str, int]]

# Environment variable with the kubeconfig of a program in a container.
KUBECONFIG_VARIABLE = "WATTWISE_KUBECONFIG"
APPLY_CONTENT_TYPE = "application/apply-patch+yaml"
MERGE_CONTENT_TYPE = "application/merge-patch+json"
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_MAX_PAUSE_SECONDS = 2.0
_FIRST_PATIENCE_SECONDS = 3.0
# Objects of the first page of a list and of the longest one. In between, the size of the objects
# so far decides, because the API server holds a page in memory as a whole.
_FIRST_PAGE, _MAX_PAGE_LENGTH = 50, 500
_PAGE_BYTES = 16 * 1024 * 1024

# Called before each attempt of a write; returns its seconds, or raises to prevent it.
Guard = t.Callable[[], float]

Result = t.TypeVar("Result")
Item = t.TypeVar("Item")
Refuse = t.Callable[[Finding], None]
# Inside of Kube, list is its method.
_Items = list


@dataclass(frozen=True)
class Page(t.Generic[Result]):
    """Some items of a collection, and the resource version of its list."""

    items: list[Result]
    version: str


def _whole(item: MutableObject) -> MutableObject:
    return item


class Answer(t.NamedTuple):
    """Status code and decoded body of one request."""

    status: int
    body: MutableObject


class Kube:
    """Client of one API server. Thread-safe.

    ``patience_seconds`` are the waits between attempts of a request while a server that answered
    before is silent, because a restart takes seconds.
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
        self._authorizer = Authorizer()
        self._resources: dict[tuple[str, str], Resource] = {}
        self._guard: Guard | None = None

    @classmethod
    def connect(cls, parameters: t.Mapping[str, t.Any], **options: t.Any) -> Kube:
        """A client from the options of ``argspec.KUBERNETES``. Raises InvalidInput."""
        access = access_of({name: parameters.get(name) for name in KUBERNETES.options})
        return cls(pool_of(access), access.host, access.headers, **options)

    @classmethod
    def of_program(cls, environment: t.Mapping[str, str]) -> Kube:
        """A client from the kubeconfig in $WATTWISE_KUBECONFIG, else from the account of the pod.

        Raises InvalidInput.
        """
        return cls.connect({"kubeconfig": environment.get(KUBECONFIG_VARIABLE) or None})

    def metadata_only(self) -> Kube:
        """The same server, with lists of metadata only."""
        wanted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        return self._altered(_accept=wanted)

    def guarded(self, guard: Guard | None) -> Kube:
        """The same server; ``guard`` is called before each attempt of a write."""
        return self._altered(_guard=guard)

    def impatient(self, timeout: float) -> Kube:
        """The same server without repetitions, for requests that would then be too late."""
        return self._altered(_timeout=timeout, _patience_seconds=0.0)

    def unrepeating(self) -> Kube:
        """The same server without repetitions, for requests with a meaningful refusal."""
        return self._altered(_patience_seconds=0.0)

    def is_starting(self, error: ApiError) -> bool:
        """Whether the error may be one of a server that has just started; see ``authorizer``."""
        return self._authorizer.is_starting(error)

    def _altered(self, **attributes: t.Any) -> Kube:
        altered = copy.copy(self)
        vars(altered).update(attributes)
        return altered

    def get(self, path: str, query: Query | None = None) -> MutableObject:
        """The object or list at ``path``. Raises ApiError."""
        return self.request("GET", path, query=query)

    def find(self, path: str, query: Query | None = None) -> MutableObject | None:
        """Like ``get``, but None if there is nothing at ``path``."""
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
    ) -> MutableObject:
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
        """Like ``request``, with the status code and the body.

        All methods except POST are repeated while the server is unreachable or asks to wait. The
        caller must read the state to find out whether a POST took effect.
        """
        guard = None if method == "GET" else self._guard

        def attempt() -> Answer:
            timeout = self._timeout if guard is None else min(self._timeout, guard())
            with self._opened(method, path, query, timeout, body, content_type) as response:
                return Answer(response.status, reading.read_object(_parts(response)))

        return self._repeated(method, attempt)

    def _repeated(self, method: str, attempt: t.Callable[[], Result]) -> Result:
        waited, pause = 0.0, 0.1
        while True:
            try:
                result = attempt()
                self._has_answered = True
                return result
            except ApiError as error:
                retry_after = error.fields.get("retry_after")
                is_transient = self.is_starting(error)
                repeatable = error.status == 429 or (
                    method != "POST" and error.status in (0, *RETRIED_STATUSES)
                )
                # A refusal took no effect, so that a repeated POST is safe.
                repeatable = (repeatable and not error.fields.get("permanent")) or is_transient
                pause = max(pause, retry_after or 0.0)
                patience = self._patience_seconds
                if not self._has_answered or is_transient:
                    patience = min(patience, _FIRST_PATIENCE_SECONDS)
                if not repeatable or waited + pause > patience:
                    raise
            self._sleep(pause)
            waited += pause
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    @contextlib.contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        query: Query | None,
        timeout: float,
        body: t.Any = None,
        content_type: str | None = None,
    ) -> t.Iterator[t.Any]:
        """A successful answer of which nothing was read. Raises ApiError, also inside."""
        headers = self._asking_headers()
        data = None if body is None else _encoded(body, method, path)
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        try:
            response = self._pool.request(
                method,
                self._url(path, query),
                body=data,
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=False,
            )
            try:
                if not 200 <= response.status < 300:
                    raise describe_status(response, _status_of(response), method, path, self.host)
                yield response
            finally:
                # Unread parts would count as the answer to the next request.
                response.close()
        except urllib3.exceptions.HTTPError as error:
            raise describe_connection_failure(error, self.host) from error
        except reading.Unreadable as error:
            raise _unreadable(error, f"{method} {path} at {self.host}") from error

    def events(self, path: str, query: Query, timeout: float) -> t.Iterator[t.Any]:
        """The events of a watch as they arrive, an Unusable for some. Raises ApiError.

        ``timeout`` is the longest silence. Nothing is repeated.
        """
        with self._opened("GET", path, query, timeout) as response:
            parts = response.stream(reading.PART_SIZE, decode_content=False)
            yield from reading.read_events(reading.plain_parts(response, parts))

    def _url(self, path: str, query: Query | None) -> str:
        return self.host + path + ("?" + urllib.parse.urlencode(query) if query else "")

    def _asking_headers(self) -> t.Any:
        """The headers of each request: accepted types and authentication."""
        headers = urllib3.HTTPHeaderDict({"Accept": self._accept, "User-Agent": "wattwise.kube"})
        for name, value in self._headers():
            headers.add(name, value)
        return headers

    def in_parallel(
        self, work: t.Callable[[Item], Result], items: t.Sequence[Item], concurrency: int = 16
    ) -> list[Result]:
        """Call ``work`` for every item, in threads; results have the order of the items."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, concurrency)) as executor:
            return list(executor.map(work, items))

    def list(
        self,
        path: str,
        query: Query | None = None,
        trim: t.Callable[[MutableObject], MutableObject] = _whole,
        refuse: Refuse | None = None,
    ) -> list[MutableObject]:
        """All items of a collection, in pages. Raises ApiError if the list is incomplete.

        ``trim`` reduces each item on arrival, because full lists take ten times the memory.
        ``refuse`` gets a finding for each item beyond the limits of ``reading``; without it, such
        an item is an error. A list that expires between two pages (410) is read again.
        """
        for _attempt in range(3):
            try:
                return [
                    item for page in self.pages(path, query, trim, refuse) for item in page.items
                ]
            except ApiError as error:
                if error.status != 410:
                    raise
        raise ApiError(
            f"The list {path} of {self.host} expired three times while it was read; "
            "the API server is compacting faster than it answers, try again later",
            410,
        )

    def pages(
        self,
        path: str,
        query: Query | None,
        trim: t.Callable[[MutableObject], Item],
        refuse: Refuse | None = None,
    ) -> t.Iterator[Page[Item]]:
        """The pages of a collection, like ``list``. May raise ApiError midway, including 410."""
        asked: dict[str, str | int] = dict(query or {})
        limit, number, size = _FIRST_PAGE, 0, 0
        item_type: MutableObject = {}
        while True:
            asked["limit"] = limit
            once = functools.partial(self._page, path, asked, trim, item_type)
            listed, items, findings = self._repeated("GET", once)
            if listed.untyped and listed.item_type and not item_type:
                # It says the kind of its items after them, and they do not say it.
                item_type = listed.item_type
                continue
            for finding in findings:
                if refuse is None:
                    raise ApiError(
                        f"The list {path} of {self.host} has an unusable item: {finding}"
                    )
                refuse(finding)
            yield Page(items, listed.text("resourceVersion"))
            token = listed.text("continue")
            if not token:
                return
            asked["continue"] = token
            item_type = listed.item_type
            number, size = number + max(1, listed.number), size + listed.size
            # Sudden growth would ask for much where small objects are followed by large ones.
            fitting = _PAGE_BYTES * number // max(1, size)
            limit = max(1, min(_MAX_PAGE_LENGTH, 10 * limit, fitting))

    def _page(
        self,
        path: str,
        query: Query,
        trim: t.Callable[[MutableObject], Item],
        item_type: MutableObject,
    ) -> tuple[reading.Listed, _Items[Item], _Items[Finding]]:
        items: _Items[Item] = []
        findings: _Items[Finding] = []
        with self._opened("GET", path, query, self._timeout) as response:
            listed = reading.read_list(
                _parts(response), lambda item: items.append(trim(item)), findings.append, item_type
            )
        return listed, items, findings

    def resource(self, api_version: str, kind: str) -> Resource:
        """Address of a kind. Raises UnknownKind if the cluster does not serve it."""
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
        """Drop the discovery cache, because a CustomResourceDefinition was added."""
        self._resources.clear()

    def _discover(self, api_version: str) -> None:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        for entry in (self.find(root) or {}).get("resources", []):
            if "/" not in entry["name"]:
                self._resources[(api_version, entry["kind"])] = Resource(
                    root, entry["name"], entry["namespaced"]
                )

    def read_secret(self, namespace: str, name: str) -> tuple[dict[str, str], str] | None:
        """Decoded data and resource version of a Secret, or None if it does not exist."""
        secret = self.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if secret is None:
            return None
        return decode_secret(secret), secret["metadata"]["resourceVersion"]


def _unreadable(error: reading.Unreadable, request: str) -> ApiError:
    """``is_of_object``: the object is at fault, and a repetition cannot help."""
    if isinstance(error, reading.BeyondLimits):
        text = f"{request}: the object {error}; delete it or make it smaller"
        return ApiError(text, permanent=True, is_of_object=True)
    return ApiError(f"{request}: the answer {error}; is a proxy between this host and the API?")


# No CustomResourceDefinition can add to this group.
_ADMISSION = "admissionregistration.k8s.io/"


class UnknownKind(InvalidInput):
    """The cluster does not serve the kind, perhaps not yet."""

    def __init__(self, api_version: str, kind: str, host: str) -> None:
        remedy = (
            "install its CustomResourceDefinition first (role wattwise.kube.crds installs ours)"
        )
        if api_version.startswith(_ADMISSION):
            remedy = "its Kubernetes is older than this API, or has switched it off"
        super().__init__(f"The cluster at {host} serves no {kind} of {api_version}; {remedy}")


class Resource(t.NamedTuple):
    """Address of a kind; ``root`` is ``/api/v1`` or ``/apis/<group>/<version>``."""

    root: str
    plural: str
    namespaced: bool

    def collection(self, namespace: str | None = None) -> str:
        """Path of all objects, or of those in one namespace."""
        if self.namespaced and namespace:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def path(self, name: str, namespace: str | None = None) -> str:
        """Path of one object."""
        return f"{self.collection(namespace)}/{name}"


def delete_object(kube: Kube, path: str, before: MutableObject, check_mode: bool) -> None:
    """Delete exactly the object that was read; an absent one is no error."""
    options: MutableObject = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": before["metadata"]["uid"]},
    }
    if check_mode:
        # The API server ignores dryRun in the query of a request with a body.
        options["dryRun"] = ["All"]
    try:
        kube.request("DELETE", path, options)
    except ApiError as error:
        if error.status != 404:
            raise


def decode_secret(secret: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Data of a Secret as texts; values that are not UTF-8 are left out."""
    decoded: dict[str, str] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True).decode()
        except ValueError:
            continue
    return decoded


def _encoded(body: t.Any, method: str, path: str) -> bytes:
    """JSON of an object that is sent. Raises InvalidInput."""
    try:
        return strict_json.format_compact(body).encode()
    except ValueError as error:
        raise InvalidInput(f"{method} {path}: the object is not JSON: {error}") from error


def _parts(response: t.Any) -> reading.Parts:
    """The parts of an answer that is sent at once."""
    whole = functools.partial(response.read, reading.PART_SIZE, decode_content=False)
    return reading.plain_parts(response, iter(whole, b""))


def _status_of(response: t.Any) -> t.Any:
    """The body of a refusal; None if it is not JSON."""
    try:
        return reading.read_object(_parts(response))
    except reading.Unreadable:
        return None
