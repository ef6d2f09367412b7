# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The verdict on each Node for one KeplerSystem: its pool, its meter, or the reason without one."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t
from dataclasses import dataclass

from ...base.boundary import Finding, guarded, shown_text, subject_of
from ...base.json_types import Object
from ..facts import NodeFacts
from ..labels import METER_LABEL, REASONS_ANNOTATION, SUPPORTED_LABEL
from ..node_objects import facts_in_annotation, facts_of_node
from ..verdict import METERS, Verdict, judge
from .system import Collector, Pool, System

ARCHITECTURE_LABEL = "kubernetes.io/arch"
# Architectures of upstream's images; those of 0.9 and earlier were built for s390x too.
_PUBLISHED = ("amd64", "arm64")
_OLD_PUBLISHED = (*_PUBLISHED, "s390x")
_ARCHITECTURE = re.compile(r"[a-z0-9]{1,16}")
_MAX_REASON_LENGTH = 300
# Kepler leaves out the number of a package, but keeps those of a package and its die.
_NUMBERED = re.compile(r"^([^-]+)-[0-9]+$")


@dataclass(frozen=True)
class JudgedNode:
    """A node that the system selects; ``reason`` is set if it is left out.

    ``remark`` is a setting without effect on it.
    """

    name: str
    labels: t.Mapping[str, str]
    architecture: str = ""
    meter: str = ""
    pool: str = ""
    reason: str = ""
    remark: str = ""


def judge_all(system: System, nodes: t.Iterable[t.Any]) -> tuple[list[JudgedNode], list[Finding]]:
    """The verdicts on all nodes that the system selects, by name, and invalid Nodes."""
    judged: list[JudgedNode] = []
    findings: list[Finding] = []
    for node in nodes:
        subject = subject_of(node, "Node")
        found = guarded(subject, functools.partial(_judge, system, node))
        if isinstance(found, Finding):
            findings.append(found)
        elif found is not None:
            judged.append(found)
    return sorted(judged, key=lambda one: one.name), findings


def _judge(system: System, node: t.Any) -> JudgedNode | None:
    """The verdict; None for a node that the system does not select. Raises InvalidField."""
    told = facts_of_node(node)
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    if not system.node_selector.items() <= labels.items():
        return None
    # The scheduler uses this label of the kubelet.
    architecture = labels.get(ARCHITECTURE_LABEL) or told.architecture
    found = JudgedNode(metadata["name"], labels, architecture)
    pools = [pool for pool in system.pools if pool.selects(labels)]
    if len(pools) > 1:
        names = " and ".join(pool.name for pool in pools)
        reason = f"the pools {names} all select the node; give it labels of one"
        return dataclasses.replace(found, reason=reason)
    pool = pools[0] if pools else Pool("", {}, system.rest)
    found = dataclasses.replace(found, pool=pool.name)
    verdict = _verdict(system, pool.collector, found, node, told)
    if verdict.supported:
        found = dataclasses.replace(found, meter=verdict.meter)
        return _with_zones(found, pool.collector, node)
    text = shown_text("; ".join(verdict.reasons), _MAX_REASON_LENGTH)
    return dataclasses.replace(found, reason=text)


def _with_zones(found: JudgedNode, collector: Collector, node: Object) -> JudgedNode:
    """The node with its lack of zones that the configuration names, as far as a probe told them."""
    wanted = collector.additional.get("rapl.zones") or []
    if not wanted or found.meter != "rapl":
        return found
    facts = guarded(subject_of(node, "Node"), functools.partial(facts_in_annotation, node))
    if not isinstance(facts, NodeFacts) or facts.rapl_zones is None:
        return found
    names = sorted({_NUMBERED.sub(r"\1", zone.name).lower() for zone in facts.rapl_zones})
    lacking = [zone for zone in wanted if zone not in names]
    told = f"rapl.zones names {', '.join(lacking)}, but the node has only {', '.join(names)}"
    if len(lacking) == len(wanted):
        # Kepler exits without a zone.
        return dataclasses.replace(found, meter="", reason=shown_text(told, _MAX_REASON_LENGTH))
    remark = shown_text(told, _MAX_REASON_LENGTH) if lacking else ""
    return dataclasses.replace(found, remark=remark)


def _architecture_problem(system: System, architecture: str) -> str:
    """Why there is no image for the kubelet's architecture; empty if there is one."""
    known = _OLD_PUBLISHED if system.version.uses_ebpf else _PUBLISHED
    if architecture in known or architecture in system.images:
        return ""
    if not _ARCHITECTURE.fullmatch(architecture):
        return f"its architecture {shown_text(architecture, 40)} is none that an image can have"
    return (
        f"Kepler {system.version} is published only for {', '.join(known)}; name an image for "
        f"{architecture} in image.byArchitecture"
    )


def _verdict(
    system: System, collector: Collector, found: JudgedNode, node: Object, told: NodeFacts
) -> Verdict:
    """The verdict of the labels, which covers BMCs and probes over SSH, else the verdict of facts.

    A requested meter that the labels do not name is looked up in the facts of a probe, because
    labels name only one.
    """
    problem = _architecture_problem(system, found.architecture)
    if problem:
        return Verdict.no(problem)
    labelled, forced = _labelled(system, found, node["metadata"]), collector.meter
    if labelled is not None and (
        forced == "auto" or (labelled.supported and labelled.meter == forced)
    ):
        return labelled
    facts = guarded(subject_of(node, "Node"), functools.partial(facts_in_annotation, node))
    if isinstance(facts, Finding):
        return Verdict.no(f"{facts.field}: {facts.problem}")
    if forced != "auto" and facts is not None and facts.source == "host":
        return _forced(system, forced, facts)
    verdict = labelled or judge(facts or told, system.version, None, system.fake_cpu_meter)
    if forced != "auto" and verdict.supported and verdict.meter != forced:
        why = f"the meter {forced} is requested, but only {verdict.meter} is known"
        return Verdict.no(f"{why}; probe the host")
    return verdict


def _forced(system: System, forced: str, facts: NodeFacts) -> Verdict:
    none: dict[str, t.Any] = {"rapl_zones": ()} if forced == "hwmon" else {"hwmon_sensors": ()}
    verdict = judge(dataclasses.replace(facts, **none), system.version)
    if verdict.supported and verdict.meter == forced:
        return verdict
    return Verdict.no(f"the meter {forced} is requested, but the probe found no readable one")


def _labelled(system: System, node: JudgedNode, metadata: Object) -> Verdict | None:
    """The verdict in the labels of the probe; None for a node without them."""
    meter, supported = (node.labels.get(label) for label in (METER_LABEL, SUPPORTED_LABEL))
    if meter is None or supported is None:
        return None
    labelled = next((each for each in METERS if each == meter), None)
    if labelled is None or supported not in ("true", "false"):
        told = (
            f"{METER_LABEL}={shown_text(meter, 40)}, {SUPPORTED_LABEL}={shown_text(supported, 40)}"
        )
        return Verdict.no(f"the labels {told} do not come from the probe; remove them")
    reasons = (metadata.get("annotations") or {}).get(REASONS_ANNOTATION) or "its labels say so"
    if supported == "false":
        return Verdict.no(reasons)
    if not _suits(system, meter):
        why = f"its labels name the meter {meter}, which Kepler {system.version} does not have"
        return Verdict.no(f"{why}; label the nodes for this version")
    return Verdict(True, labelled, (reasons,))


def _suits(system: System, meter: str) -> bool:
    """Whether this version, with its configuration, starts with the meter."""
    version = system.version
    if meter == "rapl" or version.uses_ebpf:
        return meter != "none"
    return (meter == "hwmon" and version.reads_hwmon) or (
        meter == "redfish" and system.fake_cpu_meter
    )
