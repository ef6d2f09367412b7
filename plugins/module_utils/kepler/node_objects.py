# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Facts and BMCs of nodes from objects of the cluster, without access to the hosts.

Sources: Node Feature Discovery, docs/usage/features.md; provider IDs of the cloud controllers.
"""

from __future__ import annotations

import typing as t

from ..base import strict_json
from ..base.boundary import InvalidField, shown
from ..base.fields.lenient import member, text, whole
from ..base.fields.strict import mapping, with_readable_metadata
from ..base.json_types import Object
from ..nodeconfig import nodeconfig
from ..nodeconfig.bare_metal import Machines, redfish_endpoint
from .facts import BARE_METAL, MAX_TEXT_LENGTH, UNKNOWN, NodeFacts
from .node.processor import x86_microarchitecture
from .node.virtualization import OTHER
from .verdict import Bmc

PROBE_ANNOTATION = "wattwise.github.io/kepler-probe"
MAX_ANNOTATION_LENGTH = 65_536  # the admission policy of the probe has this limit too
_LIMITS = strict_json.JsonLimits(size=MAX_ANNOTATION_LENGTH, members=4096, depth=4)

BARE_METAL_HOST = ("metal3.io/v1alpha1", "BareMetalHost")

_FEATURE = "feature.node.kubernetes.io/"
_CLOUDS = {
    "aws": "amazon",
    "gce": "google",
    "azure": "microsoft",
    "vsphere": "vmware",
    "openstack": "kvm",
    "hcloud": "kvm",
    "digitalocean": "kvm",
    "kubevirt": "kvm",
}


def facts_of_node(node: t.Any) -> NodeFacts:
    """Facts from a Node object. Raises InvalidField."""
    labels = with_readable_metadata(node)["metadata"].get("labels") or {}
    info = mapping(mapping(node.get("status"), "status").get("nodeInfo"), "status.nodeInfo")
    vendor, family, model = (
        labels.get(f"{_FEATURE}cpu-model.{name}", "") for name in ("vendor_id", "family", "id")
    )
    return NodeFacts(
        source="node",
        architecture=_told(info, "architecture"),
        operating_system=_told(info, "operatingSystem"),
        kernel=_told(info, "kernelVersion"),
        microarchitecture=x86_microarchitecture(vendor, whole(family), whole(model)),
        virtualization=_virtualization(node, labels),
    )


def facts_in_annotation(node: t.Any) -> NodeFacts | None:
    """Facts that the probe's pod wrote to its Node; None if it wrote none. Raises InvalidField.

    A pod on the node wrote them, so they are as trustworthy as the node.
    """
    given = member(node, "metadata", "annotations", PROBE_ANNOTATION)
    if given is None:
        return None
    path = f"metadata.annotations[{PROBE_ANNOTATION}]"
    if not isinstance(given, str):
        raise InvalidField(path, f"{shown(given)} is not a text")
    try:
        facts = NodeFacts.from_dict(strict_json.parse(given.encode("utf-8", "replace"), _LIMITS))
    except InvalidField as error:
        raise InvalidField(path, f"{error.field}: {error.problem}") from error
    except ValueError as error:
        raise InvalidField(path, f"it holds no facts of a probe: {error}") from error
    architecture = facts_of_node(node).architecture
    if UNKNOWN not in (architecture, facts.architecture) and facts.architecture != architecture:
        problem = f"it says {facts.architecture}, and the kubelet says {architecture}"
        raise InvalidField(path, problem)
    return facts


def bmcs_of_node_configs(by_node: t.Mapping[str, Object]) -> dict[str, Bmc]:
    """The BMC of each node whose effective NodeConfig names a Redfish service."""
    places = [nodeconfig.TERMS[kind].path for kind in _REDFISH_TERMS]
    return {
        name: Bmc(f"NodeConfig {nodeconfig.qualified_name(config)}")
        for name, config in by_node.items()
        if any(member(config, "spec", *place, "type") == "Redfish" for place in places)
    }


_REDFISH_TERMS: tuple[nodeconfig.EndpointKind, ...] = (
    "inlet_temp",
    "power_consumption_endpoint_provider",
)


def bmcs_of(hosts: t.Iterable[t.Any]) -> Machines[Bmc]:
    """The BMCs of BareMetalHosts, by machine."""
    found: Machines[Bmc] = Machines()
    for host in hosts:
        namespace, name, uid, address = (
            text(member(host, *path), MAX_TEXT_LENGTH)
            for path in (
                ("metadata", "namespace"),
                ("metadata", "name"),
                ("metadata", "uid"),
                ("spec", "bmc", "address"),
            )
        )
        if name and address:
            is_redfish = redfish_endpoint(address) is not None
            found.add(namespace, name, uid, Bmc(f"BareMetalHost {namespace}/{name}", is_redfish))
    return found


def _virtualization(node: Object, labels: t.Mapping[str, str]) -> str:
    if labels.get(f"{_FEATURE}cpu-cpuid.HYPERVISOR") == "true":
        return OTHER
    # Node Feature Discovery labels every flag of the processor, and this one is not among them.
    if any(label.startswith(f"{_FEATURE}cpu-cpuid.") for label in labels):
        return BARE_METAL
    scheme = text(member(node, "spec", "providerID")).partition("://")[0]
    if scheme in ("metal3", "baremetalhost"):
        return BARE_METAL
    if "metal" in labels.get("node.kubernetes.io/instance-type", ""):
        return BARE_METAL
    return _CLOUDS.get(scheme, UNKNOWN)


def _told(info: Object, name: str) -> str:
    return text(info.get(name), MAX_TEXT_LENGTH) or UNKNOWN
