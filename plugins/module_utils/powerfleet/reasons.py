# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Changes in the cluster that cause a run, and the fleets of the run.

The library's own writes cause none: bindings, conditions and statuses. Heartbeats cause none, and
neither does a node that can take less than before, because a run would help no waiting pod.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t
from dataclasses import dataclass

from ..base import strict_json
from ..base.fields.lenient import member, objects
from ..base.json_types import MutableObject
from ..kube.client import Query
from ..kube.resource.conditions import has_condition
from ..kube.watch import Change
from ..nodeconfig.nodeconfig import API_VERSIONS
from ..rmd.manifests import API_VERSION as RMD_API_VERSION
from .resource import FLEET_ANNOTATION, PowerFleet

Fleets = t.Iterable[PowerFleet]

PODS, NODES, NODE_CONFIGS, RMD = "pods", "nodes", "node-configs", "rmd"
_OWN_DOMAIN = "wattwise.github.io/"


@dataclass(frozen=True)
class WaitingPod:
    """A pod without a node; ``content`` changes only with its spec."""

    scheduler: str
    fleet: str | None
    gates: tuple[str, ...]
    content: str


@dataclass(frozen=True)
class NodeView:
    """Fields of a node that a plan or a NodeConfig uses, apart from its pods."""

    labels: tuple[tuple[str, str], ...]
    is_open: bool
    taints: str
    content: str


@dataclass(frozen=True)
class ResourceView:
    """A custom resource whose spec counts, and not its status."""

    uid: str
    generation: int
    is_ending: bool


@dataclass(frozen=True)
class Source:
    """A collection to watch.

    ``view`` gives the relevant fields of an object, ``concerned`` the fleets that its change
    concerns. ``reason`` is the word of the request.
    """

    path: str
    query: tuple[tuple[str, str], ...]
    reason: str
    view: t.Callable[[MutableObject], t.Any] = dataclasses.field(compare=False)
    concerned: t.Callable[[Change[t.Any], Fleets], list[str]] = dataclasses.field(compare=False)

    @property
    def parameters(self) -> Query:
        return dict(self.query)


def sources_of(fleets: Fleets) -> list[Source]:
    """Collections to watch for these fleets, without those that no fleet acts on."""
    active = [fleet for fleet in fleets if not fleet.is_suspended]
    found: list[Source] = []
    if active:
        found.append(Source("/api/v1/nodes", (), NODES, view_node, fleets_of_node))
    if any(fleet.spec["devices"]["enabled"] for fleet in active):
        # A gated pod may belong to another scheduler.
        selectors = ["spec.nodeName="]
    else:
        schedulers = {_scheduler(one) for one in active if one.spec["placement"]["enabled"]}
        selectors = [f"spec.nodeName=,spec.schedulerName={name}" for name in sorted(schedulers)]
    for selector in selectors:
        query = (("fieldSelector", selector),)
        found.append(Source("/api/v1/pods", query, PODS, view_pod, fleets_of_pod))
    if any(fleet.spec["nodeConfigs"]["enabled"] for fleet in active):
        for version in API_VERSIONS:
            path = f"/apis/{version}/nodeconfigtemplates"
            found.append(Source(path, (), NODE_CONFIGS, view_object, _those_with("nodeConfigs")))
    if any(fleet.spec["rmd"]["enabled"] for fleet in active):
        path = f"/apis/{RMD_API_VERSION}/rmdworkloads"
        found.append(Source(path, (), RMD, view_object, _those_with("rmd")))
    return found


def view_pod(pod: MutableObject) -> WaitingPod | None:
    """None for a pod that has a node, is being deleted, or has ended."""
    metadata, spec = pod["metadata"], pod["spec"]
    phase = member(pod, "status", "phase")
    if (
        spec.get("nodeName")
        or metadata.get("deletionTimestamp")
        or phase in ("Succeeded", "Failed")
    ):
        return None
    named = member(metadata.get("annotations"), FLEET_ANNOTATION)
    return WaitingPod(
        scheduler=spec.get("schedulerName") or "default-scheduler",
        fleet=named,
        gates=tuple(sorted(str(gate.get("name")) for gate in objects(spec.get("schedulingGates")))),
        content=_digest(spec),
    )


def fleets_of_pod(change: Change[WaitingPod], fleets: Fleets) -> list[str]:
    """The fleets that may have to place the pod."""
    pod = change.after
    if pod is None:
        return []
    return [
        fleet.key
        for fleet in fleets
        if not fleet.is_suspended and pod.fleet in (None, fleet.key) and _sends(fleet, pod)
    ]


def _sends(fleet: PowerFleet, pod: WaitingPod) -> bool:
    placement, devices = fleet.spec["placement"], fleet.spec["devices"]
    if devices["enabled"] and devices["gate"] in pod.gates:
        return True
    acts = placement["enabled"] or devices["enabled"]
    # Another controller must remove any other gate first.
    return bool(acts and pod.scheduler == _scheduler(fleet) and not pod.gates)


def _scheduler(fleet: PowerFleet) -> str:
    return str(fleet.spec["placement"]["schedulerName"])


def view_node(node: MutableObject) -> NodeView:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    annotations = metadata.get("annotations") or {}
    own = {name: text for name, text in annotations.items() if name.startswith(_OWN_DOMAIN)}
    return NodeView(
        labels=tuple(sorted((metadata.get("labels") or {}).items())),
        is_open=has_condition(node, "Ready") and not spec.get("unschedulable"),
        taints=_digest(spec.get("taints") or []),
        content=_digest([own, status.get("allocatable"), status.get("addresses")]),
    )


def fleets_of_node(change: Change[NodeView], fleets: Fleets) -> list[str]:
    """The fleets that select the node now or did before."""
    before, after = change.before, change.after
    if change.is_first or (before and after and _only_closes(before, after)):
        return []
    labels = [dict(view.labels) for view in (before, after) if view is not None]
    return [
        fleet.key
        for fleet in fleets
        if not fleet.is_suspended and any(fleet.selector.matches(each) for each in labels)
    ]


def _only_closes(before: NodeView, after: NodeView) -> bool:
    alike = dataclasses.replace(before, is_open=False, taints=after.taints)
    return alike == after


def view_object(found: MutableObject) -> ResourceView:
    metadata = found["metadata"]
    return ResourceView(
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation") or 0),
        is_ending=bool(metadata.get("deletionTimestamp")),
    )


def _those_with(part: str) -> t.Callable[[Change[ResourceView], Fleets], list[str]]:
    """Picks the fleets that have the part of the spec switched on."""

    def concerned(change: Change[ResourceView], fleets: Fleets) -> list[str]:
        if change.is_first:
            return []
        return [one.key for one in fleets if not one.is_suspended and one.spec[part]["enabled"]]

    return concerned


def _digest(value: t.Any) -> str:
    """A short digest of the value, because thousands of them are kept."""
    text = strict_json.format_compact(value, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
