# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RmdWorkloads, conditions and events of a cluster's pods that request cache ways.

An RmdWorkload is owned by its pod, so the garbage collector deletes it with the pod. The
RmdWorkload of an ended pod is deleted at once, because the kubelet gives its CPUs to others while
the pod still exists.
"""

from __future__ import annotations

import functools
import re
import typing as t
from collections import defaultdict
from dataclasses import asdict, dataclass, field

from ..base.argspec import KUBERNETES, ArgumentSpec
from ..base.boundary import (
    Finding,
    InvalidField,
    guarded,
    read_each,
    shown,
    shown_text,
    subject_of,
    warn_of,
)
from ..base.context import Context, Parameters, Result
from ..base.errors import ApiError, InvalidInput, WattwiseError
from ..base.json_types import MutableObject, Object
from ..kube.apply.work import apply
from ..kube.client import Kube, delete_object
from ..kube.events import Condition, Event, stored_condition, tell
from ..kube.source import without_bulk
from .daemon.run import REFUSED_RESPONSE
from .pods import API_VERSION, Refusal, asks_for_ways, workload_names, workloads_of_pod

INFO_SPEC = KUBERNETES.merge(ArgumentSpec({"node_names": {"type": "list", "elements": "str"}}))
SPEC = INFO_SPEC.merge(
    ArgumentSpec(
        {
            "cpusets": {"type": "list", "elements": "dict", "required": True},
            "terminate_refused": {"type": "bool", "default": False},
        }
    )
)
CONDITION = "wattwise.github.io/CacheWays"
_REPORTER = "wattwise.github.io/rmd"
_REFUSED = Event("Warning", "CacheWaysRefused", "Configuring", _REPORTER)
_GRANTED = Event("Normal", "CacheWaysGranted", "Configuring", _REPORTER)
# From this number of workloads on, one list costs less than a request for each.
_LIST_FROM = 20
_ENDED = ("Succeeded", "Failed")
_NAME = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.-]{0,251}[0-9A-Za-z])?")
PodKey = tuple[str, str]
T = t.TypeVar("T")


def read_pods(parameters: Parameters, context: Context = Context()) -> Result:
    """``pods`` by node that run and request cache ways, reduced to the fields for a node.

    An unreadable pod is in ``findings`` and stops no other.
    """
    options = INFO_SPEC.complete(parameters)
    asking = _Asking.of(Kube.connect(options), options["node_names"], "status.phase=Running")
    nodes: dict[str, list[MutableObject]] = defaultdict(list)
    for pod, cut in asking.each(asking.pods, _cut_down):
        nodes[pod["spec"]["nodeName"]].append(cut)
    warn_of(asking.findings, context)
    found = [each.as_dict() for each in asking.findings]
    return {"changed": False, "pods": dict(nodes), "findings": found}


def configure_pods(parameters: Parameters, context: Context = Context()) -> Result:
    """Create, change and delete the RmdWorkloads of pods; mark the pods without cache ways.

    An unreadable pod is in ``findings`` and stops no other. Raises WattwiseError if the API refuses
    a request for another reason than the workload.
    """
    options = SPEC.complete(parameters)
    kube = Kube.connect(options)
    asking = _Asking.of(kube, options["node_names"], "status.phase!=Pending")
    removed = _remove_workloads(kube, asking, context)
    wanted, refusals = _desired(asking, options["cpusets"])
    existing = _existing_workloads(kube, wanted)
    own, taken = _without_those_of_others(wanted, existing)
    applied, refused_by_api = _apply(options, [each.manifest for each in own], context)
    refusals += taken + refused_by_api
    told = _Teller(kube, context, asking.running)
    by_daemon = _refused_by_daemons(own)
    conditions = told.refusals([*refusals, *by_daemon]) + told.granted(own)
    terminated = told.end(by_daemon) if options["terminate_refused"] else []
    warn_of(asking.findings, context)
    return {
        "changed": bool(removed or applied["changed"] or conditions or terminated),
        "diff": applied["diff"],
        "workloads": applied["results"],
        "removed": removed,
        "refused": [asdict(each) for each in [*refusals, *by_daemon]],
        "terminated": terminated,
        "findings": [each.as_dict() for each in asking.findings],
    }


@dataclass
class _Asking:
    """Pods that request cache ways, each read within a separate boundary."""

    pods: list[MutableObject]
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def of(cls, kube: Kube, node_names: t.Sequence[str] | None, selector: str) -> _Asking:
        """The pods on the nodes; for one node the API server filters them."""
        if node_names is not None and len(node_names) == 1:
            selector += f",spec.nodeName={node_names[0]}"

        def is_meant(pod: MutableObject) -> bool:
            on_node = node_names is None or pod["spec"].get("nodeName") in node_names
            if not on_node or not asks_for_ways(pod):
                return False
            _check_identity(pod)
            return True

        found = cls([])
        query = {"fieldSelector": selector}
        pods = kube.list("/api/v1/pods", query, without_bulk, found.findings.append)
        found.pods = [pod for pod, meant in found.each(pods, is_meant) if meant]
        return found

    @property
    def running(self) -> list[MutableObject]:
        return [pod for pod in self.pods if pod["status"]["phase"] == "Running"]

    @property
    def ended(self) -> list[MutableObject]:
        return [pod for pod in self.pods if pod["status"]["phase"] in _ENDED]

    def each(
        self, pods: t.Sequence[MutableObject], read: t.Callable[[MutableObject], T]
    ) -> t.Iterator[tuple[MutableObject, T]]:
        """The readable pods with their content; the others are findings."""
        return read_each(pods, "Pod", read, self.findings)


def _check_identity(pod: MutableObject) -> None:
    """Raise InvalidField unless the pod has a usable identity and status."""
    for field_name in ("namespace", "name", "uid"):
        value = pod["metadata"].get(field_name)
        if not isinstance(value, str) or _NAME.fullmatch(value) is None:
            raise InvalidField(f"metadata.{field_name}", f"{shown(value)} is no {field_name}")
    status = pod["status"]
    texts = [("spec.nodeName", pod["spec"].get("nodeName")), ("status.phase", status.get("phase"))]
    texts += [("status.conditions", each.get("type")) for each in status.get("conditions") or []]
    for place, value in texts:
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidField(place, f"{shown(value)} is not a text")


def _cut_down(pod: MutableObject) -> MutableObject:
    """Only the fields that decide about exclusive CPUs and their place."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    parts = {
        part: [
            {key: each[key] for key in ("name", "resources", "restartPolicy") if key in each}
            for each in spec.get(part) or ()
        ]
        for part in ("initContainers", "containers")
    }
    statuses = {
        part: [
            {"name": each["name"], "containerID": each.get("containerID", "")}
            for each in status.get(part) or ()
        ]
        for part in ("initContainerStatuses", "containerStatuses")
    }
    return {
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
        "spec": {"nodeName": spec["nodeName"], **parts},
        "status": {"phase": status.get("phase"), "qosClass": status.get("qosClass"), **statuses},
    }


@dataclass(frozen=True)
class _Existing:
    """A stored RmdWorkload: its owner (None if people made it), and the daemons' answers."""

    owner: MutableObject | None
    spec: MutableObject
    responses: MutableObject
    said: str


@dataclass(frozen=True)
class _Own:
    """A workload of a pod, and the stored one if it exists."""

    manifest: MutableObject
    stored: _Existing | None

    @property
    def response(self) -> str:
        """The daemon's answer to the present spec; empty if the spec has changed since."""
        spec, stored = self.manifest["spec"], self.stored
        if stored is None or any(stored.spec.get(key) != value for key, value in spec.items()):
            return ""
        return str((stored.responses.get(self.node) or {}).get("response") or "")

    @property
    def node(self) -> str:
        """Its only node."""
        return str(self.manifest["spec"]["nodes"][0])

    @property
    def explained(self) -> str:
        """Meaning of the refusal, as ``rmd_workloads`` says it."""
        return self.stored.said.partition(f"{self.node}: ")[2] if self.stored else ""


def _read_existing(workload: MutableObject) -> _Existing:
    metadata, status = workload["metadata"], workload.get("status") or {}
    references = metadata.get("ownerReferences") or []
    is_of_now = status.get("observedGeneration") == metadata["generation"]
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready: MutableObject = conditions.get("Ready", {})
    return _Existing(
        owner=next((each for each in references if each.get("controller")), None),
        spec={**(workload.get("spec") or {})},
        responses={**(status.get("workloadStates") or {})} if is_of_now else {},
        said=str(ready.get("message") or "") if ready.get("status") == "False" else "",
    )


def _existing_workloads(
    kube: Kube, workloads: t.Sequence[MutableObject]
) -> dict[PodKey, _Existing | Finding]:
    """The existing ones of the workloads; a few are read one by one, many as one list."""
    resource = kube.resource(API_VERSION, "RmdWorkload")
    if len(workloads) >= _LIST_FROM:
        found: list[MutableObject | None] = [*kube.list(resource.collection())]
    else:
        keys = map(_key, workloads)
        paths = [resource.path(name, namespace) for namespace, name in keys]
        found = kube.in_parallel(kube.find, paths)
    return {
        _key(each): guarded(
            subject_of(each, "RmdWorkload"), functools.partial(_read_existing, each)
        )
        for each in found
        if each is not None
    }


def _remove_workloads(kube: Kube, asking: _Asking, context: Context) -> list[dict[str, str]]:
    """Delete the RmdWorkloads of ended pods; return them."""
    ended = asking.ended
    if not ended:
        return []
    resource = kube.resource(API_VERSION, "RmdWorkload")
    owners = {
        resource.path(name, pod["metadata"]["namespace"]): pod["metadata"]["uid"]
        for pod, names in asking.each(ended, workload_names)
        for name in names
        if _NAME.fullmatch(name)
    }
    found = zip(owners, kube.in_parallel(kube.find, list(owners)))
    there = {path: workload for path, workload in found if workload is not None}

    def owner_of(path: str) -> t.Any:
        return (_read_existing(there[path]).owner or {}).get("uid")

    removed = []
    for path, owner in read_each(there, "RmdWorkload", owner_of, asking.findings):
        if owner == owners[path]:
            delete_object(kube, path, there[path], context.check_mode)
            namespace, name = _key(there[path])
            removed.append({"namespace": namespace, "name": name})
    return removed


def _key(obj: MutableObject) -> PodKey:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _desired(
    asking: _Asking, cpusets: t.Sequence[Object]
) -> tuple[list[MutableObject], list[Refusal]]:
    """The workloads of all pods, and the refused containers."""
    cpus = _by_pod(cpusets)
    wanted: list[MutableObject] = []
    refusals: list[Refusal] = []
    for pod in asking.running:
        metadata = pod["metadata"]
        own = cpus.get(metadata["uid"], {})
        found = guarded(subject_of(pod, "Pod"), functools.partial(workloads_of_pod, pod, own))
        if isinstance(found, Finding):
            asking.findings.append(found)
            key = metadata["namespace"], metadata["name"], metadata["uid"]
            refusals.append(Refusal(*key, f"the pod cannot be read: {found.said}"))
        else:
            wanted += found[0]
            refusals += found[1]
    return wanted, refusals


def _by_pod(cpusets: t.Sequence[Object]) -> dict[str, dict[str, list[int]]]:
    """CPUs by the pod's UID and the container's name. Raises InvalidInput."""
    found: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for index, each in enumerate(cpusets):
        cpus = each.get("cpus")
        is_list = isinstance(cpus, list) and all(isinstance(cpu, int) for cpu in cpus)
        if not (each.get("pod_uid") and each.get("container") and cpus and is_list):
            raise InvalidInput(
                f"cpusets[{index}] needs pod_uid, container and cpus, a list of numbers; give what"
                " pod_cpuset_info returns as containers"
            )
        found[each["pod_uid"]][each["container"]] = cpus
    return found


def _without_those_of_others(
    workloads: t.Sequence[MutableObject], existing: t.Mapping[PodKey, _Existing | Finding]
) -> tuple[list[_Own], list[Refusal]]:
    """The workloads to write, and refusals of those whose names people have used."""
    ours: list[_Own] = []
    refusals: list[Refusal] = []
    for workload in workloads:
        [own] = workload["metadata"]["ownerReferences"]
        stored, name = existing.get(_key(workload)), workload["metadata"]["name"]
        if isinstance(stored, Finding):
            message = f"RmdWorkload {name} cannot be read: {stored.said}; delete it"
            refusals.append(_refusal_of(workload, message))
        elif stored is None or (stored.owner or {}).get("uid") == own["uid"]:
            ours.append(_Own(workload, stored))
        elif (stored.owner or {}).get("kind") != "Pod":
            message = f"RmdWorkload {name} exists and is not this pod's; rename or delete it"
            refusals.append(_refusal_of(workload, message))
        # Else a pod of this name was replaced; the garbage collector deletes its workload soon.
    return ours, refusals


def _apply(
    options: Parameters, workloads: list[MutableObject], context: Context
) -> tuple[Result, list[Refusal]]:
    """Apply; a workload that the API refuses is its pod's refusal and stops no other."""
    connection = {name: options[name] for name in KUBERNETES.options}
    asked = {**connection, "manifests": workloads, "force_conflicts": True}
    try:
        result = apply(asked, context)
    except WattwiseError as error:
        if not error.fields.get("results"):
            raise
        result = error.fields
    return result, [
        _refusal_of(workload, outcome["error"])
        for workload, outcome in zip(workloads, result["results"])
        if outcome["action"] == "failed"
    ]


def _refusal_of(workload: MutableObject, message: str) -> Refusal:
    [owner] = workload["metadata"]["ownerReferences"]
    namespace = workload["metadata"]["namespace"]
    return Refusal(namespace, owner["name"], owner["uid"], shown_text(message))


def _refused_by_daemons(workloads: t.Sequence[_Own]) -> list[Refusal]:
    """Outcomes of workloads that are unchanged since the daemons' answers."""
    refusals = []
    for each in workloads:
        if each.response.startswith(REFUSED_RESPONSE):
            answer = each.explained or each.response[len(REFUSED_RESPONSE) :].strip()
            message = f"RMD on node {each.node} refused: {answer}"
            refusals.append(_refusal_of(each.manifest, message))
    return refusals


@dataclass
class _Teller:
    """Writes conditions and events of pods, only if new."""

    kube: Kube
    context: Context
    pods: t.Sequence[MutableObject]

    def refusals(self, refusals: t.Sequence[Refusal]) -> int:
        """Number of newly marked pods; all refusals of a pod make one sentence."""
        messages: dict[str, list[str]] = defaultdict(list)
        for each in refusals:
            messages[each.pod_uid].append(each.message)
        told = 0
        for pod in self.pods:
            said = messages.get(pod["metadata"]["uid"])
            if said:
                condition = Condition(CONDITION, "False", "Refused", "; ".join(said))
                told += bool(tell(self.kube, self.context, pod, condition, _REFUSED))
        return told

    def granted(self, workloads: t.Sequence[_Own]) -> int:
        """Clear the refusal of pods whose workloads all succeeded."""
        owned: dict[str, list[str]] = defaultdict(list)
        for each in workloads:
            [owner] = each.manifest["metadata"]["ownerReferences"]
            owned[owner["uid"]].append(each.response)
        told = 0
        for pod in self.pods:
            responses = owned.get(pod["metadata"]["uid"], [])
            was_refused = stored_condition(pod, CONDITION).get("status") == "False"
            if was_refused and responses and all(each.startswith("Success") for each in responses):
                condition = Condition(CONDITION, "True", "Granted", "the daemon has the workload")
                told += bool(tell(self.kube, self.context, pod, condition, _GRANTED))
        return told

    def end(self, refusals: t.Sequence[Refusal]) -> list[dict[str, str]]:
        """Delete exactly the pods whose workloads daemons refused."""
        refused = {each.pod_uid for each in refusals}
        ended = []
        for pod in self.pods:
            metadata = pod["metadata"]
            if metadata["uid"] in refused and not metadata.get("deletionTimestamp"):
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                try:
                    delete_object(self.kube, path, pod, self.context.check_mode)
                except ApiError as error:
                    if error.status == 409:  # replaced meanwhile: not the pod that was refused
                        continue
                    raise
                ended.append({"namespace": metadata["namespace"], "pod": metadata["name"]})
        return ended
