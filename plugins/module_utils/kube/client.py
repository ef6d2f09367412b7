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
import functools
import typing as t
from dataclasses import dataclass

from ..base.argspec import KUBERNETES
from ..base.boundary import Finding
from ..base.errors import ApiError, InvalidInput
from ..base.json_types import MutableObject, Object
from . import reading
from .connection.pool import access_of, pool_of
from .connection.transport import Guard, Query, Transport, parts_of

__all__ = [
    "APPLY_CONTENT_TYPE",
    "KUBECONFIG_VARIABLE",
    "MERGE_CONTENT_TYPE",
    "Guard",
    "Kube",
    "Query",
    "Resource",
    "UnknownKind",
    "decode_secret",
    "delete_object",
]

# Environment variable with the kubeconfig of a program in a container.
KUBECONFIG_VARIABLE = "WATTWISE_KUBECONFIG"
APPLY_CONTENT_TYPE = "application/apply-patch+yaml"
MERGE_CONTENT_TYPE = "application/merge-patch+json"
# Objects of the first page of a list and of the longest one. In between, the size of the objects
# so far decides, because the API server holds a page in memory as a whole.
_FIRST_PAGE, _MAX_PAGE_LENGTH = 50, 500
_PAGE_BYTES = 16 * 1024 * 1024

Result = t.TypeVar("Result")
Item = t.TypeVar("Item")
Refuse = t.Callable[[Finding], None]


@dataclass(frozen=True)
class Page(t.Generic[Item]):
    """Some items of a collection, and the resource version of its list."""

    items: list[Item]
    version: str


# No CustomResourceDefinition can add to this group.
_ADMISSION = "admissionregistration.k8s.io/"


class UnknownKind(InvalidInput):
    """The cluster does not serve the kind, perhaps not yet."""

    def __init__(self, api_version: str, kind: str, host: str) -> None:
        remedy = (
            "install its CustomResourceDefinition first (the wattwise.kube.crds role installs ours)"
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


def _page(
    transport: Transport,
    path: str,
    query: Query,
    trim: t.Callable[[MutableObject], Item],
    item_type: MutableObject,
) -> tuple[reading.Listed, list[Item], list[Finding]]:
    items: list[Item] = []
    findings: list[Finding] = []
    with transport.opened("GET", path, query) as response:
        listed = reading.read_list(
            parts_of(response), lambda item: items.append(trim(item)), findings.append, item_type
        )
    return listed, items, findings


def _whole(item: MutableObject) -> MutableObject:
    return item


class Kube(Transport):
    """Client of one API server: its objects, lists and kinds. Thread-safe."""

    def __init__(
        self,
        pool: t.Any,
        host: str,
        headers: t.Callable[[], t.Sequence[tuple[str, str]]],
        **options: t.Any,
    ) -> None:
        super().__init__(pool, host, headers, **options)
        self._resources: dict[tuple[str, str], Resource] = {}

    @classmethod
    def connect(cls, parameters: Object, **options: t.Any) -> Kube:
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
        return self.altered(
            accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        )

    def guarded(self, guard: Guard | None) -> Kube:
        """The same server; ``guard`` is called before each attempt of a write."""
        return self.altered(guard=guard)

    def impatient(self, timeout: float) -> Kube:
        """The same server without repetitions, for requests that would then be too late."""
        return self.altered(timeout=timeout, patience_seconds=0.0)

    def unrepeating(self) -> Kube:
        """The same server without repetitions, for requests with a meaningful refusal."""
        return self.altered(patience_seconds=0.0)

    def get(self, path: str, query: Query | None = None) -> MutableObject:
        """The object or list at ``path``. Raises ApiError."""
        return self.request("GET", path, query=query)

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

    def patch_same(
        self,
        path: str,
        body: Object,
        content_type: str = MERGE_CONTENT_TYPE,
        query: Query | None = None,
    ) -> bool:
        """Patch the object of the uid or version in the body; False if that one is gone.

        Raises ApiError.
        """
        try:
            self.request("PATCH", path, body, content_type, query)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    def events(self, path: str, query: Query, timeout: float) -> t.Iterator[t.Any]:
        """The events of a watch as they arrive, an Unusable for some. Raises ApiError.

        ``timeout`` is the longest silence. Nothing is repeated.
        """
        with self.opened("GET", path, query, timeout) as response:
            parts = response.stream(reading.PART_SIZE, decode_content=False)
            yield from reading.read_events(reading.plain_parts(response, parts))

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
            once = functools.partial(_page, self, path, asked, trim, item_type)
            listed, items, findings = self.repeated("GET", once)
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

    def resource(self, api_version: str, kind: str) -> Resource:
        """Address of a kind; each group is read once. Raises UnknownKind for one not served."""
        found = self._resources.get((api_version, kind))
        if found is None:
            root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
            for entry in (self.find(root) or {}).get("resources", []):
                if "/" not in entry["name"]:
                    address = Resource(root, entry["name"], entry["namespaced"])
                    self._resources[(api_version, entry["kind"])] = address
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
        """Drop the discovery cache, because a CRD was added."""
        self._resources.clear()

    def read_secret(self, namespace: str, name: str) -> tuple[dict[str, str], str] | None:
        """Decoded data and resource version of a Secret, or None if it does not exist."""
        secret = self.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if secret is None:
            return None
        return decode_secret(secret), secret["metadata"]["resourceVersion"]


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


def decode_secret(secret: Object) -> dict[str, str]:
    """Data of a Secret as texts; values that are not UTF-8 are left out."""
    decoded: dict[str, str] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True).decode()
        except ValueError:
            continue
    return decoded
