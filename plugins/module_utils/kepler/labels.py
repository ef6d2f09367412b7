# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Labels of many nodes with their verdicts, under a separate field manager."""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass

from ..base.argspec import KUBERNETES, ArgumentSpec
from ..base.boundary import (
    Finding,
    InvalidField,
    Subject,
    guarded,
    read_each,
    shown,
    shown_text,
    subject_of,
    warn_of,
)
from ..base.context import Context, Parameters, Result, difference
from ..base.fields.lenient import member
from ..base.json_types import MutableObject, Object
from ..base.manifests import Manifest, identity, same_object
from ..kube.apply import work as applying
from ..kube.apply.live import LiveObjects
from ..kube.client import Kube
from ..nodeconfig import nodeconfig
from ..nodeconfig.bare_metal import Machines
from .facts import UNKNOWN, NodeFacts
from .node.probe import DEFAULT_VERSION
from .node_objects import (
    BARE_METAL_HOST,
    PROBE_ANNOTATION,
    bmcs_of,
    bmcs_of_node_configs,
    facts_in_annotation,
    facts_of_node,
)
from .verdict import Bmc, KeplerVersion, Verdict, judge

SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "node_names": {"type": "list", "elements": "str"},
            "probes": {"type": "dict", "default": {}},
            "kepler_version": {"type": "str", "default": DEFAULT_VERSION},
            "fake_cpu_meter": {"type": "bool", "default": False},
            "force_conflicts": {"type": "bool", "default": False},
            "concurrency": {"type": "int", "default": 16},
        }
    )
)
FIELD_MANAGER = "wattwise-kepler-nodes"
PROBE_FIELD_MANAGER = "wattwise-kepler-probe"

SUPPORTED_LABEL = "wattwise.github.io/kepler-supported"
METER_LABEL = "wattwise.github.io/kepler-meter"
MICROARCHITECTURE_LABEL = "wattwise.github.io/kepler-microarchitecture"
REASONS_ANNOTATION = "wattwise.github.io/kepler-reasons"
_LABELS = (SUPPORTED_LABEL, METER_LABEL, MICROARCHITECTURE_LABEL)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAX_REASONS_LENGTH = 1000
_NODES = "/api/v1/nodes"


@dataclass(frozen=True)
class Judged:
    """The verdict on one node, and its facts."""

    name: str
    facts: NodeFacts
    verdict: Verdict
    bmc: t.Optional[Bmc]

    def as_dict(self) -> dict[str, t.Any]:
        """The entry in ``nodes``."""
        bmc = "" if self.bmc is None else self.bmc.source
        return {"name": self.name, **self.verdict.as_dict(), "bmc": bmc, **self.facts.as_dict()}

    def manifest(self, node: MutableObject) -> Manifest:
        """The labels and the annotation of exactly this Node."""
        labels = {
            SUPPORTED_LABEL: "true" if self.verdict.supported else "false",
            METER_LABEL: self.verdict.meter,
        }
        name = self.facts.microarchitecture
        if name != UNKNOWN and _LABEL_VALUE.fullmatch(name):
            labels[MICROARCHITECTURE_LABEL] = name
        reasons = shown_text("; ".join(self.verdict.reasons), _MAX_REASONS_LENGTH)
        metadata = {"labels": labels, "annotations": {REASONS_ANNOTATION: reasons}}
        return _manifest(node, **metadata)


@dataclass(frozen=True)
class Evidence:
    """Evidence of verdicts in addition to the Node: results of probes by node, and BMCs."""

    version: KeplerVersion
    fake_cpu_meter: bool
    probes: Object
    configured: t.Mapping[str, Bmc]
    hosts: Machines[Bmc]

    def judge(self, node: t.Any) -> tuple[Judged, list[Finding]]:
        """The verdict on a node. Unreadable facts leave it unsupported.

        Raises InvalidField for an unreadable Node.
        """
        told = facts_of_node(node)
        subject = subject_of(node, "Node")
        bmc = self.configured.get(subject.name) or self.hosts.of_node(node)
        facts = guarded(subject, functools.partial(self._facts, node, subject.name, told))
        if isinstance(facts, Finding):
            reason = f"{facts.field}: {facts.problem}"
            verdict = Verdict.no(f"the facts of the probe are refused: {reason}")
            return Judged(subject.name, told, verdict, bmc), [facts]
        verdict = judge(facts, self.version, bmc, self.fake_cpu_meter)
        return Judged(subject.name, facts, verdict, bmc), []

    def _facts(self, node: t.Any, name: str, told: NodeFacts) -> NodeFacts:
        probe = self.probes.get(name)
        # A failed or unreachable host has no facts.
        if probe is not None and not (member(probe, "failed") or member(probe, "unreachable")):
            try:
                return NodeFacts.from_dict(probe)
            except InvalidField as error:
                raise InvalidField(f"probes[{name}].{error.field}", error.problem) from error
        return facts_in_annotation(node) or told


def label_nodes(parameters: Parameters, context: Context = Context()) -> Result:
    """Judge every node and write the verdict to it; with ``state: absent`` remove all.

    An unreadable or unwritable node is in ``findings`` or ``errors``, and stops no other. Raises
    WattwiseError if the API server fails for all.
    """
    options = SPEC.complete(parameters)
    version = KeplerVersion.parse(options["kepler_version"])
    kube = Kube.connect(options)
    nodes = kube.list(_NODES, trim=_trimmed)
    missing = _missing("probes", options["probes"], nodes)
    if options["node_names"] is not None:
        missing += _missing("node_names", options["node_names"], nodes)
        wanted = frozenset(options["node_names"])
        nodes = [node for node in nodes if member(node, "metadata", "name") in wanted]
    if options["state"] == "absent":
        return _taken_back(kube, nodes, options, context)
    configured, hosts, findings = _bmcs(kube)
    grounds = Evidence(
        version, options["fake_cpu_meter"], options["probes"], configured, bmcs_of(hosts)
    )
    findings += missing
    judged: list[tuple[Judged, MutableObject]] = []
    for node, (verdict, refused) in read_each(nodes, "Node", grounds.judge, findings, "nodes"):
        judged.append((verdict, node))
        findings += refused
    warn_of(findings, context)
    written = [entry.manifest(node) for entry, node in judged]
    result = _applied(kube, nodes, {FIELD_MANAGER: written}, options, context)
    verdicts = [entry for entry, _node in judged]
    return {**result, **_told(verdicts), "findings": [finding.as_dict() for finding in findings]}


def _told(judged: t.Sequence[Judged]) -> Result:
    """Verdicts of all nodes, and the names of nodes by architecture and meter."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in judged:
        if entry.verdict.supported:
            key = (entry.facts.architecture, entry.verdict.meter)
            groups.setdefault(key, []).append(entry.name)
    return {
        "nodes": [entry.as_dict() for entry in judged],
        "groups": [
            {"architecture": architecture, "meter": meter, "nodes": names}
            for (architecture, meter), names in sorted(groups.items())
        ],
        "unsupported": [
            {"name": entry.name, "reasons": list(entry.verdict.reasons)}
            for entry in judged
            if not entry.verdict.supported
        ],
    }


def _missing(
    option: str, names: t.Iterable[str], nodes: t.Sequence[MutableObject]
) -> list[Finding]:
    present = {member(node, "metadata", "name") for node in nodes}
    problem = f"there is no such Node; correct {option}"
    return [
        Finding(Subject("Node", shown_text(str(name))), "", problem)
        for name in dict.fromkeys(names)
        if name not in present
    ]


def _bmcs(kube: Kube) -> tuple[dict[str, Bmc], list[MutableObject], list[Finding]]:
    """BMCs of NodeConfigs by node, BareMetalHosts, and findings about NodeConfigs."""
    configs: list[MutableObject] = []
    for version in nodeconfig.API_VERSIONS:
        if kube.serves(version, "NodeConfig"):
            configs += kube.list(kube.resource(version, "NodeConfig").collection())
    effective = nodeconfig.effective(configs)
    hosts: list[MutableObject] = []
    if kube.serves(*BARE_METAL_HOST):
        hosts = kube.list(kube.resource(*BARE_METAL_HOST).collection())
    return bmcs_of_node_configs(effective.by_node), hosts, list(effective.findings)


def _taken_back(
    kube: Kube, nodes: t.Sequence[MutableObject], options: Parameters, context: Context
) -> Result:
    """An empty application by both managers, on which the API server removes their fields."""
    written = {
        manager: [_manifest(node) for node in nodes if _is_manager(node, manager)]
        for manager in (FIELD_MANAGER, PROBE_FIELD_MANAGER)
    }
    result = _applied(kube, nodes, written, options, context)
    return {**result, "nodes": [], "groups": [], "unsupported": [], "findings": []}


def _is_manager(node: MutableObject, manager: str) -> bool:
    records = member(node, "metadata", "managedFields") or []
    return any(
        member(entry, "manager") == manager and member(entry, "operation") == "Apply"
        for entry in records
    )


def _applied(
    kube: Kube,
    nodes: t.Sequence[MutableObject],
    written: t.Mapping[str, list[Manifest]],
    options: Parameters,
    context: Context,
) -> Result:
    """Apply each manager's manifests; the diff has our labels and annotations."""
    known = {identity(node): node for node in nodes if member(node, "metadata", "name")}
    changes: list[tuple[str, t.Any, t.Any]] = []
    errors: list[dict[str, str]] = []
    changed = False
    for manager, manifests in written.items():
        how = applying.SPEC.complete(
            {
                "manifests": [],
                "field_manager": manager,
                "force_conflicts": options["force_conflicts"],
                "concurrency": options["concurrency"],
                "on_error": "report",
            }
        )
        result = applying.apply_manifests(kube, manifests, how, context, LiveObjects(known))
        changed = changed or result["changed"]
        by_name = {manifest["metadata"]["name"]: manifest for manifest in manifests}
        for entry in result["results"]:
            if entry["action"] == "failed":
                errors.append({"name": entry["name"], "detail": entry["error"]})
            elif entry["action"] != "unchanged":
                manifest = by_name[entry["name"]]
                before, metadata = known[identity(manifest)], manifest["metadata"]
                after = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
                changes.append((f"{entry['name']} ({manager})", _ours(before, manager), after))
    diff = difference("Labels and annotations of Nodes", changes)
    return {"changed": changed, "diff": diff, "errors": errors}


def _ours(node: MutableObject, manager: str) -> dict[str, str]:
    """Values of our labels and annotations, the facts of a probe as a word."""
    labels, annotations = (
        member(node, "metadata", part) or {} for part in ("labels", "annotations")
    )
    if manager == PROBE_FIELD_MANAGER:
        return {PROBE_ANNOTATION: shown(annotations.get(PROBE_ANNOTATION, ""))}
    return {
        **{name: labels[name] for name in _LABELS if name in labels},
        **{name: annotations[name] for name in (REASONS_ANNOTATION,) if name in annotations},
    }


def _manifest(node: MutableObject, **metadata: t.Any) -> Manifest:
    """Exactly this Node, because an application without its UID would recreate a deleted Node."""
    identified = {**same_object(node["metadata"]), **metadata}
    return {"apiVersion": "v1", "kind": "Node", "metadata": identified}


def _trimmed(node: MutableObject) -> MutableObject:
    """The Node without its status, except the kubelet's facts of its machine."""
    return {**node, "status": {"nodeInfo": member(node, "status", "nodeInfo")}}
