# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the tables of docs/reference/pod-fields.md from the allow-list of pod fields.

The allow-list alone decides whether a field is honoured, without effect or refused. This file
explains each field and fails on a field without an explanation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_fields
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_fields import Fields

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "pod-fields.md"
BEGIN, END = "<!-- written by scripts/write_pod_fields.py: {} -->", "<!-- end: {} -->"

HONOURED, NO_EFFECT, REFUSED = "honoured", "no effect on the node", "refused"
# Refused only if no other component handles them.
CONDITIONAL = {
    "resourceClaims": ("honoured with `devices_reconcile`", "else "),
    "schedulingGates": (
        "waits for its gates",
        "no run takes a pod with a gate; the `devices` role opens its own, and then the pod waits "
        "for a node. Elsewhere ",
    ),
}

# Explanations of the fields of the PodSpec.
POD = {
    "activeDeadlineSeconds": "",
    "affinity": "required terms are rules, preferred terms are weighed against power",
    "automountServiceAccountToken": "",
    "containers": "requests of CPU, memory and extended resources, and host ports",
    "dnsConfig": "",
    "dnsPolicy": "",
    "enableServiceLinks": "",
    "ephemeralContainers": "they request no resources",
    "evictionResponders": "",
    "hostAliases": "",
    "hostIPC": "",
    "hostNetwork": "ports of containers are ports of the node",
    "hostPID": "",
    "hostUsers": "",
    "hostname": "",
    "hostnameOverride": "",
    "imagePullSecrets": "",
    "initContainers": "requests; the requests of sidecars count as long as the pod runs",
    "nodeName": "the pod runs there and is load of the node",
    "nodeSelector": "",
    "os": "kube-scheduler does not look at it",
    "overhead": "",
    "preemptionPolicy": "no pod is ever preempted",
    "priority": "pods of a higher priority get room first; no pod is preempted",
    "priorityClassName": "its number is in `priority`",
    "readinessGates": "",
    "resourceClaims": "",
    "resources": "requests of the whole pod",
    "restartPolicy": "",
    "runtimeClassName": "admission merges overhead, node selector and tolerations into the pod",
    "schedulerName": "`placement_scheduler_name` selects the pods that are placed",
    "schedulingGates": "",
    "schedulingGroup": "",
    "securityContext": "",
    "serviceAccount": "",
    "serviceAccountName": "",
    "setHostnameAsFQDN": "",
    "shareProcessNamespace": "",
    "subdomain": "",
    "terminationGracePeriodSeconds": "",
    "tolerations": "",
    "topologySpreadConstraints": "`DoNotSchedule` is a rule, `ScheduleAnyway` is weighed",
    "volumes": "as the next table says",
}
# The nested types, by the path under which messages name their fields.
NESTED = {
    "spec.containers, spec.initContainers": pod_fields.CONTAINER,
    "spec.containers.resources": pod_fields.RESOURCES,
    "spec.containers.ports": pod_fields.PORT,
    "spec.containers.restartPolicyRules": pod_fields.RESTART_RULE,
    "spec.volumes": pod_fields.VOLUME,
    "spec.affinity": pod_fields.AFFINITY,
    "spec.affinity.nodeAffinity": pod_fields.NODE_AFFINITY,
    "spec.affinity.podAffinity, spec.affinity.podAntiAffinity": pod_fields.POD_AFFINITY,
    "terms of pod affinity": pod_fields.POD_AFFINITY_TERM,
    "preferred terms of pod affinity": pod_fields.WEIGHTED_POD_AFFINITY_TERM,
    "preferred terms of node affinity": pod_fields.PREFERRED_SCHEDULING_TERM,
    "terms of node selectors": pod_fields.NODE_SELECTOR_TERM,
    "requirements of node selectors": pod_fields.NODE_SELECTOR_REQUIREMENT,
    "spec.tolerations": pod_fields.TOLERATION,
    "spec.topologySpreadConstraints": pod_fields.TOPOLOGY_SPREAD,
}
WEIGHED = {"affinity", "topologySpreadConstraints"}


def outcome_of(fields: Fields, name: str) -> str:
    """Outcome of a field, according to the allow-list."""
    if name in fields.read:
        return HONOURED
    return NO_EFFECT if name in fields.harmless else REFUSED


def pod_table() -> Iterator[str]:
    """A row for each field of the PodSpec. Raises KeyError for a field without explanation."""
    yield "| field | outcome | |"
    yield "| --- | --- | --- |"
    fields = pod_fields.POD
    for name in sorted(fields.read | fields.harmless | fields.refused):
        outcome, told = outcome_of(fields, name), POD[name]
        if name in WEIGHED:
            outcome = "honoured and weighed"
        if outcome == REFUSED:
            outcome, before = CONDITIONAL.get(name, (REFUSED, ""))
            told = f"{before}`unsupported: spec.{name}`"
        yield f"| `{name}` | {outcome} | {told} |"


def nested_table() -> Iterator[str]:
    """A row for each type of the PodSpec with the names of its fields."""
    yield f"| fields of | {HONOURED} | {NO_EFFECT} | {REFUSED} |"
    yield "| --- | --- | --- | --- |"
    for place, fields in NESTED.items():
        # Volumes that depend on storage objects; without these objects the pod is refused.
        read = set(fields.read)
        refused = set(fields.refused)
        if fields is pod_fields.VOLUME:
            known = {path.rpartition(".")[2] for path in pod_fields.VOLUME_FIELDS}
            read, refused = read | known, refused - known
        if fields is pod_fields.RESOURCES:
            read, refused = read | {"claims"}, refused - {"claims"}
        yield f"| {place} | {_named(read)} | {_named(fields.harmless)} | {_named(refused)} |"


def limits_table() -> Iterator[str]:
    """A row for each limit on the size of a pod."""
    yield "| part of a pod | at most |"
    yield "| --- | --- |"
    for what, most in sorted(pod_fields.MAX_PER_POD.items()):
        yield f"| {what} | {most:,} |"


def _named(names: set[str] | frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def rendered(text: str) -> str:
    """The page with up-to-date tables."""
    for name, rows in (
        ("pod", pod_table()),
        ("nested", nested_table()),
        ("limits", limits_table()),
    ):
        begin, end = BEGIN.format(name), END.format(name)
        before, _begin, rest = text.partition(begin)
        _old, _end, after = rest.partition(end)
        table = "\n".join(rows)
        text = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
