# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inventories of an assignment for current kubespray, and the hosts.ini of the BPA operator.

Every value from hosts is checked again before it is written, because each line of an inventory may
run a command on the controller.

kubespray's own ansible.cfg forgets host keys and does not check them. Variables of the inventory
override it.

Networks of pods, services and hosts must not overlap.
"""

from __future__ import annotations

import typing as t

from ...base.boundary import InvalidField
from ...redfish.hardware.facts import host_address
from ..addresses import inventory_name
from ..provisioning import Request, Role, user_name
from ..roles.assignment import Answer, Assigned
from .ssh import DEFAULT_PORT, SSH_ARGUMENTS, SshAccess, file_path

GroupNames = t.Literal["current", "legacy"]

# Renamed in kubespray 2.16; https://github.com/kubernetes-sigs/kubespray/pull/7552.
_NAMES: t.Mapping[GroupNames, tuple[str, str, str]] = {
    "current": ("kube_control_plane", "kube_node", "k8s_cluster"),
    "legacy": ("kube-master", "kube-node", "k8s-cluster"),
}
# Other groups that kubespray's playbooks name.
_EMPTY_GROUPS = ("bastion", "calico_rr")
_ORIGINAL_USER = "root"
_VARIABLES = {"PodSubnet": "kube_pods_subnet", "ServiceSubnet": "kube_service_addresses"}
# kubespray's kube_network_node_prefix and kube_network_node_prefix_ipv6.
NODE_PREFIXES = {4: 24, 6: 120}
# kubeadm's limit of bits between the subnet of pods and a node's part of it.
_MAX_NODE_BITS = 16

Access = t.Mapping[str, SshAccess]


def labels_of(assignments: t.Sequence[Assigned], role: Role) -> list[str]:
    """Names of the hosts in a role, in the order of the assignments."""
    return [inventory_name(each.label, "label") for each in assignments if each.role == role]


def etcd_members(masters: t.Sequence[str]) -> list[str]:
    """Masters that run etcd: kubespray refuses an even number of members."""
    return list(masters[: len(masters) - (len(masters) + 1) % 2])


def kubespray_inventory(
    assignments: t.Sequence[Assigned],
    request: Request,
    access: Access,
    names: GroupNames = "current",
    known_hosts_file: str = "",
) -> dict[str, t.Any]:
    """The inventory in the form of Ansible's YAML plugin; ``access`` is by label."""
    control_plane, node, cluster = _NAMES[names]
    masters = labels_of(assignments, "master")
    members = etcd_members(masters) if names == "current" else masters
    hosts = {each.label: _host(each, access.get(each.label, SshAccess())) for each in assignments}
    for index, label in enumerate(members):
        hosts[label]["etcd_member_name"] = f"etcd{index + 1}"
    inventory: dict[str, t.Any] = {
        "hosts": hosts,
        "vars": _connection(known_hosts_file),
        "children": {
            control_plane: _group(masters),
            node: _group(labels_of(assignments, "worker")),
            "etcd": _group(members),
            cluster: {
                "children": {control_plane: {}, node: {}},
                "vars": _networks(request, assignments),
            },
        },
    }
    if names == "current":
        inventory["children"].update({name: _group([]) for name in _EMPTY_GROUPS})
    return {"all": inventory}


def _host(assigned: Assigned, access: SshAccess) -> dict[str, t.Any]:
    variables: dict[str, t.Any] = {}
    if assigned.ip is not None:
        address = host_address(assigned.ip, f"{assigned.label}.ip")
        variables = {"ansible_host": address, "ip6" if ":" in address else "ip": address}
        if assigned.ip6 is not None:
            variables["ip6"] = host_address(assigned.ip6, f"{assigned.label}.ip6")
    variables["ansible_user"] = user_name(access.user, "user") or _ORIGINAL_USER
    variables["ansible_port"] = access.port or DEFAULT_PORT
    if access.private_key:
        key = file_path(access.private_key, "private_key_file")
        variables["ansible_ssh_private_key_file"] = key
    return variables


def _connection(known_hosts_file: str) -> dict[str, t.Any]:
    """Variables that enable the check of host keys, regardless of ansible.cfg."""
    path = file_path(known_hosts_file, "known_hosts_file")
    known = f" -o UserKnownHostsFile={path}" if path else ""
    return {"ansible_host_key_checking": True, "ansible_ssh_args": f"{SSH_ARGUMENTS}{known}"}


def ip_versions_of(assignments: t.Iterable[Assigned]) -> set[int]:
    """The IP versions (4, 6) of the cluster's addresses; empty if no address is known."""
    given = (ip for each in assignments for ip in (each.ip, each.ip6) if ip)
    return {6 if ":" in ip else 4 for ip in given}


def _networks(request: Request, assignments: t.Sequence[Assigned]) -> dict[str, t.Any]:
    """The stacks of the hosts' addresses, and the networks that the spec names.

    Without known addresses the stacks are those of the networks. kubespray has other variables for
    IPv6, and no stack of IPv6 by default.
    """
    given = {_VARIABLES[name]: network for name, network in request.subnets.items()}
    versions = ip_versions_of(assignments) or {network.version for network in given.values()}
    variables: dict[str, t.Any] = {}
    if 6 in versions:
        variables = {f"ipv{version}_stack": version in versions for version in (4, 6)}
    for name, network in given.items():
        variables[f"{name}_ipv6" if network.version == 6 else name] = str(network)
    pods = request.pod_subnet
    if (
        pods is not None
        and pods.version == 6
        and pods.prefixlen + _MAX_NODE_BITS < NODE_PREFIXES[6]
    ):
        variables["kube_network_node_prefix_ipv6"] = pods.prefixlen + _MAX_NODE_BITS
    return variables


def _group(labels: t.Sequence[str]) -> dict[str, t.Any]:
    return {"hosts": {label: {} for label in labels}}


def hosts_ini(assignments: t.Sequence[Assigned], access: Access, *, is_virtlet: bool) -> str:
    """The file hosts.ini of the BPA operator, with its groups and names of variables.

    Hosts of Virtlet VMs are in no group of OVN and Virtlet, as in the original.
    """
    masters, workers = (labels_of(assignments, role) for role in _ROLES)
    sections: list[tuple[str, t.Sequence[str]]] = [
        ("all", _host_lines(assignments, access)),
        ("kube-master", masters),
        ("kube-node", workers),
        ("etcd", masters),
    ]
    if not is_virtlet:
        sections += [("ovn-central", masters), ("ovn-controller", workers), ("virtlet", workers)]
    sections.append(("k8s-cluster:children", ("kube-node", "kube-master")))
    return "\n".join(
        f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections
    )


_ROLES: tuple[Role, Role] = ("master", "worker")


def _host_lines(assignments: t.Sequence[Assigned], access: Access) -> list[str]:
    lines: dict[str, str] = {}
    for each in assignments:
        if each.ip is None:
            continue
        way = access.get(each.label, SshAccess())
        address = host_address(each.ip, f"{each.label}.ip")
        line = (
            f"{inventory_name(each.label, 'label')}  ansible_ssh_host={address} "
            f"ansible_ssh_port={way.port or DEFAULT_PORT}"
        )
        # The original leaves the user to kubespray, which uses root.
        if way.user not in ("", _ORIGINAL_USER):
            line += f" ansible_ssh_user={user_name(way.user, 'user')}"
        lines[each.label] = line
    return list(lines.values())


def check_networks(request: Request, answer: Answer) -> None:
    """Raise InvalidField if networks of pods, services and named hosts overlap.

    A host without a MAC address in the request, but with an address in such a network, gets no
    role.
    """
    named = {network.version for network in request.subnets.values()}
    for version in named | ip_versions_of(answer.assignments) or {4}:
        pods, services = request.networks(version)
        if pods.network.overlaps(services.network):
            own, other = (services, pods) if pods.is_default else (pods, services)
            raise InvalidField(
                f"spec.{own.field}",
                f"{own.network} overlaps with {other}; write another subnet, or {other.field}",
            )
    for each in answer.assignments:
        for ip in filter(None, (each.ip, each.ip6)):
            network = request.network_with(ip)
            if network is not None:
                raise InvalidField(
                    f"spec.{network.field}",
                    f"{network.origin}{network.network} overlaps with the network of the hosts: "
                    f"{each.host.name} has {ip}; write another subnet",
                )


def small_subnets(request: Request, answer: Answer) -> t.Iterator[str]:
    """Sentences on pod subnets that are too small for the nodes."""
    nodes = len({(each.host.namespace, each.host.name) for each in answer.assignments})
    for version in sorted(ip_versions_of(answer.assignments)):
        pods, _services = request.networks(version)
        length, of_node = pods.network.prefixlen, NODE_PREFIXES[version]
        room = 2 ** max(0, of_node - length)
        if length > of_node:
            yield (
                f"spec.PodSubnet: {pods.network} is smaller than a node's /{of_node}; write a "
                "larger subnet"
            )
        elif nodes > room:
            yield (
                f"spec.PodSubnet: {pods} has addresses for {room} "
                f"{'node' if room == 1 else 'nodes'}, and the cluster has {nodes}; write a larger "
                "subnet"
            )
