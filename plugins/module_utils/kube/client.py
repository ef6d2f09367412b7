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
import typing as t

from ..base.argspec import KUBERNETES
from ..base.errors import ApiError
from ..base.json_types import MutableObject, Object
from . import reading
from .connection.pool import access_of, pool_of
from .connection.transport import Guard, Query, Transport
from .discovery import Discovery, Resource, UnknownKind
from .lists import Page, Refuse, read_pages

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

Result = t.TypeVar("Result")
Item = t.TypeVar("Item")


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
        self._discovery = Discovery()

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
        return read_pages(self, path, query, trim, refuse)

    def resource(self, api_version: str, kind: str) -> Resource:
        """Address of a kind. Raises UnknownKind if the cluster does not serve it."""
        return self._discovery.resource(self, api_version, kind)

    def serves(self, api_version: str, kind: str) -> bool:
        """Whether the cluster serves a kind."""
        try:
            self.resource(api_version, kind)
        except UnknownKind:
            return False
        return True

    def forget_resources(self) -> None:
        """Drop the discovery cache, because a CRD was added."""
        self._discovery.forget()

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
