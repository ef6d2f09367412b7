# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BMCs of a cluster's nodes from BareMetalHosts, the work of bare_metal_host_info.

The address in a BareMetalHost is not confirmed yet. No Secret is read here, and an address of plain
HTTP is refused, because it has no certificate to confirm.
"""

from __future__ import annotations

import json
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ..base import documents
from ..base.argspec import KUBERNETES, ArgumentSpec
from ..base.boundary import shown_text
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, TargetFailure
from ..base.fields.lenient import member
from ..base.fields.strict import is_subdomain
from ..base.label_selector import LabelSelector, parse_selector_text
from ..base.manifests import MANAGED_BY_LABEL, MANAGER, manifest_of
from ..fleet.urls import origin_text, parse_endpoint
from ..kube.client import Kube, UnknownKind
from ..nodeconfig.bare_metal import Machines, redfish_endpoint
from ..nodeconfig.nodeconfig import API_VERSIONS
from ..nodeconfig.targets import SYSTEM_ANNOTATION
from .bare_metal_host import API_VERSION, KIND, list_objects, read_hosts
from .host import Host
from .roles.availability import host_text

SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "snapshot": {"type": "path", "required": True},
            "node_selector": {"type": "str"},
            "namespaces": {"type": "list", "elements": "str", "default": []},
            "host_selector": {"type": "str"},
            "node_config_namespace": {"type": "str", "default": "wao-system"},
            "path": {"type": "path"},
        }
    )
)
_ADDRESS = "spec.bmc.address"
NO_HOST = (
    "no BareMetalHost is the machine of the Node, by its spec.providerID or, if it has none, by its "
    "name"
)


@dataclass(frozen=True)
class NodeHost:
    """A Node with its BareMetalHost, and the URL of the BMC."""

    node: str
    host: Host
    endpoint: str

    def as_dict(self) -> Result:
        hardware = self.host.hardware
        return {
            "node": self.node,
            "host": host_text(self.host),
            "endpoint": self.endpoint,
            "manufacturer": hardware.manufacturer,
            "model": hardware.product,
            "processor": hardware.processors.model,
        }

    def node_config(self, namespace: str) -> Result:
        told = {name: self.as_dict()[name] for name in ("manufacturer", "model", "processor")}
        system = {name: value for name, value in told.items() if value}
        collector = {"inletTemp": {"type": "Redfish", "endpoint": self.endpoint}}
        spec = {"nodeName": self.node, "metricsCollector": collector, "predictor": {}}
        place = ("NodeConfig", self.node, namespace)
        found = manifest_of(API_VERSIONS[0], *place, {MANAGED_BY_LABEL: MANAGER}, spec=spec)
        if system:
            found["metadata"]["annotations"] = {SYSTEM_ANNOTATION: json.dumps(system)}
        return found


@dataclass
class Matching:
    """Nodes with the BMCs of their BareMetalHosts, and why other nodes have none."""

    found: list[NodeHost] = field(default_factory=list)
    errors: list[Result] = field(default_factory=list)

    def refuse(self, node: str, host: str | None, detail: str) -> None:
        self.errors.append({"node": node, "host": host, "detail": shown_text(detail, 1024)})


def read_node_hosts(parameters: Parameters, context: Context = Context()) -> Result:
    """The result of bare_metal_host_info. Raises ApiError, and InvalidInput."""
    options = SPEC.complete(parameters)
    nodes = documents.load(options["snapshot"], "snapshot")["nodes"]
    kube = Kube.connect(options)
    try:
        objects = list_objects(kube, options["namespaces"], options["host_selector"])
    except UnknownKind as error:
        raise InvalidInput(
            f"The cluster at {kube.host} serves no {KIND} ({API_VERSION}); give the kubeconfig of "
            "the cluster with Metal3"
        ) from error
    selector = None
    if options["node_selector"]:
        selector = parse_selector_text(options["node_selector"], "node_selector")
    matching = match(nodes, objects, selector)
    entries = [one.as_dict() for one in matching.found]
    result: Result = {
        "changed": False,
        "hosts": entries,
        "errors": matching.errors,
        "counts": {"hosts": len(objects), "node_configs": len(entries)},
    }
    node_configs = [one.node_config(options["node_config_namespace"]) for one in matching.found]
    if not options["path"]:
        return {**result, "node_configs": node_configs}
    body = {"node_configs": node_configs}
    digest = documents.write(options["path"], "node_configs", body)
    return {**result, "path": options["path"], "sha256": digest}


def match(
    nodes: t.Iterable[t.Any], objects: t.Sequence[t.Any], selector: LabelSelector | None = None
) -> Matching:
    """The BMC of each selected Node. A defect of a BareMetalHost is an error only of its Node."""
    hosts = read_hosts(objects).hosts
    machines: Machines[Host] = Machines()
    for host in hosts:
        machines.add(host.namespace, host.name, host.uid, host)
    matching = Matching()
    for node in nodes:
        name, labels = member(node, "metadata", "name"), member(node, "metadata", "labels")
        if not is_subdomain(name):
            continue
        if selector is not None and not selector.matches(labels if _is_texts(labels) else {}):
            continue
        machine = machines.of_node(node)
        if machine is None:
            matching.refuse(name, None, NO_HOST)
            continue
        try:
            matching.found.append(NodeHost(name, machine, _endpoint(machine)))
        except TargetFailure as failure:
            matching.refuse(name, host_text(machine), failure.detail)
    _refuse_shared(matching, hosts)
    return matching


def _is_texts(labels: t.Any) -> bool:
    return isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())


def _endpoint(host: Host) -> str:
    """The URL of the BMC, without the path of a system. Raises TargetFailure."""
    given = redfish_endpoint(host.bmc_address)
    if given is None:
        told = [finding for finding in host.findings if finding.startswith(_ADDRESS)]
        problem = (
            f"{host.bmc_address} is not an address of Redfish"
            if host.bmc_address
            else "it is empty"
        )
        raise TargetFailure("malformed", told[0] if told else f"{_ADDRESS}: {problem}")
    address = parse_endpoint(given[0])
    if address.origin.scheme != "https":
        raise TargetFailure(
            "malformed",
            f"{_ADDRESS}: {host.bmc_address} is plain HTTP, where no certificate shows who gets the "
            "password; write redfish+https://",
        )
    return origin_text(address.origin)


def _refuse_shared(matching: Matching, hosts: t.Sequence[Host]) -> None:
    """Remove BMCs of several hosts or nodes, because their power draw cannot be attributed."""
    of_hosts = Counter(filter(None, map(_endpoint_if_any, hosts)))
    of_nodes = Counter(one.endpoint for one in matching.found)
    shared = {one for users in (of_hosts, of_nodes) for one, number in users.items() if number > 1}
    for one in matching.found:
        if one.endpoint in shared:
            matching.refuse(
                one.node,
                host_text(one.host),
                f"{_ADDRESS}: {one.endpoint} is the BMC of several hosts, whose power cannot be "
                "told apart; write a NodeConfig for each of their nodes",
            )
    matching.found = [one for one in matching.found if one.endpoint not in shared]


def _endpoint_if_any(host: Host) -> str | None:
    try:
        return _endpoint(host)
    except TargetFailure:
        return None
