# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Available hosts, the address of each, and hosts that a request names by a MAC address."""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ...base.boundary import InvalidField
from ...base.label_selector import LabelSelector
from ...base.texts import shown_text
from ...redfish.hardware.facts import host_address
from ..addresses import inventory_name
from ..host import Host
from ..provisioning import KIND, Item, Role
from .requirements import Judge

# The label by which Cluster API's hostSelector finds the hosts of a cluster.
CLUSTER_LABEL = "bpa.akraino.org/cluster"
ROLE_LABEL = "bpa.akraino.org/role"
# Namespace and name of the Provisioning that set these labels.
PROVISIONING_ANNOTATION = "bpa.akraino.org/provisioning"

# Prefix of a consumer from Cluster API's provider for Metal3.
_CLUSTER_API_CONSUMER = "Metal3Machine/"

PROVISIONED = frozenset(("provisioned", "externally provisioned"))
# Metal3 does not know the hardware yet, or is about to wipe or forget the host.
_STATES_IN_BETWEEN = frozenset(
    (
        *("registering", "match profile", "inspecting", "deprovisioning", "deleting"),
        "unreadable",
        "powering off before delete",
    )
)

HostKey = tuple[str, str]


def key_of(host: Host) -> HostKey:
    """Identity of a host: namespace and name."""
    return host.namespace, host.name


def host_text(host: Host) -> str:
    """A host for messages."""
    return f"{host.namespace}/{host.name}" if host.namespace else host.name


@dataclass(frozen=True)
class FormerRole:
    """A former role of a host, from status.assignments."""

    role: Role
    label: str


Former = t.Mapping[HostKey, tuple[FormerRole, ...]]


@dataclass(frozen=True)
class Owner:
    """The requesting Provisioning, and the reservations of others.

    ``reserved`` names the owner of a host that is in another Provisioning's status.assignments.
    ``former`` are the former roles of this one's hosts.
    """

    name: str = ""
    namespace: str = ""
    cluster: str = ""
    reserved: t.Mapping[HostKey, str] = field(default_factory=dict)
    former: Former = field(default_factory=dict)

    @property
    def consumer(self) -> str:
        """This Provisioning as consumer of a host."""
        return f"{KIND}/{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """This Provisioning in a host's annotation."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Refusal:
    """Why a host is unavailable: one word for counting, and a sentence part."""

    reason: str
    detail: str


def refusal_of(host: Host, owner: Owner) -> Refusal | None:
    """Why the owner may not use the host; None if it is free or the owner's."""
    label = host.labels.get(CLUSTER_LABEL)
    marked = host.annotations.get(PROVISIONING_ANNOTATION)
    reserved = owner.reserved.get(key_of(host))
    if host.operational_status == "error" or "error" in host.state:
        told = shown_text(host.error_message, 200) or "no message"
        return Refusal("error", f"is in error: {told}")
    if host.operational_status == "detached":
        return Refusal("detached", "is detached")
    if host.state in _STATES_IN_BETWEEN:
        return Refusal("state", f"is in state {host.state}")
    if host.consumer is not None and not _is_own(host, owner):
        return Refusal("consumed", f"is consumed by {shown_text(host.consumer, 200)}")
    if marked is not None and marked != owner.title:
        return Refusal("reserved", f"is reserved by {KIND} {shown_text(marked, 200)}")
    if reserved is not None:
        return Refusal("reserved", f"is reserved by {reserved}")
    if label is not None and label != owner.cluster:
        return Refusal("reserved", f"is labelled for the cluster {shown_text(label, 63)}")
    return None


def _is_own(host: Host, owner: Owner) -> bool:
    """Whether the owner consumes the host, or Cluster API a host that the owner labelled for it.

    Without the owner's annotation the label is no proof, so the owner must have had the host
    before.
    """
    if host.consumer == owner.consumer:
        return True
    if not (host.consumer or "").startswith(_CLUSTER_API_CONSUMER):
        return False
    marked = host.annotations.get(PROVISIONING_ANNOTATION)
    if marked is not None:
        return marked == owner.title and bool(owner.name)
    return host.labels.get(CLUSTER_LABEL) == owner.cluster and key_of(host) in owner.former


def is_held(host: Host, owner: Owner) -> bool:
    """Whether the owner has reserved the host already, so that a cluster may run on it.

    A later claim of another host does not change that.
    """
    if key_of(host) in owner.former:
        return refusal_of(host, owner) is None
    is_marked = host.annotations.get(PROVISIONING_ANNOTATION) == owner.title
    return bool(owner.name) and (is_marked or host.consumer == owner.consumer)


@dataclass(frozen=True)
class Address:
    """A reachable address of a host, and the MAC address of its port."""

    ip: str
    mac: str | None = None


Addresses = t.Mapping[int, Address]


def addresses_of(host: Host, mac: str | None = None) -> Addresses:
    """The address of each IP version (4, 6) that the host has.

    The port with ``mac`` precedes the boot port, which precedes the others.
    """
    boots = {host.boot_mac} if host.boot_mac else set()
    ports = sorted(
        host.hardware.network_interfaces,
        key=lambda port: (port.mac != mac, not (port.boots or port.mac in boots)),
    )
    found: dict[int, Address] = {}
    for port in ports:
        for ip in filter(None, (port.ip, port.ip6)):
            if _leads_to_host(ip):
                found.setdefault(version_of(ip), Address(ip, port.mac or host.boot_mac))
    return found


def version_of(ip: str) -> int:
    """The IP version of an address, 4 or 6."""
    return ipaddress.ip_address(ip).version


def _leads_to_host(ip: str) -> bool:
    """Whether other machines reach a host at the address; link-local ones depend on the link."""
    try:
        return not ipaddress.ip_address(host_address(ip, "ip")).is_link_local
    except InvalidField:
        return False


def mac_of(host: Host) -> str | None:
    """The MAC address of a host without an IP address; None if unknown."""
    macs = [port.mac for port in host.hardware.network_interfaces if port.mac]
    return host.boot_mac or (macs[0] if macs else None)


def _claims_of(host: Host, addresses: Addresses) -> list[str]:
    """The IP addresses of a host, then the MAC addresses of their ports."""
    macs = [each.mac for each in addresses.values()] if addresses else [mac_of(host)]
    ips = [each.ip for each in addresses.values()]
    return [*ips, *dict.fromkeys(filter(None, macs))]


def refusals(
    hosts: t.Sequence[Host],
    owner: Owner,
    needs_address: bool,
    selector: LabelSelector,
) -> list[Refusal | None]:
    """The refusal of each host, if any, also for names and addresses invalid in inventories.

    A host that the selector excludes claims no address, so it excludes no other host. Among hosts
    with one address, the only one that the owner holds keeps it.
    """
    found: list[Refusal | None] = []
    addresses = [addresses_of(host) for host in hosts]
    claims = [_claims_of(host, own) for host, own in zip(hosts, addresses)]
    selected = [selector.matches(host.labels) for host in hosts]
    shared = Counter(each for claim, counts in zip(claims, selected) if counts for each in claim)
    held = [is_held(host, owner) for host in hosts]
    of_held = Counter(each for claim, is_own in zip(claims, held) if is_own for each in claim)
    for host, own, claim, is_selected, is_own in zip(hosts, addresses, claims, selected, held):
        refusal = refusal_of(host, owner)
        if refusal is None:
            refusal = _unusable(host, needs_address and not own)
        if refusal is None and not is_selected:
            refusal = Refusal("selector", "is not selected by hostSelector")
        counts = of_held if is_own else shared
        told = next((each for each in claim if counts[each] > 1), None)
        if refusal is None and told:
            refusal = Refusal("address", f"shares its address {told} with another host")
        found.append(refusal)
    return found


def _unusable(host: Host, lacks_address: bool) -> Refusal | None:
    try:
        inventory_name(host.name, "name")
    except InvalidField as error:
        return Refusal("name", f"cannot be in an inventory: {error.problem}")
    if lacks_address:
        return Refusal("address", "has no IP address")
    return None


@dataclass(frozen=True)
class NamedHost:
    """The position of the host that an item names, and the addresses of the port with its MAC."""

    item: Item
    host: int
    mac: str
    addresses: Addresses


def named_hosts(
    items: t.Sequence[Item],
    hosts: t.Sequence[Host],
    owner: Owner,
    judge: Judge,
    needs_address: bool,
    selector: LabelSelector,
) -> list[NamedHost]:
    """The hosts of all items with a MAC address. Raises InvalidField for an unavailable one."""
    by_mac: dict[str, list[int]] = {}
    for index, host in enumerate(hosts):
        for mac in host.macs:
            by_mac.setdefault(mac, []).append(index)
    found: dict[int, NamedHost] = {}
    for item in items:
        if item.mac is None:
            continue
        owners = _owners_of(item, by_mac.get(item.mac, ()), hosts, owner, selector)
        named = _named(item, item.mac, owners, hosts, needs_address)
        first = found.setdefault(named.host, named)
        if first is not named:
            raise InvalidField(
                f"{item.where}.mac-address",
                f"{item.mac} and {first.mac} of {first.item.where} belong to one host, "
                f"{host_text(hosts[named.host])}",
            )
        _check(named, hosts, refusal_of(hosts[named.host], owner), judge)
    _refuse_equal_addresses(list(found.values()))
    return list(found.values())


def _owners_of(
    item: Item,
    claimants: t.Sequence[int],
    hosts: t.Sequence[Host],
    owner: Owner,
    selector: LabelSelector,
) -> t.Sequence[int]:
    """The selected hosts, by position, of all that have the MAC address of an item.

    Other hosts cannot claim the address of a host that the owner holds.
    """
    selected = [index for index in claimants if selector.matches(hosts[index].labels)]
    if claimants and not selected:
        raise InvalidField(
            f"{item.where}.mac-address",
            f"host {host_text(hosts[claimants[0]])} is not selected by hostSelector",
        )
    held = [index for index in selected if is_held(hosts[index], owner)]
    return held if len(held) == 1 else selected


def _named(
    item: Item, mac: str, owners: t.Sequence[int], hosts: t.Sequence[Host], needs_address: bool
) -> NamedHost:
    path = f"{item.where}.mac-address"
    if not owners:
        raise InvalidField(path, f"Host with MAC Address {mac} not found")
    if len(owners) > 1:
        told = " and ".join(host_text(hosts[index]) for index in owners[:3])
        raise InvalidField(path, f"{mac} belongs to {len(owners)} hosts, {told}; correct them")
    of_host = addresses_of(hosts[owners[0]], mac)
    addresses = {version: each for version, each in of_host.items() if each.mac == mac}
    if needs_address and not addresses:
        raise InvalidField(path, f"IP address not found for host with MAC address {mac}")
    return NamedHost(item, owners[0], mac, addresses)


def _check(
    named: NamedHost, hosts: t.Sequence[Host], refusal: Refusal | None, judge: Judge
) -> None:
    """Raise InvalidField if the host belongs to others or certainly does not meet the item."""
    host = hosts[named.host]
    if refusal is not None:
        raise InvalidField(named.item.where, f"host {host_text(host)} {refusal.detail}")
    for verdict in judge.verdicts(named.item.requirements)[named.host]:
        if verdict.answer is False:
            raise InvalidField(
                named.item.where,
                f"host {host_text(host)} does not meet it: {verdict.reason}; correct the "
                "requirement or the MAC address",
            )


def _refuse_equal_addresses(found: t.Sequence[NamedHost]) -> None:
    known: dict[str, NamedHost] = {}
    for named in found:
        for address in named.addresses.values():
            first = known.setdefault(address.ip, named)
            if first is not named:
                raise InvalidField(
                    named.item.where, f"its address {address.ip} is also that of {first.item.where}"
                )
