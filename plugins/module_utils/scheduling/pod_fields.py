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
from dataclasses import dataclass

from ..base.json_types import Object


@dataclass(frozen=True)
class Fields:
    """Field names of one type: those that are read, the harmless and the refused ones."""

    read: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def not_understood(self, given: Object, path: str) -> t.Iterator[str]:
        """Dotted paths of the fields that are set and neither read nor harmless."""
        for name in sorted(given.keys() - self.read - self.harmless):
            if is_set(given[name]):
                yield f"{path}.{name}"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
)
CONTAINER = Fields(
    read=_names("ports resources restartPolicy restartPolicyRules"),
    harmless=_names(
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe name"
        " readinessProbe resizePolicy securityContext startupProbe stdin stdinOnce"
        " terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts"
        " workingDir"
    ),
)
RESTART_RULE = Fields(read=_names("action"), harmless=_names("exitCodes"))
# RestartAllContainers needs a node that declares the feature in its status.
_RESTART_ACTIONS = (None, "", "Restart")
PORT = Fields(read=_names("containerPort hostIP hostPort protocol"), harmless=_names("name"))
RESOURCES = Fields(read=_names("limits requests"), refused=_names("claims"))
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
AFFINITY = Fields(read=_names("nodeAffinity podAffinity podAntiAffinity"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_AFFINITY = Fields(read=_names(f"{_REQUIRED} {_PREFERRED}"))
POD_AFFINITY = NODE_AFFINITY
POD_AFFINITY_TERM = Fields(
    read=_names(
        "labelSelector matchLabelKeys mismatchLabelKeys namespaceSelector namespaces topologyKey"
    )
)
WEIGHTED_POD_AFFINITY_TERM = Fields(read=_names("podAffinityTerm weight"))
PREFERRED_SCHEDULING_TERM = Fields(read=_names("preference weight"))
TOPOLOGY_SPREAD = Fields(
    read=_names(
        "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy"
        " topologyKey whenUnsatisfiable"
    )
)
TOLERATION = Fields(read=_names("effect key operator value"), harmless=_names("tolerationSeconds"))
NODE_SELECTOR_TERM = Fields(read=_names("matchExpressions matchFields"))
NODE_SELECTOR_REQUIREMENT = Fields(read=_names("key operator values"))

TOLERATION_OPERATORS = ("Equal", "Exists")
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
_SPREAD_CHOICES = {
    "whenUnsatisfiable": (None, "", "DoNotSchedule", "ScheduleAnyway"),
    "nodeAffinityPolicy": (None, "", "Honor", "Ignore"),
    "nodeTaintsPolicy": (None, "", "Honor", "Ignore"),
}

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
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    found = [
        *(name for name in (DEVICE_CLAIMS_ANNOTATION,) if annotations.get(name)),
        *POD.not_understood(spec, "spec"),
        *_container_fields(spec),
        *_each(VOLUME, spec.get("volumes"), "spec.volumes"),
        *_toleration_fields(spec),
        *(_affinity_fields(spec["affinity"]) if spec.get("affinity") else ()),
        *_spread_fields(spec.get("topologySpreadConstraints")),
    ]
    return tuple(dict.fromkeys(found))


def _each(fields: Fields, items: t.Any, path: str) -> t.Iterator[str]:
    for item in items or ():
        if isinstance(item, dict):
            yield from fields.not_understood(item, path)
        else:
            yield path


def _container_fields(spec: Object) -> t.Iterator[str]:
    yield from RESOURCES.not_understood(spec.get("resources") or {}, "spec.resources")
    for part in ("containers", "initContainers"):
        path = f"spec.{part}"
        for container in spec.get(part) or ():
            yield from CONTAINER.not_understood(container, path)
            yield from RESOURCES.not_understood(
                container.get("resources") or {}, f"{path}.resources"
            )
            yield from _each(PORT, container.get("ports"), f"{path}.ports")
            yield from _restart_rule_fields(container, f"{path}.restartPolicyRules")


def _restart_rule_fields(container: Object, path: str) -> t.Iterator[str]:
    rules = container.get("restartPolicyRules")
    yield from _each(RESTART_RULE, rules, path)
    if any(rule.get("action") not in _RESTART_ACTIONS for rule in _mappings(rules)):
        yield f"{path}.action"


def _toleration_fields(spec: Object) -> t.Iterator[str]:
    yield from _each(TOLERATION, spec.get("tolerations"), "spec.tolerations")
    for toleration in spec.get("tolerations") or ():
        if (toleration.get("operator") or "Equal") not in TOLERATION_OPERATORS:
            yield "spec.tolerations.operator"


def _affinity_fields(affinity: Object) -> t.Iterator[str]:
    path = "spec.affinity"
    yield from AFFINITY.not_understood(affinity, path)
    yield from _node_affinity_fields(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for part in ("podAffinity", "podAntiAffinity"):
        given = affinity.get(part) or {}
        yield from POD_AFFINITY.not_understood(given, f"{path}.{part}")
        terms_path = f"{path}.{part}.{_REQUIRED}"
        yield from _each(POD_AFFINITY_TERM, given.get(_REQUIRED), terms_path)
        preferred_path = f"{path}.{part}.{_PREFERRED}"
        yield from _each(WEIGHTED_POD_AFFINITY_TERM, given.get(_PREFERRED), preferred_path)
        terms = [
            preferred.get("podAffinityTerm") or {} for preferred in _mappings(given.get(_PREFERRED))
        ]
        yield from _each(POD_AFFINITY_TERM, terms, f"{preferred_path}.podAffinityTerm")


def _node_affinity_fields(node_affinity: Object, path: str) -> t.Iterator[str]:
    yield from NODE_AFFINITY.not_understood(node_affinity, path)
    required = node_affinity.get(_REQUIRED) or {}
    required_path = f"{path}.{_REQUIRED}"
    yield from Fields(read=_names("nodeSelectorTerms")).not_understood(required, required_path)
    for term in required.get("nodeSelectorTerms") or ():
        yield from _node_term_fields(term, f"{required_path}.nodeSelectorTerms")
    preferred_path = f"{path}.{_PREFERRED}"
    yield from _each(PREFERRED_SCHEDULING_TERM, node_affinity.get(_PREFERRED), preferred_path)
    for preferred in _mappings(node_affinity.get(_PREFERRED)):
        yield from _node_term_fields(
            preferred.get("preference") or {}, f"{preferred_path}.preference"
        )


def _node_term_fields(term: Object, path: str) -> t.Iterator[str]:
    yield from NODE_SELECTOR_TERM.not_understood(term, path)
    yield from _requirement_fields(term, "matchExpressions", LABEL_OPERATORS, path)
    yield from _requirement_fields(term, "matchFields", FIELD_OPERATORS, path)
    for requirement in term.get("matchFields") or ():
        if requirement.get("key") != "metadata.name":
            yield f"{path}.matchFields.key"


def _spread_fields(constraints: t.Any) -> t.Iterator[str]:
    path = "spec.topologySpreadConstraints"
    yield from _each(TOPOLOGY_SPREAD, constraints, path)
    for constraint in _mappings(constraints):
        for field, choices in _SPREAD_CHOICES.items():
            if constraint.get(field) not in choices:
                yield f"{path}.{field}"


def _mappings(items: t.Any) -> list[Object]:
    given = items if isinstance(items, (list, tuple)) else ()
    return [item for item in given if isinstance(item, dict)]


def _requirement_fields(
    term: Object, part: str, operators: t.Collection[str], path: str
) -> t.Iterator[str]:
    yield from _each(NODE_SELECTOR_REQUIREMENT, term.get(part), f"{path}.{part}")
    for requirement in term.get(part) or ():
        if requirement.get("operator") not in operators:
            yield f"{path}.{part}.operator"
