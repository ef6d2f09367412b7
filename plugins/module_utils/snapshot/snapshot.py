# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as one document: all lists are read concurrently and reduced to the fields in use.

Storage objects are read only if they may restrict the nodes of a waiting pod.
"""

from __future__ import annotations

import functools
import threading
import typing as t
from pathlib import Path

from ..base import documents, whole_files
from ..base.argspec import KUBERNETES, PROGRESS, ArgumentSpec
from ..base.boundary import Finding, guarded, subject_of, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.json_types import MutableObject
from ..base.units import format_time
from ..kube.client import Kube
from ..kube.source import (
    CONTROLLERS,
    NODES,
    NOTHING,
    Parts,
    Source,
    identified,
    images_of,
    read_source,
    selected_fields,
    trim_custom,
)
from ..nodeconfig.nodeconfig import NODE_CONFIG_TEMPLATES, NODE_CONFIGS
from ..nodeconfig.targets import Targets, resolve
from ..rmd.manifests import RMD_CONFIGS, RMD_NODE_STATES, RMD_PODS, RMD_WORKLOADS
from ..scheduling.pod_fields import PODSPREAD_ANNOTATIONS
from ..scheduling.pod_reader import is_finished
from ..scheduling.volumes.cluster_volumes import depends_on_storage
from ..scheduling.volumes.inline_disks import MIGRATED
from . import run_owner
from .pods import trim_pod

_VOLUME_PATHS = (
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    *(
        f"/apis/storage.k8s.io/v1/{plural}"
        for plural in (
            *("storageclasses", "csinodes", "csidrivers", "csistoragecapacities"),
            "volumeattachments",
        )
    ),
)
_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "ownerReferences"),
    "deletionTimestamp",
)
# Other annotations belong to other programs, and may be long.
_ANNOTATIONS = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
_CLAIM_PARTS = (
    *("accessModes", "resources", "selector", "storageClassName", "volumeMode", "volumeName"),
    "volumeAttributesClassName",
)
_VOLUME_PARTS = (
    *("accessModes", "capacity", "claimRef", "nodeAffinity", "storageClassName", "volumeMode"),
    "volumeAttributesClassName",
)
# The fields of a source that name the disk; options of drivers may contain secrets.
_SOURCE_PARTS = {
    "csi": ("driver", "volumeHandle"),
    **{source: (part,) for source, (_driver, part) in MIGRATED.items()},
}
_CLASS_PARTS = ("provisioner", "volumeBindingMode", "allowedTopologies")
_CAPACITY_PARTS = ("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize")


def trim_volume_object(obj: MutableObject) -> MutableObject:
    """A storage object without options of its driver."""
    kind, spec = obj["kind"], obj.get("spec") or {}
    if kind == "PersistentVolumeClaim":
        status = selected_fields(obj.get("status") or {}, "phase")
        return _with_short_metadata(obj, spec=selected_fields(spec, *_CLAIM_PARTS), status=status)
    if kind == "PersistentVolume":
        sources = {
            source: selected_fields(spec[source], *parts)
            for source, parts in _SOURCE_PARTS.items()
            if spec.get(source)
        }
        status = selected_fields(obj.get("status") or {}, "phase")
        return _with_short_metadata(
            obj, spec={**selected_fields(spec, *_VOLUME_PARTS), **sources}, status=status
        )
    if kind == "StorageClass":
        return _with_short_metadata(obj, **selected_fields(obj, *_CLASS_PARTS))
    if kind == "CSINode":
        drivers = [
            selected_fields(driver, "name", "allocatable") for driver in spec.get("drivers") or []
        ]
        return _with_short_metadata(obj, spec={"drivers": drivers})
    if kind == "CSIDriver":
        return _with_short_metadata(obj, spec=selected_fields(spec, "storageCapacity"))
    if kind == "CSIStorageCapacity":
        return _with_short_metadata(obj, **selected_fields(obj, *_CAPACITY_PARTS))
    source = selected_fields(spec.get("source") or {}, "persistentVolumeName")
    return _with_short_metadata(
        obj, spec={**selected_fields(spec, "attacher", "nodeName"), "source": source}
    )


def _with_short_metadata(obj: MutableObject, **parts: t.Any) -> MutableObject:
    metadata = selected_fields(obj["metadata"], *_METADATA)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if str(key).startswith(_ANNOTATIONS)
        }
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **parts}


def _needs_storage(pods: t.Iterable[MutableObject]) -> bool:
    """Whether a waiting pod has a claim, or a disk of a driver that may have a limit."""
    return any(
        guarded(subject_of(pod, "Pod"), functools.partial(_waits_for_storage, pod)) is True
        for pod in pods
    )


def _waits_for_storage(pod: MutableObject) -> bool:
    return not pod["spec"].get("nodeName") and not is_finished(pod) and depends_on_storage(pod)


_FINISHED_PODS_EXCLUDED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_DRA_PLURALS = ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates")
TAINT_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
_PROTOTYPE_PLURALS = (
    "devicepools",
    "deviceclasses",
    "devicedrivers",
    "deviceclaims",
    "deviceprivilegedclaims",
)


def trim_device_object(obj: MutableObject) -> MutableObject:
    """A device object; a DeviceDriver has its types beside the metadata."""
    return identified(obj, **selected_fields(obj, "spec", "status", "deviceTypes"))


def trim_metrics(metrics: MutableObject) -> MutableObject:
    """Usage of a node from metrics.k8s.io."""
    return identified(metrics, **selected_fields(metrics, "usage", "timestamp", "window"))


def trim_namespace(namespace: MutableObject) -> MutableObject:
    """Name and labels of a Namespace."""
    kept = selected_fields(namespace["metadata"], "name", "labels")
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": kept}


def trim_replica_set(replica_set: MutableObject) -> MutableObject:
    """A ReplicaSet with the spreading annotations of its Deployment."""
    metadata = replica_set["metadata"]
    annotations = selected_fields(metadata.get("annotations") or {}, *PODSPREAD_ANNOTATIONS)
    kept = {**selected_fields(metadata, "namespace", "name", "uid"), "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": kept}


def trim_bare_metal_host(host: MutableObject) -> MutableObject:
    """The part of a BareMetalHost that says whether Metal3 switches the machine."""
    status = host.get("status") or {}
    return identified(
        host,
        spec=selected_fields(host.get("spec") or {}, "online"),
        status=selected_fields(status, "poweredOn", "operationalStatus", "provisioning"),
    )


SOURCES: t.Mapping[str, Source] = {
    "nodes": NODES,
    "pods": Source(("/api/v1/pods",), trim_pod, _FINISHED_PODS_EXCLUDED, optional=False),
    "node_configs": NODE_CONFIGS,
    "node_config_templates": NODE_CONFIG_TEMPLATES,
    "node_metrics": Source(
        ("/apis/metrics.k8s.io/v1beta1/nodes",), trim_metrics, {}, optional=True
    ),
    "pod_disruption_budgets": Source(
        ("/apis/policy/v1/poddisruptionbudgets",), trim_custom, {}, optional=False
    ),
    "rmd_workloads": RMD_WORKLOADS,
    "rmd_node_states": RMD_NODE_STATES,
    "rmd_configs": RMD_CONFIGS,
    "rmd_pods": RMD_PODS,
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
    "volume_objects": Source(_VOLUME_PATHS, trim_volume_object, {}, optional=True),
    "bare_metal_hosts": Source(
        ("/apis/metal3.io/v1alpha1/baremetalhosts",), trim_bare_metal_host, {}, optional=True
    ),
    "controllers": CONTROLLERS,
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
    rendered: list[MutableObject] = []
    if options["node_configs"]:
        rendered = documents.load(options["node_configs"], "node_configs")["node_configs"]
    body, _targets = read_cluster(kube or Kube.connect(options), options, context, rendered)
    counts = {name: len(body[name]) for name in _parts(options)}
    told = {"controllers": images_of(body.get("controllers", [])), "findings": body["findings"]}
    result: Result = {"changed": False, "counts": counts, **told}
    if not options["path"]:
        moment = format_time(context.now())
        document = {"document": documents.document_name("snapshot"), "time": moment, **body}
        return {**result, "snapshot": document}
    digest = documents.write(options["path"], "snapshot", body, documents.new_run())
    return {**result, "path": options["path"], "sha256": digest}


def empty() -> Parts:
    """All parts of an empty cluster."""
    return Parts({name: [] for name in SOURCES})


def read_waiting_pods(kube: Kube) -> list[MutableObject]:
    """Pods without a node, filtered by the API server. Raises ApiError."""
    source = SOURCES["pods"]
    chosen = f"spec.nodeName=,{source.query['fieldSelector']}"
    found, _findings = read_source(kube, source._replace(query={"fieldSelector": chosen}), None)
    return found


def read_cluster(
    kube: Kube,
    options: Parameters,
    context: Context = Context(),
    rendered: t.Sequence[MutableObject] = (),
    known: Parts = NOTHING,
) -> tuple[MutableObject, Targets | None]:
    """The body of a snapshot with the parts of ``include``; all lists are read concurrently.

    With NodeConfigs it contains their targets, the second value. ``rendered`` NodeConfigs are about
    to be applied. Parts that are ``known`` are not read again. Raises ApiError like ``take``.
    """
    names = _parts(options)
    _check_selectors(options["selectors"], names)
    body: MutableObject = {name: known.objects[name] for name in names if name in known.objects}
    done, findings = list(body), list(known.findings)
    counting = threading.Lock()

    def read(name: str) -> list[MutableObject]:
        items: list[MutableObject] = []
        left_out: list[Finding] = []
        if name in first or _needs_storage(body["pods"]):
            items, left_out = read_source(kube, SOURCES[name], options["selectors"].get(name))
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
    targets = resolve(body["nodes"], body["node_configs"]) if "node_configs" in body else None
    if targets is not None:
        body["targets"] = targets.as_dict()
    body["cluster"] = {"host": kube.host}
    body["findings"] = _told(findings, context)
    return body, targets


def _parts(options: Parameters) -> list[str]:
    """Parts to read, always with nodes."""
    return list(dict.fromkeys(["nodes", *options["include"]]))


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


def overlay(
    present: t.Sequence[MutableObject], rendered: t.Sequence[MutableObject]
) -> list[MutableObject]:
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


def _key(obj: MutableObject) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["apiVersion"], metadata.get("namespace") or "", metadata["name"]
