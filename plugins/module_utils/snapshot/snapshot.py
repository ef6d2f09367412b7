# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as one document: all lists are read concurrently and reduced to the fields in use."""

from __future__ import annotations

import functools
import threading
import typing as t
from pathlib import Path

from ..base import documents, whole_files
from ..base.argspec import KUBERNETES, PROGRESS, ArgumentSpec
from ..base.boundary import Finding, guarded, subject_of, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import ApiError, InvalidInput
from ..base.object_shapes import required_text
from ..base.units import format_time
from ..fleet.urls import masked
from ..kube.client import Kube, Object, Query
from ..nodeconfig.targets import resolve
from ..scheduling.pod_fields import (
    CONTAINER,
    DEVICE_CLAIMS_ANNOTATION,
    POD,
    PODSPREAD_ANNOTATIONS,
    VOLUME,
    is_set,
)
from ..scheduling.volumes import inline_disks
from . import run_owner, volumes

Trim = t.Callable[[Object], Object]

WAO_GROUPS = ("wao.bitmedia.co.jp", "node.waok8s.github.io")
_FINISHED_PODS_EXCLUDED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_RMD = "/apis/intel.com/v1alpha1"
_DRA_PLURALS = ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates")
TAINT_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
_PROTOTYPE_PLURALS = (
    "devicepools",
    "deviceclasses",
    "devicedrivers",
    "deviceclaims",
    "deviceprivilegedclaims",
)
_DEFAULT_SCHEDULER = "default-scheduler"
# Many parts read annotations of pods, all of them short except for the claims of the prototype.
_MAX_ANNOTATION_LENGTH = 1024
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _kept(source: t.Mapping[str, t.Any], *names: str) -> Object:
    return {name: source[name] for name in names if source.get(name) is not None}


def _metadata(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key != _LAST_APPLIED
        }
    return metadata


def _identified(obj: Object, **parts: t.Any) -> Object:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": _metadata(obj),
        **parts,
    }


def trim_node(node: Object) -> Object:
    """Labels, taints, addresses, resources and readiness of a Node."""
    status = node.get("status", {})
    ready = [item for item in status.get("conditions") or [] if item.get("type") == "Ready"]
    return _identified(
        node,
        spec=_kept(node.get("spec", {}), "taints", "unschedulable", "providerID"),
        status={
            **_kept(status, "addresses", "capacity", "allocatable"),
            "conditions": ready,
            "nodeInfo": _kept(status.get("nodeInfo", {}), "architecture", "operatingSystem"),
        },
    )


def trim_pod(pod: Object) -> Object:
    """Fields of a Pod for placement.

    All scheduling fields are kept for a waiting pod, and for a running pod of this scheduler, which
    may be moved. Other pods keep fewer fields.
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    containers = {
        part: [_trim_container(container) for container in spec.get(part) or []]
        for part in ("containers", "initContainers")
    }
    if not spec.get("nodeName") or spec.get("schedulerName") not in (None, "", _DEFAULT_SCHEDULER):
        claims = _kept(status, "resourceClaimStatuses", "extendedResourceClaimStatus")
        kept = {**_resizing(pod), **_kept(status, "phase", "conditions", "nominatedNodeName")}
        others = {name: spec[name] for name in sorted(spec.keys() - POD.harmless)}
        mounted = [_trim_volume(volume) for volume in spec.get("volumes") or []]
        return _identified_pod(
            pod,
            spec={**others, **containers, "volumes": mounted},
            status={**kept, **claims},
        )
    return _identified_pod(
        pod,
        spec={
            **_kept(spec, "nodeName", "overhead", "resources", "priority", "schedulerName"),
            **_kept(spec, "affinity", "topologySpreadConstraints", "tolerations", "hostNetwork"),
            **containers,
            **_counted_volumes(spec),
        },
        status={**_kept(status, "phase"), **_resizing(pod)},
    )


def _identified_pod(pod: Object, **parts: t.Any) -> Object:
    identified = _identified(pod, **parts)
    annotations = identified["metadata"].get("annotations")
    if isinstance(annotations, dict):
        # Those of other programs may have 256 KiB.
        identified["metadata"]["annotations"] = {
            key: value
            for key, value in annotations.items()
            if key == DEVICE_CLAIMS_ANNOTATION
            or not isinstance(value, str)
            or len(value) <= _MAX_ANNOTATION_LENGTH
        }
    return identified


def _resizing(pod: Object) -> Object:
    """Resources that the kubelet allocated and actuated, if they differ from the spec.

    With a resize that is not done, all of them and its condition.
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    pending = [
        _kept(one, "type", "status", "reason")
        for one in status.get("conditions") or []
        if one.get("type") == "PodResizePending"
    ]
    kept: Object = {"conditions": pending} if pending else {}
    for part in ("containers", "initContainers"):
        asked = {str(one.get("name")): one.get("resources") for one in spec.get(part) or []}
        name = f"{part[:-1]}Statuses"
        found = [
            {**_kept(one, "name"), **told}
            for one in status.get(name) or []
            if (told := _told_apart(one, None if pending else asked.get(str(one.get("name")))))
        ]
        kept.update({name: found} if found else {})
    # Without pod-level requests these are the sums over the containers.
    if not (spec.get("resources") or pending):
        return kept
    return {**kept, **_told_apart(status, None if pending else spec["resources"])}


def _told_apart(told: t.Mapping[str, t.Any], asked: t.Any) -> Object:
    """Requests in the status of a container or pod that differ from those in its spec."""
    wanted = (asked or {}).get("requests") or {}
    allocated = told.get("allocatedResources")
    in_force = (told.get("resources") or {}).get("requests")
    if all(requests is None or requests == wanted for requests in (allocated, in_force)):
        return {}
    return {
        **({} if allocated is None else {"allocatedResources": allocated}),
        **({} if in_force is None else {"resources": {"requests": in_force}}),
    }


def _trim_container(container: Object) -> Object:
    """A container without environment, command, probes and hooks, which may contain secrets.

    An unknown field keeps only its name, by which placement refuses the pod.
    """
    kept = _kept(container, "name", *sorted(CONTAINER.read))
    unknown = container.keys() - CONTAINER.read - CONTAINER.harmless
    return {**kept, **{name: True for name in sorted(unknown) if is_set(container[name])}}


def _counted_volumes(spec: Object) -> Object:
    """Claims and disks of a pod, which count for the room of the node and for other pods."""
    counted = [
        _trim_volume(volume)
        for volume in spec.get("volumes") or []
        if volume.get("persistentVolumeClaim")
        or volume.get("ephemeral") is not None
        or not volume.keys().isdisjoint(inline_disks.PARTS)
    ]
    return {"volumes": counted} if counted else {}


def _trim_volume(volume: Object) -> Object:
    """Name, type, claim and disk of a volume; options of drivers may contain secrets."""
    kept = _kept(volume, "name", "persistentVolumeClaim")
    for source in volume.keys() & inline_disks.PARTS.keys():
        kept[source] = inline_disks.trimmed_source(source, volume[source])
    others = volume.keys() - kept.keys() - VOLUME.harmless
    return {**kept, **{name: True for name in sorted(others) if is_set(volume[name])}}


def trim_custom(obj: Object) -> Object:
    """A custom resource with its status."""
    return _identified(obj, **_kept(obj, "spec", "status"))


def trim_node_config(obj: Object) -> Object:
    """A NodeConfig with its status; a password in an endpoint is masked."""
    trimmed = trim_custom(obj)
    if not isinstance(trimmed.get("spec"), dict):
        return trimmed
    spec = {
        part: {name: _masked_term(term) for name, term in terms.items()}
        if isinstance(terms, dict)
        else terms
        for part, terms in trimmed["spec"].items()
    }
    return {**trimmed, "spec": spec}


def _masked_term(term: t.Any) -> t.Any:
    endpoint = term.get("endpoint") if isinstance(term, dict) else None
    return {**term, "endpoint": masked(endpoint)} if isinstance(endpoint, str) else term


def trim_device_object(obj: Object) -> Object:
    """A device object; a DeviceDriver has its types beside the metadata."""
    return _identified(obj, **_kept(obj, "spec", "status", "deviceTypes"))


def trim_metrics(metrics: Object) -> Object:
    """Usage of a node from metrics.k8s.io."""
    return _identified(metrics, **_kept(metrics, "usage", "timestamp", "window"))


def trim_controller(deployment: Object) -> Object:
    """Images of the Deployment of a controller."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return _identified(deployment, images=[container.get("image", "") for container in containers])


def trim_namespace(namespace: Object) -> Object:
    """Name and labels of a Namespace."""
    kept = _kept(namespace["metadata"], "name", "labels")
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": kept}


def trim_replica_set(replica_set: Object) -> Object:
    """A ReplicaSet with the spreading annotations of its Deployment."""
    metadata = replica_set["metadata"]
    annotations = _kept(metadata.get("annotations") or {}, *PODSPREAD_ANNOTATIONS)
    kept = {**_kept(metadata, "namespace", "name", "uid"), "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": kept}


def trim_daemon(pod: Object) -> Object:
    """Address and readiness of the daemon in a pod."""
    status = pod.get("status", {})
    containers = [
        _kept(container, "name", "ports") for container in pod["spec"].get("containers") or []
    ]
    return _identified(
        pod,
        spec={**_kept(pod["spec"], "nodeName", "hostNetwork"), "containers": containers},
        status=_kept(status, "phase", "podIP", "podIPs", "conditions"),
    )


class Source(t.NamedTuple):
    """Source of one part of the snapshot; the cluster may not serve ``optional`` parts.

    With ``metadata_only`` the server sends only metadata.
    """

    paths: tuple[str, ...]
    trim: Trim
    query: Query
    optional: bool
    metadata_only: bool = False
    keeps: t.Callable[[Object], bool] = bool


def _custom_paths(plural: str) -> tuple[str, ...]:
    return tuple(f"/apis/{group}/v1beta1/{plural}" for group in WAO_GROUPS)


SOURCES: t.Mapping[str, Source] = {
    "nodes": Source(("/api/v1/nodes",), trim_node, {}, optional=False),
    "pods": Source(("/api/v1/pods",), trim_pod, _FINISHED_PODS_EXCLUDED, optional=False),
    "node_configs": Source(_custom_paths("nodeconfigs"), trim_node_config, {}, optional=True),
    "node_config_templates": Source(
        _custom_paths("nodeconfigtemplates"), trim_custom, {}, optional=True
    ),
    "node_metrics": Source(
        ("/apis/metrics.k8s.io/v1beta1/nodes",), trim_metrics, {}, optional=True
    ),
    "pod_disruption_budgets": Source(
        ("/apis/policy/v1/poddisruptionbudgets",), trim_custom, {}, optional=False
    ),
    "rmd_workloads": Source((f"{_RMD}/rmdworkloads",), trim_custom, {}, optional=True),
    "rmd_node_states": Source((f"{_RMD}/rmdnodestates",), trim_custom, {}, optional=True),
    "rmd_configs": Source((f"{_RMD}/rmdconfigs",), trim_custom, {}, optional=True),
    # Upstream label of the daemons' pods.
    "rmd_pods": Source(
        ("/api/v1/pods",), trim_daemon, {"labelSelector": "name=rmd-pod"}, optional=False
    ),
    "device_objects": Source(
        (
            *(f"/apis/resource.k8s.io/v1/{plural}" for plural in _DRA_PLURALS),
            *(f"/apis/resource.k8s.io/{one}/devicetaintrules" for one in TAINT_RULE_VERSIONS),
            *(f"/apis/devmgmtproto.k8s.io/v1alpha1/{plural}" for plural in _PROTOTYPE_PLURALS),
        ),
        trim_device_object,
        {},
        optional=True,
    ),
    "volume_objects": Source(volumes.PATHS, volumes.trim_volume_object, {}, optional=True),
    # Label of kubebuilder's scaffolding, which finds wao-core and rmd-operator.
    "controllers": Source(
        ("/apis/apps/v1/deployments",),
        trim_controller,
        {"labelSelector": "control-plane=controller-manager"},
        optional=False,
    ),
    "namespaces": Source(
        ("/api/v1/namespaces",), trim_namespace, {}, optional=False, metadata_only=True
    ),
    "replica_sets": Source(
        ("/apis/apps/v1/replicasets",),
        trim_replica_set,
        {},
        optional=False,
        metadata_only=True,
        keeps=lambda obj: bool(obj["metadata"]["annotations"]),
    ),
}

_BY_DEFAULT = [
    *("nodes", "pods", "node_configs", "node_config_templates", "node_metrics"),
    *("namespaces", "replica_sets", "pod_disruption_budgets", "rmd_node_states"),
    *("device_objects", "volume_objects"),
]
# Read after pods, and only if a waiting pod needs them.
_LATER = "volume_objects"

SPEC = KUBERNETES.merge(
    PROGRESS,
    ArgumentSpec(
        {
            "include": {
                "type": "list",
                "elements": "str",
                "choices": list(SOURCES),
                "default": _BY_DEFAULT,
            },
            "selectors": {"type": "dict", "default": {}},
            "node_configs": {"type": "path"},
            "path": {"type": "path"},
            "run_process": {"type": "str"},
        }
    ),
)


def take(parameters: Parameters, context: Context = Context(), kube: Kube | None = None) -> Result:
    """Read the cluster; write the snapshot to ``path`` or return it.

    ``selectors`` maps parts to label selectors. ``kube`` is an existing connection of the caller.
    Raises ApiError, also for an incomplete list.
    """
    options = SPEC.complete(parameters)
    if options["path"]:
        whole_files.make_folder(Path(options["path"]).absolute().parent)
    if options["path"] and options["run_process"]:
        run_owner.claim(options["path"], options["run_process"], context.now())
    rendered: list[Object] = []
    if options["node_configs"]:
        rendered = documents.load(options["node_configs"], "node_configs")["node_configs"]
    body = read_cluster(kube or Kube.connect(options), options, context, rendered)
    counts = {name: len(body[name]) for name in _parts(options)}
    told = {"controllers": images_of(body.get("controllers", [])), "findings": body["findings"]}
    result: Result = {"changed": False, "counts": counts, **told}
    if not options["path"]:
        moment = format_time(context.now())
        document = {"document": documents.document_name("snapshot"), "time": moment, **body}
        return {**result, "snapshot": document}
    digest = documents.write(options["path"], "snapshot", body, documents.new_run())
    return {**result, "path": options["path"], "sha256": digest}


class Parts(t.NamedTuple):
    """Parts of the cluster that were just read, and findings about objects that are left out."""

    objects: dict[str, list[Object]]
    findings: t.Sequence[Finding] = ()


NOTHING = Parts({})


def empty() -> Parts:
    """All parts of an empty cluster."""
    return Parts({name: [] for name in SOURCES})


def read_waiting_pods(kube: Kube) -> list[Object]:
    """Pods without a node, filtered by the API server. Raises ApiError."""
    source = SOURCES["pods"]
    chosen = f"spec.nodeName=,{source.query['fieldSelector']}"
    found, _findings = read_part(kube, source._replace(query={"fieldSelector": chosen}), None)
    return found


def read_cluster(
    kube: Kube,
    options: Parameters,
    context: Context = Context(),
    rendered: t.Sequence[Object] = (),
    known: Parts = NOTHING,
) -> Object:
    """The body of a snapshot with the parts of ``include``; all lists are read concurrently.

    With NodeConfigs it contains their ``targets``. ``rendered`` are NodeConfigs that are about to
    be applied. Parts that are ``known`` are not read again. Raises ApiError like ``take``.
    """
    names = _parts(options)
    _check_selectors(options["selectors"], names)
    body: Object = {name: known.objects[name] for name in names if name in known.objects}
    done = list(body)
    findings = list(known.findings)
    counting = threading.Lock()

    def read(name: str) -> list[Object]:
        items: list[Object] = []
        left_out: list[Finding] = []
        if name in first or volumes.are_needed(body["pods"]):
            items, left_out = read_part(kube, SOURCES[name], options["selectors"].get(name))
        with counting:
            findings.extend(left_out)
            done.append(name)
            context.progress(done=len(done), total=len(names), failed=0)
        return items

    first = [name for name in names if name not in body and (name != _LATER or "pods" not in names)]
    body.update(zip(first, kube.in_parallel(read, first, len(first))))
    body.update({name: read(name) for name in names if name not in body})
    if rendered:
        body["node_configs"] = overlay(body.get("node_configs", []), rendered)
    if "node_configs" in body:
        body["targets"] = resolve(body["nodes"], body["node_configs"]).as_dict()
    body["cluster"] = {"host": kube.host}
    body["findings"] = _told(findings, context)
    return body


def _parts(options: Parameters) -> list[str]:
    """Parts to read, always with nodes."""
    return list(dict.fromkeys(["nodes", *options["include"]]))


def images_of(controllers: t.Iterable[Object]) -> list[str]:
    """Images of controllers."""
    return sorted({image for obj in controllers for image in obj["images"]})


def _told(findings: t.Iterable[Finding], context: Context) -> list[dict[str, str]]:
    """The sorted findings for the result, after one warning; threads find them in any order."""
    ordered = sorted(findings, key=str)
    warn_of(ordered, context)
    return [finding.as_dict() for finding in ordered]


def _check_selectors(selectors: t.Mapping[str, t.Any], names: t.Sequence[str]) -> None:
    unknown = sorted(selectors.keys() - set(names))
    if unknown:
        raise InvalidInput(
            f"selectors: {', '.join(unknown)} is not read; give selectors for {', '.join(names)}"
        )


def read_part(
    kube: Kube, source: Source, selector: str | None
) -> tuple[list[Object], list[Finding]]:
    """Objects of one part, and findings about objects that are left out."""
    query = {**source.query, **({"labelSelector": selector} if selector else {})}
    items: list[Object] = []
    findings: list[Finding] = []

    def trim(obj: Object) -> Object:
        """The trimmed object; empty if it is left out."""
        subject = subject_of(obj, str(obj.get("kind") or "object"))
        result = guarded(subject, functools.partial(trimmed, source, obj))
        if isinstance(result, Finding):
            findings.append(result)
            return {}
        return result

    kube = kube.metadata_only() if source.metadata_only else kube
    for path in source.paths:
        findings_before = len(findings)
        try:
            items += filter(None, kube.list(path, query, trim, findings.append))
        except ApiError as error:
            # An installed but unavailable metrics server answers 503.
            if not (source.optional and error.status in (404, 503)):
                raise
            del findings[findings_before:]
    return items, list(dict.fromkeys(findings))


def trimmed(source: Source, obj: Object) -> Object:
    """An object with the fields in use; empty if there are none.

    Raises InvalidField for an object without a name.
    """
    result = source.trim(obj)
    required_text(obj["metadata"].get("name"), "metadata.name")
    return result if source.keeps(result) else {}


def overlay(present: t.Sequence[Object], rendered: t.Sequence[Object]) -> list[Object]:
    """NodeConfigs after application of the rendered ones.

    Check mode applies nothing, but later steps need the result.
    """
    result = {_key(obj): obj for obj in present}
    for obj in rendered:
        stored = result.get(_key(obj))
        if stored is None:
            result[_key(obj)] = obj
        else:
            result[_key(obj)] = {**stored, "spec": obj["spec"]}
    return [result[key] for key in sorted(result)]


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["apiVersion"], metadata.get("namespace") or "", metadata["name"]
