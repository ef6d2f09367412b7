# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The objects of resource.k8s.io as read, and the only place that writes to claims."""

from __future__ import annotations

import datetime
import typing as t

from ...base.context import Context
from ...base.errors import ApiError
from ...base.json_types import Object
from ...kube.client import MERGE_CONTENT_TYPE, Kube
from ...snapshot.snapshot import TAINT_RULE_VERSIONS, trim_device_object
from ..adapter.cluster import Report
from ..model.findings import ApiObject, Defect, Findings, Key
from . import writes as dra_writes
from .slices import Slices

_ROOT = "/apis/resource.k8s.io/v1"


class DraObjects:
    """Claims by namespace and name, with all objects that their allocation depends on.

    Check mode sends nothing, and the claims look as if it did. Objects that another client wrote
    meanwhile are in ``report.contended``.
    """

    def __init__(self, kube: Kube, context: Context, report: Report) -> None:
        self._kube = kube
        self._context = context
        self._report = report
        paths = [f"{_ROOT}/{plural}" for plural in ("resourceslices", "deviceclasses")]
        rules = [f"/apis/resource.k8s.io/{one}/devicetaintrules" for one in TAINT_RULE_VERSIONS]
        slices, classes, templates, *tainting = kube.in_parallel(
            self._list, [*paths, f"{_ROOT}/resourceclaimtemplates", *rules]
        )
        self.slices = slices
        self.others = [*classes, *(rule for found in tainting for rule in found)]
        self.templates = frozenset((one.namespace, one.name) for one in templates)
        self.claims: dict[Key, ApiObject] = {}
        self.unreadable: dict[Key, ApiObject] = {}
        self.read_claims()

    def read_claims(self) -> None:
        """Read the claims from the store itself, not from a cache of the API server.

        Unreadable claims are kept apart: nothing is written to them.
        """
        self.claims, self.unreadable = {}, {}
        now = self._context.now()
        for claim in self._list(f"{_ROOT}/resourceclaims"):
            key = claim.namespace, claim.name
            if isinstance(self._report.read(claim, dra_writes.check, now), Defect):
                self.unreadable[key] = claim
            else:
                self.claims[key] = claim

    def _list(self, path: str) -> list[ApiObject]:
        try:
            return [ApiObject(item) for item in self._kube.list(path, trim=trim_device_object)]
        except ApiError as error:
            if error.status == 404 and path.endswith("devicetaintrules"):
                return []
            raise

    def contested(self) -> dict[Key, str]:
        """Claims whose devices other claims have too, each with a sentence."""
        published = Slices(Findings(), ())
        published.read(self.slices)
        return dra_writes.contested(self.claims.values(), published)

    def reserve(
        self,
        key: Key,
        allocation: Object | None,
        pods: t.Iterable[ApiObject],
        now: datetime.datetime,
    ) -> bool:
        """Allocate devices to a claim, if given, and reserve it for pods.

        False if it was contended; then it is unchanged.
        """
        if allocation is not None:
            finalizer = dra_writes.finalizer_patch(self.claims[key])
            if finalizer is not None and not self._patch(key, finalizer, ""):
                return False
        body = dra_writes.reservation_patch(self.claims[key], allocation, pods, now)
        return body is None or self._patch(key, body, "/status")

    def withdraw(self, key: Key, uids: t.Collection[str]) -> bool:
        """Remove reservations of pods, and the allocation with the last of them."""
        return self._patch(key, dra_writes.withdrawal_patch(self.claims[key], uids), "/status")

    def _patch(self, key: Key, body: Object, subresource: str) -> bool:
        path = f"{_ROOT}/namespaces/{key[0]}/resourceclaims/{key[1]}{subresource}"
        if self._context.check_mode:
            self.claims[key] = _patched(self.claims[key], body)
            return True
        try:
            answer = self._kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)
        except ApiError as error:
            self._report.note_failure(error, "ResourceClaim", key)
            return False
        self.claims[key] = ApiObject(trim_device_object(answer))
        return True


def _patched(claim: ApiObject, body: Object) -> ApiObject:
    """The claim as the API server would store it."""
    manifest = {**claim.manifest, "metadata": {**claim.manifest["metadata"], **body["metadata"]}}
    status = {**(manifest.get("status") or {}), **body.get("status", {})}
    manifest["status"] = {key: value for key, value in status.items() if value is not None}
    return ApiObject(manifest, claim.file)
