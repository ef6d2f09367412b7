# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""HostHardware: the hardware of a BareMetalHost as last read from its BMC.

Host agents write the object beside the BareMetalHost, with its name. Its facts count only for that
BareMetalHost and that BMC address. They complete the facts of the inspection, and replace an older
inspection's facts. They never set a host's address, because a BMC could otherwise claim another
host's address.
"""

from __future__ import annotations

import datetime
import re
import typing as t
from dataclasses import asdict, replace

from ..base.boundary import Finding
from ..base.fields import strict
from ..base.fields.lenient import member, only, text
from ..base.json_types import MutableObject
from ..base.units import format_time, parse_time
from ..kube.client import Kube
from ..kube.resource.spec_options import camel
from ..redfish.hardware.facts import Facts
from ..redfish.hardware.walk import CORES_COUNTED
from .host import Hardware, Host, NetworkInterface, read_each_host
from .redfish_hardware import host_of

API_VERSION = "bpa.akraino.org/v1alpha1"
KIND = "HostHardware"
# The definition has the same limits.
_MAX_ITEMS = {"network_interfaces": 64, "disks": 64, "pci_devices": 256}
# Addresses, and facts that only an inspection or a label has.
_NOT_STORED = frozenset(("ip", "ip6", "boots", "flags"))
_OF_HOST = (
    *("memory_mib", "pci_devices", "has_qat", "gpus", "sriov_enabled"),
    *("disks", "manufacturer", "product", "serial_number"),
)
_OF_PROCESSORS = ("count", "model", "architecture")
_OF_PORTS = ("pci_id", "gigabits", "can_sriov")
# Facts for which the inspection is better, regardless of its time.
_INSPECTED_FIRST = ("disks", "manufacturer", "product", "serial_number", "architecture")
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


# Hosts as their BMCs see them, by namespace and name. ``inspected_at`` is the time of reading.
HostsOfBmcs = t.Mapping[tuple[str, str], Host]


def list_objects(kube: Kube, namespaces: t.Sequence[str] = ()) -> list[MutableObject]:
    """The HostHardware of these namespaces, or of all; empty if the cluster has no such kind."""
    if not kube.serves(API_VERSION, KIND):
        return []
    resource = kube.resource(API_VERSION, KIND)
    return [
        obj
        for namespace in namespaces or [""]
        for obj in kube.list(
            resource.collection(namespace), trim=only("metadata.name", "metadata.namespace", "spec")
        )
    ]


def hosts_of_bmcs(
    objects: t.Sequence[t.Any],
) -> tuple[dict[tuple[str, str], Host], list[Finding]]:
    """The objects by namespace and name. A defective one is a finding and is not used."""
    findings: list[Finding] = []
    hosts = read_each_host(objects, KIND, _host_of_object, findings)
    return {(host.namespace, host.name): host for host in hosts}, findings


def _host_of_object(obj: t.Any) -> Host:
    """Raises InvalidField for an object without a usable name."""
    name, namespace = (text(member(obj, "metadata", key)) for key in ("name", "namespace"))
    spec = strict.mapping(obj.get("spec"), "spec")
    given = strict.mapping(spec.get("hardware"), "spec.hardware")
    host, found = host_of({"name": name, "rack": spec.get("rack"), **_snake(given)}), Facts()
    read_at = found.read(spec.get("readTime"), "spec.readTime", parse_time)
    return replace(
        host,
        namespace=namespace,
        uid=text(spec.get("hostUid")),
        bmc_address=text(spec.get("bmcAddress"), 2048),
        inspected_at=read_at,
        findings=(*host.findings, *found.findings),
    )


def facts_about(host: Host, by_bmc: Host | None, found: Facts) -> Host | None:
    """The host by its BMC; None with a finding for another BareMetalHost or another BMC."""
    if by_bmc is None:
        return None
    if not host.uid or by_bmc.uid != host.uid:
        whose = "BareMetalHost than this one: hostUid is not its uid"
    elif by_bmc.bmc_address != host.bmc_address:
        # An address may contain secrets, so it is not printed.
        whose = "BMC than that in spec.bmc.address"
    else:
        return by_bmc
    found.note(f"{KIND} of the same name does not count, because it is of another {whose}")
    return None


def spec_of(
    host: Host, entry: MutableObject, before: t.Any, now: datetime.datetime, *, is_partial: bool
) -> MutableObject:
    """The spec for an entry of redfish_hardware_info about an inspected host.

    Every fact is checked. ``before`` is the stored spec, which is the result if no fact has changed
    and no inspection has ended since. With a partial entry the stored lists, the facts that the
    entry lacks, and their time are kept, because lists of such an entry may lack members. Raises
    InvalidField.
    """
    read = host_of({**entry, "name": host.name})
    hardware = _stored(asdict(read.hardware))
    if CORES_COUNTED in (entry.get("findings") or ()) and host.hardware.processors.count:
        # The inspection counted threads.
        hardware.get("processors", {}).pop("count", None)
    subject = {"hostUid": host.uid, "bmcAddress": host.bmc_address}
    known = member(before, "hardware")
    is_same = all(member(before, name) == value for name, value in subject.items())
    rack, kept_time = read.rack, None
    if is_partial and isinstance(known, dict) and is_same:
        lists = {camel(name) for name in _MAX_ITEMS}
        kept = {name: value for name, value in known.items() if name in lists}
        hardware = {**known, **hardware, **kept}
        rack, kept_time = rack or member(before, "rack"), member(before, "readTime")
    spec = {**subject, "hardware": hardware, **({"rack": rack} if rack else {})}
    return {**spec, "readTime": kept_time or _read_time(host, spec, before, now)}


def _read_time(host: Host, spec: MutableObject, before: t.Any, now: datetime.datetime) -> str:
    """The stored time as long as it is recent enough, because each new one costs a write."""
    before = before if isinstance(before, dict) else {}
    stored = before.get("readTime")
    read_at = Facts().read(stored, "readTime", parse_time)
    facts = {key: value for key, value in before.items() if key != "readTime"}
    if facts == spec and read_at is not None and _is_newer(read_at, host.inspected_at):
        return text(stored)
    return format_time(now)


def _is_newer(read_at: datetime.datetime | None, inspected_at: datetime.datetime | None) -> bool:
    """Whether the BMC was read after the inspection; an unknown time is None."""
    return inspected_at is None or (read_at is not None and read_at > inspected_at)


def manifest(host: Host, spec: MutableObject) -> MutableObject:
    """The object, which is deleted with its BareMetalHost."""
    owner = {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "name": host.name,
        "uid": host.uid,
    }
    place = {"name": host.name, "namespace": host.namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**place, "ownerReferences": [owner]},
        "spec": spec,
    }


def completed(
    inspected: Hardware, by_bmc: Host, inspected_at: datetime.datetime | None
) -> Hardware:
    """The inspected hardware with the facts of the BMC; later facts replace inspected ones.

    The inspection has the disks that an operating system sees, and only it has addresses.
    """
    told, is_newer = by_bmc.hardware, _is_newer(by_bmc.inspected_at, inspected_at)
    processors = _facts(_OF_PROCESSORS, inspected.processors, told.processors, is_newer=is_newer)
    return replace(
        inspected,
        processors=replace(inspected.processors, **processors),
        network_interfaces=_ports(
            inspected.network_interfaces, told.network_interfaces, is_newer=is_newer
        ),
        **_facts(_OF_HOST, inspected, told, is_newer=is_newer),
    )


def _facts(
    names: t.Sequence[str], inspected: t.Any, told: t.Any, *, is_newer: bool
) -> dict[str, t.Any]:
    """The facts with these names, from the first source that has them."""
    found = {}
    for name in names:
        values = [getattr(inspected, name), getattr(told, name)]
        if is_newer and name not in _INSPECTED_FIRST:
            values.reverse()
        found[name] = values[1] if values[0] in (None, "") else values[0]
    return found


def _ports(
    inspected: t.Sequence[NetworkInterface], told: t.Sequence[NetworkInterface], *, is_newer: bool
) -> tuple[NetworkInterface, ...]:
    """The inspected ports with the BMC's facts of their adapters, then ports that only it has."""
    by_mac = {port.mac: port for port in told if port.mac}
    known = {port.mac for port in inspected}
    ports = []
    for port in inspected:
        found = by_mac.get(port.mac or "") or NetworkInterface("")
        ports.append(replace(port, **_facts(_OF_PORTS, port, found, is_newer=is_newer)))
    others = [port for port in told if port.mac not in known]
    return (*ports, *(replace(port, mac=None, ip=None, ip6=None, boots=None) for port in others))


def _stored(value: t.Any) -> t.Any:
    """A fact in the form of the object: only known members, with Kubernetes' names."""
    if isinstance(value, dict):
        kept = {
            camel(key): _stored(item[: _MAX_ITEMS[key]] if key in _MAX_ITEMS and item else item)
            for key, item in value.items()
            if item not in (None, "") and key not in _NOT_STORED
        }
        return {key: item for key, item in kept.items() if item != {}}
    if isinstance(value, (list, tuple)):
        return [_stored(item) for item in value]
    return value


def _snake(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {_CAPITAL.sub(r"_\1", str(key)).lower(): _snake(item) for key, item in value.items()}
    return [_snake(item) for item in value] if isinstance(value, list) else value
