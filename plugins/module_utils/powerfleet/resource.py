# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The PowerFleet as the API server stores it: names, annotations and spec.

The API server fills in every default of the CRD, so all keys with a default are there.
"""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import InvalidInput
from ..base.fields.lenient import member, objects
from ..base.json_types import MutableObject, Object
from ..base.label_selector import LabelSelector, parse_label_selector
from ..base.units import parse_duration, parse_time
from ..kube.client import Kube
from ..kube.resource.finalizer import is_ending
from ..kube.resource.run import ResourceKind

API_VERSION = "wattwise.github.io/v1alpha1"
KIND = "PowerFleet"
ROOT = f"/apis/{API_VERSION}"
ALL = f"{ROOT}/powerfleets"
RESOURCE_KIND = ResourceKind(
    API_VERSION,
    KIND,
    "wattwise-power-fleet",
    component="wattwise.github.io/power-fleet",
    # Only while machines may sleep or have caps: without the operator it blocks the deletion.
    finalizer="wattwise.github.io/wake",
)

# The annotation by which a pod names its fleet, as namespace/name.
FLEET_ANNOTATION = "wattwise.github.io/power-fleet"
# Written by the watcher: time and reasons of a request.
REQUESTED_AT = "wattwise.github.io/requested-at"
REQUESTED_FOR = "wattwise.github.io/requested-for"
# Read by ansible-operator: the period of its own runs.
RECONCILE_PERIOD = "ansible.sdk.operatorframework.io/reconcile-period"

# Lists of the status.
_LISTS = ("conditions", "failing", "unplaced")
_MAPPINGS = ("nodes", "watts", "hottestInlet", "pods", "sleep", "limits", "lastRun")


@dataclass(frozen=True)
class PowerFleet:
    """A fleet whose spec can be read. ``manifest`` is the whole object."""

    namespace: str
    name: str
    uid: str
    created: datetime.datetime
    selector: LabelSelector
    interval_seconds: float
    is_suspended: bool
    # The interval as ansible-operator reads it; None without the annotation.
    period: str | None
    spec: Object
    manifest: Object = field(compare=False, repr=False)

    @property
    def key(self) -> str:
        """Its name for pods and people."""
        return f"{self.namespace}/{self.name}"

    @property
    def seniority(self) -> tuple[datetime.datetime, str, str]:
        """Sort key of fleets, the oldest first."""
        return self.created, self.namespace, self.name

    @property
    def generation(self) -> int:
        return int(self.manifest["metadata"].get("generation") or 0)

    @property
    def status(self) -> Object:
        """The stored status, without the parts that cannot be read."""
        given = self.manifest.get("status")
        status: dict[str, t.Any] = {}
        for name, value in given.items() if isinstance(given, dict) else ():
            if name in _LISTS:
                status[name] = objects(value)
            elif name not in _MAPPINGS or isinstance(value, dict):
                status[name] = value
        return status

    @property
    def as_object(self) -> MutableObject:
        """The whole object with its kind, which items of a list do not have."""
        return {**self.manifest, "apiVersion": API_VERSION, "kind": KIND}

    def annotation(self, name: str) -> str:
        """The text of an annotation; empty if there is none."""
        return _text(self.manifest["metadata"], name) or ""


def path_of(namespace: str, name: str) -> str:
    """The path of one PowerFleet."""
    return f"{ROOT}/namespaces/{namespace}/powerfleets/{name}"


def parse(manifest: Object) -> PowerFleet | Finding:
    """The fleet, or its unreadable field."""
    return guarded(subject_of(manifest, KIND), functools.partial(_parse, manifest))


def fleets_of(manifests: t.Iterable[Object]) -> list[PowerFleet]:
    """The fleets that count, the oldest first.

    A fleet in deletion has released its nodes, and an unreadable one has none.
    """
    alive = (each for each in manifests if not is_ending(each))
    found = [fleet for fleet in map(parse, alive) if isinstance(fleet, PowerFleet)]
    return sorted(found, key=lambda fleet: fleet.seniority)


def _text(metadata: Object, annotation: str) -> str | None:
    text = member(metadata.get("annotations"), annotation)
    return text if isinstance(text, str) else None


def _parse(manifest: Object) -> PowerFleet:
    metadata, spec = manifest["metadata"], manifest["spec"]
    return PowerFleet(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        created=parse_time(metadata["creationTimestamp"], "metadata.creationTimestamp"),
        selector=parse_label_selector(spec["nodeSelector"]),
        interval_seconds=parse_duration(spec["interval"], "spec.interval"),
        is_suspended=spec["suspend"],
        period=_text(metadata, RECONCILE_PERIOD),
        spec=spec,
        manifest=manifest,
    )


# reconcilePeriod of operator/watches.yaml, the default without the annotation.
DEFAULT_PERIOD_SECONDS = 60.0
# Go's durations are 64 bits of nanoseconds.
_MAX_PERIOD_SECONDS = 2**63 / 1e9


def period_is_kept(fleet: PowerFleet) -> bool:
    """Whether ansible-operator begins runs at the interval of the spec."""
    if fleet.period is None:
        return fleet.interval_seconds == DEFAULT_PERIOD_SECONDS
    return fleet.period == str(fleet.spec["interval"])


def period_is_readable(fleet: PowerFleet) -> bool:
    """Whether ansible-operator can read the annotation; else it begins no run of the fleet."""
    text = fleet.period
    try:
        return text is None or (
            text == text.strip() and 0 <= parse_duration(text) < _MAX_PERIOD_SECONDS
        )
    except InvalidInput:
        return False


def keep_period(kube: Kube, fleet: PowerFleet, field_manager: str) -> bool:
    """Write the annotation of the period; return whether it was written.

    A change of an annotation begins a run too, so a fleet with the default interval gets none.
    Nothing is written to a fleet that was deleted or recreated since. Raises ApiError.
    """
    return annotate(kube, fleet, {RECONCILE_PERIOD: fleet.spec["interval"]}, field_manager)


def annotate(
    kube: Kube, fleet: PowerFleet, annotations: t.Mapping[str, str], field_manager: str
) -> bool:
    """Write annotations; False if the fleet is gone, also if there is a new one of its name."""
    body = {"metadata": {"uid": fleet.uid, "annotations": annotations}}
    path = path_of(fleet.namespace, fleet.name)
    return kube.patch_same(path, body, query={"fieldManager": field_manager})
