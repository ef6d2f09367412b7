# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hardware of many hosts from their BMCs, the work of redfish_hardware_info."""

from __future__ import annotations

import typing as t
from types import MappingProxyType

from ..base.boundary import InvalidField, shown, shown_text
from ..base.context import Context, Parameters, Result
from ..base.errors import TargetError, TargetFailure
from ..base.fields import strict
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..fleet.credentials import SecretSource
from ..fleet.urls import redacted
from ..fleet.visits import Client, error_of
from ..nodeconfig.poll import (
    AUTHENTICATION,
    Job,
    PollTarget,
    conclude,
    given_targets,
    poll,
    reading_spec,
)
from ..redfish.hardware import facts, pci
from ..redfish.hardware.facts import Facts
from ..redfish.hardware.walk import Walk
from ..redfish.power_control.machines import with_system
from ..redfish.tree import Tree
from .host import Disk, Hardware, Host, NetworkInterface, PciDevice, Processors

SPEC = reading_spec().merge(AUTHENTICATION)

_REDFISH: t.Final = "Redfish"
_NO_TEXTS: t.Mapping[str, str] = MappingProxyType({})
_MAX_SENTENCES = 20

# Facts by their names in results and in values, with the parser of each.
Parsers = t.Mapping[str, t.Callable[[t.Any, str], t.Any]]
Names = t.Mapping[str, str]
PROCESSORS: Parsers = {
    "count": facts.whole(1, facts.MAX_THREADS),
    "model": facts.name,
    "architecture": facts.architecture,
    "flags": facts.flags,
}
SYSTEM: Parsers = dict.fromkeys(("manufacturer", "product", "serial_number"), facts.name)
MEMORY: Parsers = {"memory_mib": facts.whole(1, facts.MAX_MEMORY_MIB)}
_HARDWARE: Parsers = {
    **MEMORY,
    "has_qat": facts.boolean,
    "gpus": facts.whole(0, facts.MAX_GPUS),
    "sriov_enabled": facts.boolean,
    **SYSTEM,
}
_INTERFACE: Parsers = {
    "name": facts.name,
    "mac": facts.mac_address,
    "ip": facts.host_address,
    "ip6": facts.host_address,
    "gigabits": facts.gigabits,
    "boots": facts.boolean,
    "can_sriov": facts.boolean,
}
_DISK: Parsers = {
    "name": facts.name,
    "size_bytes": facts.whole(1, facts.MAX_BYTES),
    "kind": facts.disk_kind,
}


def read_hardware(parameters: Parameters, context: Context = Context()) -> Result:
    """Read every BMC once, with the result of redfish_hardware_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = given_targets(options, _REDFISH, "inlet_temp")
    return read([with_system(target) for target in found], options, context)


def read(
    found: t.Sequence[PollTarget],
    options: Parameters,
    context: Context = Context(),
    secrets: SecretSource | None = None,
) -> Result:
    """Read every BMC once; ``hardware``, ``authentication`` and ``errors``.

    ``extra`` of a target may have the path of its computer system under ``system``.
    """
    jobs: list[Job[t.Any]] = [Job(target, _REDFISH, _work, None) for target in found]
    polled = poll(jobs, options, context, secrets)
    hardware: list[Result] = []
    errors: list[TargetError] = []
    for target, answer in zip(found, polled.results):
        if isinstance(answer, TargetError):
            errors.append(answer)
        elif answer is not None:
            place = {"name": target.name, "endpoint": redacted(target.endpoint)}
            facts_of_host, failure = answer
            hardware.append({**place, **facts_of_host})
            if failure is not None:
                errors.append(error_of(target.name, target.endpoint, failure))
    result = {"hardware": hardware, "authentication": polled.authentication}
    return conclude(options, len(found), errors, result)


async def _work(client: Client, target: PollTarget) -> tuple[Result, TargetFailure | None]:
    """The hardware of one host, and the reason of missing parts."""
    walk = Walk(Tree(client), target.extra.get("system") or "")
    await walk.read()
    return walk.hardware, walk.failure


def host_of(entry: t.Any) -> Host:
    """A host from an entry of ``hardware``.

    Every fact is checked again, because results pass through files and variables. Raises
    InvalidField without a name.
    """
    name = member(entry, "name")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidField("name", f"{shown(name)} cannot be the name of a host")
    found = Facts()
    earlier = entry.get("findings")
    for sentence in earlier[:_MAX_SENTENCES] if isinstance(earlier, list) else []:
        found.note(shown_text(str(sentence)))
    hardware = _hardware(entry, found)
    booting = {port.mac for port in hardware.network_interfaces if port.boots and port.mac}
    return Host(
        name=name,
        source=_REDFISH,
        hardware=hardware,
        boot_mac=booting.pop() if len(booting) == 1 else None,
        bmc_address=found.read(
            entry.get("endpoint"), "endpoint", lambda value, path: redacted(facts.name(value, path))
        ),
        rack=found.read(entry.get("rack"), "rack", facts.rack),
        is_online=found.read(entry.get("is_on"), "is_on", facts.boolean),
        findings=found.findings,
    )


def members(
    found: Facts, given: Object, place: str, parsers: Parsers, names: Names = _NO_TEXTS
) -> dict[str, t.Any]:
    """The facts in a mapping; ``names`` has the source's names that differ from ours."""
    keys = {fact: names.get(fact, fact) for fact in parsers}
    return {
        fact: found.read(given.get(keys[fact]), f"{place}{keys[fact]}", parse)
        for fact, parse in parsers.items()
    }


def _hardware(entry: t.Any, found: Facts) -> Hardware:
    processors = found.read(entry.get("processors"), "processors", strict.mapping) or {}
    ports, devices = "network_interfaces", entry.get("pci_devices")
    return Hardware(
        processors=Processors(**members(found, processors, "processors.", PROCESSORS)),
        network_interfaces=tuple(
            interface_of(found, item, place, pci.pci_id(item.get("pci_id")))
            for place, item in found.items(entry.get(ports), ports, facts.MAX_INTERFACES)
        ),
        disks=disks_of(found, entry.get("disks"), "disks"),
        pci_devices=None if devices is None else _pci_devices(devices, found),
        **members(found, entry, "", _HARDWARE),
    )


def interface_of(
    found: Facts, item: Object, place: str, pci_id: str | None, names: Names = _NO_TEXTS
) -> NetworkInterface:
    """A port with this adapter; by its identifier, what it does not say itself."""
    given = members(found, item, f"{place}.", _INTERFACE, names)
    if given["can_sriov"] is None:
        given["can_sriov"] = pci.can_sriov(pci_id)
    return NetworkInterface(**{**given, "name": given["name"] or "", "pci_id": pci_id})


def disks_of(
    found: Facts, value: t.Any, path: str, names: Names = _NO_TEXTS
) -> tuple[Disk, ...] | None:
    """The disks in a list; None without one.

    Metal3 before 0.1 only had whether a disk is rotational.
    """
    disks = []
    for place, item in found.items(value, path, facts.MAX_DISKS):
        given = members(found, item, f"{place}.", _DISK, names)
        turns = found.read(item.get("rotational"), f"{place}.rotational", facts.boolean)
        kind = "HDD" if given["kind"] is None and turns else given["kind"]
        disks.append(Disk(given["name"] or "", given["size_bytes"], kind))
    return tuple(disks) if isinstance(value, (list, tuple)) else None


def _pci_devices(value: t.Any, found: Facts) -> tuple[PciDevice, ...]:
    items = found.items(value, "pci_devices", facts.MAX_PCI_DEVICES)
    return tuple(
        PciDevice(identifier, found.read(item.get("name"), f"{place}.name", facts.name) or "")
        for place, item in items
        if (identifier := pci.pci_id(item.get("pci_id"))) is not None
    )
