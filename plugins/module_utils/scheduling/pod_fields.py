# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Fields of a pod that the placer supports, and fields that do not concern nodes.

It is an allow-list: a field in no table is refused like those under ``refused``, so that a pod of a
newer Kubernetes waits instead of getting a wrong node. Tests compare the tables with the whole
PodSpec.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.json_types import Object


@dataclass(frozen=True)
class Fields:
    """Field names of one type: those that are read, the harmless and the refused ones.

    ``parts`` are the types of fields that hold a mapping, or a list of mappings where the type is
    in a list. ``choices`` are the supported values of other fields; None and "" stand for the
    default.
    """

    read: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    parts: t.Mapping[str, Fields | list[Fields]] = field(default_factory=dict)
    choices: t.Mapping[str, t.Collection[str | None]] = field(default_factory=dict)

    def not_understood(self, given: Object, path: str) -> t.Iterator[str]:
        """Dotted paths of the fields that are set and neither read nor harmless."""
        for name in sorted(given.keys() - self.read - self.harmless):
            if is_set(given[name]):
                yield f"{path}.{name}"

    def unsupported(self, given: t.Any, path: str) -> t.Iterator[str]:
        """Dotted paths of all unsupported fields and values, at every depth."""
        if not isinstance(given, dict):
            yield path
            return
        yield from self.not_understood(given, path)
        for name, choices in self.choices.items():
            if given.get(name) not in choices:
                yield f"{path}.{name}"
        for name, fields in self.parts.items():
            part, place = given.get(name), f"{path}.{name}"
            if isinstance(fields, Fields):
                yield from fields.unsupported(part or {}, place)
            elif isinstance(part, (list, tuple)):
                for each in part:
                    yield from fields[0].unsupported(each, place)
            elif part:
                yield place


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DEFAULT = (None, "")
TOLERATION_OPERATORS = ("Equal", "Exists")
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

RESOURCES = Fields(read=_names("limits requests"), refused=_names("claims"))
PORT = Fields(read=_names("containerPort hostIP hostPort protocol"), harmless=_names("name"))
RESTART_RULE = Fields(
    read=_names("action"),
    harmless=_names("exitCodes"),
    # RestartAllContainers needs a node that declares the feature in its status.
    choices={"action": (*_DEFAULT, "Restart")},
)
CONTAINER = Fields(
    read=_names("ports resources restartPolicy restartPolicyRules"),
    harmless=_names(
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe name"
        " readinessProbe resizePolicy securityContext startupProbe stdin stdinOnce"
        " terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts"
        " workingDir"
    ),
    parts={"resources": RESOURCES, "ports": [PORT], "restartPolicyRules": [RESTART_RULE]},
)
# kube-scheduler ignores the harmless ones. Pods of a node must not share some disks.
VOLUME = Fields(
    read=_names("iscsi rbd"),
    harmless=_names(
        "azureFile cephfs configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo"
        " glusterfs hostPath image name nfs photonPersistentDisk projected quobyte scaleIO secret"
        " storageos vsphereVolume"
    ),
    refused=_names(
        "awsElasticBlockStore azureDisk cinder ephemeral gcePersistentDisk persistentVolumeClaim"
        " portworxVolume"
    ),
)
NODE_SELECTOR_REQUIREMENT = Fields(read=_names("key operator values"))
NODE_SELECTOR_TERM = Fields(
    read=_names("matchExpressions matchFields"),
    parts={
        "matchExpressions": [
            replace(NODE_SELECTOR_REQUIREMENT, choices={"operator": LABEL_OPERATORS})
        ],
        "matchFields": [
            replace(
                NODE_SELECTOR_REQUIREMENT,
                choices={"operator": FIELD_OPERATORS, "key": ("metadata.name",)},
            )
        ],
    },
)
PREFERRED_SCHEDULING_TERM = Fields(
    read=_names("preference weight"), parts={"preference": NODE_SELECTOR_TERM}
)
NODE_AFFINITY = Fields(
    read=_names(f"{_REQUIRED} {_PREFERRED}"),
    parts={
        _REQUIRED: Fields(
            read=_names("nodeSelectorTerms"), parts={"nodeSelectorTerms": [NODE_SELECTOR_TERM]}
        ),
        _PREFERRED: [PREFERRED_SCHEDULING_TERM],
    },
)
POD_AFFINITY_TERM = Fields(
    read=_names(
        "labelSelector matchLabelKeys mismatchLabelKeys namespaceSelector namespaces topologyKey"
    )
)
WEIGHTED_POD_AFFINITY_TERM = Fields(
    read=_names("podAffinityTerm weight"), parts={"podAffinityTerm": POD_AFFINITY_TERM}
)
POD_AFFINITY = Fields(
    read=_names(f"{_REQUIRED} {_PREFERRED}"),
    parts={_REQUIRED: [POD_AFFINITY_TERM], _PREFERRED: [WEIGHTED_POD_AFFINITY_TERM]},
)
AFFINITY = Fields(
    read=_names("nodeAffinity podAffinity podAntiAffinity"),
    parts={
        "nodeAffinity": NODE_AFFINITY,
        "podAffinity": POD_AFFINITY,
        "podAntiAffinity": POD_AFFINITY,
    },
)
TOLERATION = Fields(
    read=_names("effect key operator value"),
    harmless=_names("tolerationSeconds"),
    choices={"operator": (*_DEFAULT, *TOLERATION_OPERATORS)},
)
TOPOLOGY_SPREAD = Fields(
    read=_names(
        "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy"
        " topologyKey whenUnsatisfiable"
    ),
    choices={
        "whenUnsatisfiable": (*_DEFAULT, "DoNotSchedule", "ScheduleAnyway"),
        "nodeAffinityPolicy": (*_DEFAULT, "Honor", "Ignore"),
        "nodeTaintsPolicy": (*_DEFAULT, "Honor", "Ignore"),
    },
)
# preemptionPolicy: nothing is ever preempted here. runtimeClassName: its overhead, node selector
# and tolerations are merged into the pod at admission. os: kube-scheduler ignores it. hostNetwork
# matters through the ports that it opens on the host.
POD = Fields(
    read=_names(
        "affinity containers initContainers nodeName nodeSelector overhead priority resources"
        " schedulerName tolerations volumes hostNetwork topologySpreadConstraints"
    ),
    harmless=_names(
        "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy"
        " enableServiceLinks ephemeralContainers evictionResponders hostAliases hostIPC hostPID"
        " hostUsers hostname hostnameOverride imagePullSecrets os preemptionPolicy"
        " priorityClassName readinessGates restartPolicy runtimeClassName securityContext"
        " serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain"
        " terminationGracePeriodSeconds"
    ),
    refused=_names("resourceClaims schedulingGates schedulingGroup"),
    parts={
        "resources": RESOURCES,
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "volumes": [VOLUME],
        "tolerations": [TOLERATION],
        "affinity": AFFINITY,
        "topologySpreadConstraints": [TOPOLOGY_SPREAD],
    },
)

# Refused only if the claims are unknown.
CLAIM_FIELDS = frozenset(
    {
        "spec.resourceClaims",
        "spec.deviceClaims",
        "spec.containers.resources.claims",
        "spec.initContainers.resources.claims",
    }
)

# Refused only if the cluster's storage objects are unknown: claims, and disks that count against
# the limit of a driver.
VOLUME_FIELDS = frozenset(f"spec.volumes.{name}" for name in VOLUME.refused)

# Tenants decide these numbers, and the work of placing all pods grows with them. Each is many times
# what pods have in practice.
MAX_PER_POD: t.Mapping[str, int] = {
    "containers": 200,
    "host ports": 500,
    "labels of the node selector": 100,
    "listed namespaces of pod affinity": 1000,
    "overheads": 50,
    "preferred terms of node affinity": 50,
    "preferred terms of pod affinity": 50,
    "required terms of node affinity": 50,
    "required terms of pod affinity": 20,
    "required terms of pod anti-affinity": 20,
    "requirements of selectors": 200,
    "resources": 50,
    "tolerations": 100,
    "topology spread constraints": 20,
    "values of requirements": 5000,
    "volumes": 200,
}

_MATCH_KEYS = ("matchLabelKeys", "mismatchLabelKeys")
# Parts of MAX_PER_POD that are one list or mapping of the PodSpec.
_LISTS = {
    "labels of the node selector": "nodeSelector",
    "overheads": "overhead",
    "tolerations": "tolerations",
    "volumes": "volumes",
}

# Rules about groups of pods in metadata: gangs, and WAO's spreading.
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
# Claims of the k8srm prototype, which device_reconciliation serves.
DEVICE_CLAIMS_ANNOTATION = "wattwise.github.io/device-claims"
PODSPREAD_ANNOTATIONS = ("waok8s.github.io/podspread-rate", "wao.bitmedia.co.jp/podspread-rate")


def is_set(value: t.Any) -> bool:
    """Whether a field has a value; nested empty values count as none."""
    if isinstance(value, dict):
        return any(map(is_set, value.values()))
    return value not in (None, False, 0, "", [])


def excesses(pod: Object) -> tuple[str, ...]:
    """What a pod has more of than MAX_PER_POD, with both numbers; nothing for values of other types."""
    spec = _part(pod, "spec")
    containers = [*_mappings(spec.get("containers")), *_mappings(spec.get("initContainers"))]
    numbers = {
        "containers": len(containers),
        "host ports": sum(_host_ports(each, spec) for each in containers if each.get("ports")),
        "resources": _resources([*containers, spec]),
    }
    for what, name in _LISTS.items():
        if spec.get(name):
            numbers[what] = _length(spec[name])
    if spec.get("affinity") or spec.get("topologySpreadConstraints"):
        numbers.update(_numbers_of_rules(spec))
    beyond = sorted(what for what, number in numbers.items() if number > MAX_PER_POD[what])
    return tuple(
        f"too many {what} ({numbers[what]}; at most {MAX_PER_POD[what]})" for what in beyond
    )


def _host_ports(container: Object, spec: Object) -> int:
    ports = _mappings(container.get("ports"))
    return sum(bool(port.get("hostPort") or spec.get("hostNetwork")) for port in ports)


def _resources(holders: t.Iterable[Object]) -> int:
    """Number of different resources, or of all amounts if these are few."""
    amounts = [
        _part(holder["resources"], part)
        for holder in holders
        if isinstance(holder.get("resources"), dict)
        for part in ("requests", "limits")
    ]
    number = sum(map(len, amounts))
    return number if number <= MAX_PER_POD["resources"] else len(set().union(*amounts))


def _numbers_of_rules(spec: Object) -> dict[str, int]:
    """How much the pod has of the parts of MAX_PER_POD about nodes and other pods."""
    affinity = _part(spec, "affinity")
    node, near, away = (_part(affinity, f"{part}Affinity") for part in ("node", "pod", "podAnti"))
    preferred = [*_mappings(near.get(_PREFERRED)), *_mappings(away.get(_PREFERRED))]
    near_terms, away_terms = _mappings(near.get(_REQUIRED)), _mappings(away.get(_REQUIRED))
    terms = [*near_terms, *away_terms, *(_part(each, "podAffinityTerm") for each in preferred)]
    spreads = _mappings(spec.get("topologySpreadConstraints"))
    node_terms = _mappings(_part(node, _REQUIRED).get("nodeSelectorTerms"))
    preferred_nodes = _mappings(node.get(_PREFERRED))
    selecting = [*terms, *spreads]
    selectors = [
        *(
            _part(each, part)
            for each in selecting
            for part in ("labelSelector", "namespaceSelector")
        ),
        *node_terms,
        *(_part(each, "preference") for each in preferred_nodes),
    ]
    keys = [_length(each.get(part)) for each in selecting for part in _MATCH_KEYS]
    values = [number for selector in selectors for number in _values(selector)]
    labels = sum(len(_part(selector, "matchLabels")) for selector in selectors)
    return {
        "listed namespaces of pod affinity": sum(_length(each.get("namespaces")) for each in terms),
        "preferred terms of node affinity": len(preferred_nodes),
        "preferred terms of pod affinity": len(preferred),
        "required terms of node affinity": len(node_terms),
        "required terms of pod affinity": len(near_terms),
        "required terms of pod anti-affinity": len(away_terms),
        "requirements of selectors": len(values) + labels + sum(keys),
        "topology spread constraints": len(spreads),
        "values of requirements": sum(values),
    }


def _values(selector: Object) -> t.Iterator[int]:
    """The number of values of each requirement."""
    for part in ("matchExpressions", "matchFields"):
        for requirement in _mappings(selector.get(part)):
            yield _length(requirement.get("values"))


def _part(holder: Object, name: str) -> Object:
    """A mapping within another; an empty one if it is none."""
    given = holder.get(name)
    return given if isinstance(given, dict) else {}


def _length(items: t.Any) -> int:
    return len(items) if isinstance(items, (list, tuple, dict)) else 0


def unsupported_fields(pod: Object) -> tuple[str, ...]:
    """Dotted paths of all unsupported fields of the pod, each once."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    found = [DEVICE_CLAIMS_ANNOTATION] if annotations.get(DEVICE_CLAIMS_ANNOTATION) else []
    return tuple(dict.fromkeys([*found, *POD.unsupported(pod.get("spec") or {}, "spec")]))


def _mappings(items: t.Any) -> list[Object]:
    given = items if isinstance(items, (list, tuple)) else ()
    return [item for item in given if isinstance(item, dict)]
