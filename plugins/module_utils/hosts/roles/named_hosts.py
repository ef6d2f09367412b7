# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that a request names by a MAC address."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.boundary import InvalidField
from ...base.label_selector import LabelSelector
from ..host import Host
from ..provisioning import Item
from .availability import (
    Addresses,
    HostKey,
    Owner,
    Refusal,
    addresses_of,
    host_text,
    is_held,
    refusal_of,
)
from .requirements import Judge


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
    former: t.Container[HostKey] = frozenset(),
) -> list[NamedHost]:
    """The hosts of all items with a MAC address. Raises InvalidField for an unavailable one."""
    by_mac, excluded = _owners_of_macs(hosts, owner, selector, former)
    found: dict[int, NamedHost] = {}
    for item in items:
        if item.mac is None:
            continue
        if item.mac in excluded and item.mac not in by_mac:
            raise InvalidField(
                f"{item.where}.mac-address",
                f"host {host_text(hosts[excluded[item.mac]])} is not selected by hostSelector",
            )
        named = _named(item, item.mac, by_mac.get(item.mac, []), hosts, needs_address)
        first = found.setdefault(named.host, named)
        if first is not named:
            raise InvalidField(
                f"{item.where}.mac-address",
                f"{item.mac} and {first.mac} of {first.item.where} belong to one host, "
                f"{host_text(hosts[named.host])}",
            )
        _check(named, hosts, refusal_of(hosts[named.host], owner, former), judge)
    _refuse_equal_addresses(list(found.values()))
    return list(found.values())


def _owners_of_macs(
    hosts: t.Sequence[Host], owner: Owner, selector: LabelSelector, former: t.Container[HostKey]
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The hosts of each MAC address by position, including one that the selector excludes.

    Other hosts cannot claim the address of a host that the owner holds.
    """
    by_mac: dict[str, list[int]] = {}
    excluded: dict[str, int] = {}
    for index, host in enumerate(hosts):
        is_selected = selector.matches(host.labels)
        for mac in host.macs:
            if is_selected:
                by_mac.setdefault(mac, []).append(index)
            else:
                excluded.setdefault(mac, index)
    for mac, owners in by_mac.items():
        held = [index for index in owners if is_held(hosts[index], owner, former)]
        by_mac[mac] = held if len(held) == 1 else owners
    return by_mac, excluded


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
