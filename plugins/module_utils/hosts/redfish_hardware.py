# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hardware of many hosts from their BMCs, the work of redfish_hardware_info."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from types import MappingProxyType

from ..base.boundary import InvalidField, shown, shown_text
from ..base.context import Context, Parameters, Result
from ..base.errors import TargetError, TargetFailure
from ..base.fields.lenient import member
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
from .host import Disk, Hardware, Host, HostSource, NetworkInterface, PciDevice, Processors
from .labels import RACK_LABELS, rack_of, with_labels

SPEC = reading_spec().merge(AUTHENTICATION)

_REDFISH = "Redfish"
_NO_TEXTS: t.Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class _Answer:
    """The hardware of one host; ``failure`` is the reason of missing parts."""

    hardware: Result
    failure: TargetFailure | None


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
            hardware.append({**place, **answer.hardware})
            if answer.failure is not None:
                errors.append(error_of(target.name, target.endpoint, answer.failure))
    result = {"hardware": hardware, "authentication": polled.authentication}
    return conclude(options, len(found), errors, result)


async def _work(client: Client, target: PollTarget) -> _Answer:
    walk = Walk(Tree(client), target.extra.get("system") or "")
    await walk.read()
    return _Answer(walk.hardware, walk.failure)


def host_of(
    entry: t.Any,
    source: HostSource = "Redfish",
    labels: t.Mapping[str, str] = _NO_TEXTS,
    annotations: t.Mapping[str, str] = _NO_TEXTS,
    rack_labels: t.Sequence[str] = RACK_LABELS,
) -> Host:
    """A host from an entry of ``hardware``, or from an inventory in the same form.

    Every fact is checked again, because results pass through files and variables. Labels and
    annotations come from an inventory. Raises InvalidField without a name.
    """
    name = member(entry, "name")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidField("name", f"{shown(name)} cannot be the name of a host")
    found = Facts()
    earlier = entry.get("findings")
    for sentence in earlier[:_MAX_SENTENCES] if isinstance(earlier, list) else []:
        found.note(shown_text(str(sentence)))
    hardware = with_labels(_hardware(entry, found), labels, annotations, found)
    booting = {port.mac for port in hardware.network_interfaces if port.boots and port.mac}
    given_rack = found.read(entry.get("rack"), "rack", facts.rack)
    return Host(
        name=name,
        source=source,
        labels=dict(labels),
        annotations=dict(annotations),
        hardware=hardware,
        boot_mac=booting.pop() if len(booting) == 1 else None,
        bmc_address=found.read(entry.get("endpoint"), "endpoint", _endpoint),
        rack=rack_of(labels, annotations, rack_labels, found) or given_rack,
        is_online=found.read(entry.get("is_on"), "is_on", facts.boolean),
        findings=found.findings,
    )


def _endpoint(value: t.Any, path: str) -> str:
    return redacted(facts.name(value, path))


def _hardware(entry: t.Any, found: Facts) -> Hardware:
    devices = entry.get("pci_devices")
    memory, gpus = facts.whole(1, facts.MAX_MEMORY_MIB), facts.whole(0, facts.MAX_GPUS)
    return Hardware(
        processors=_processors(found.read(entry.get("processors"), "processors", _mapping), found),
        memory_mib=found.read(entry.get("memory_mib"), "memory_mib", memory),
        network_interfaces=_interfaces(entry.get("network_interfaces"), found),
        disks=_disks(entry.get("disks"), found),
        pci_devices=None if devices is None else _pci_devices(devices, found),
        has_qat=found.read(entry.get("has_qat"), "has_qat", facts.boolean),
        gpus=found.read(entry.get("gpus"), "gpus", gpus),
        sriov_enabled=found.read(entry.get("sriov_enabled"), "sriov_enabled", facts.boolean),
        manufacturer=found.read(entry.get("manufacturer"), "manufacturer", facts.name),
        product=found.read(entry.get("product"), "product", facts.name),
        serial_number=found.read(entry.get("serial_number"), "serial_number", facts.name),
    )


def _processors(given: t.Mapping[str, t.Any] | None, found: Facts) -> Processors:
    parsers: tuple[tuple[str, t.Callable[[t.Any, str], t.Any]], ...] = (
        ("count", facts.whole(1, facts.MAX_THREADS)),
        ("model", facts.name),
        ("architecture", facts.architecture),
        ("flags", facts.flags),
    )
    values = given or {}
    return Processors(
        **{key: found.read(values.get(key), f"processors.{key}", parse) for key, parse in parsers}
    )


def _mapping(value: t.Any, path: str) -> t.Mapping[str, t.Any]:
    if not isinstance(value, dict):
        raise InvalidField(path, f"{shown(value)} is not a mapping")
    return value


def _interfaces(value: t.Any, found: Facts) -> tuple[NetworkInterface, ...]:
    ports = []
    for place, item in found.items(value, "network_interfaces", facts.MAX_INTERFACES):
        identifier = pci.pci_id(item.get("pci_id"))
        told = found.read(item.get("can_sriov"), f"{place}.can_sriov", facts.boolean)
        ports.append(
            NetworkInterface(
                name=found.read(item.get("name"), f"{place}.name", facts.name) or "",
                mac=found.read(item.get("mac"), f"{place}.mac", facts.mac_address),
                ip=found.read(item.get("ip"), f"{place}.ip", facts.host_address),
                ip6=found.read(item.get("ip6"), f"{place}.ip6", facts.host_address),
                pci_id=identifier,
                gigabits=found.read(item.get("gigabits"), f"{place}.gigabits", facts.gigabits),
                boots=found.read(item.get("boots"), f"{place}.boots", facts.boolean),
                can_sriov=pci.can_sriov(identifier) if told is None else told,
            )
        )
    return tuple(ports)


def _disks(value: t.Any, found: Facts) -> tuple[Disk, ...] | None:
    if not isinstance(value, list):
        found.items(value, "disks", 0)
        return None
    size = facts.whole(1, facts.MAX_BYTES)
    return tuple(
        Disk(
            name=found.read(item.get("name"), f"{place}.name", facts.name) or "",
            size_bytes=found.read(item.get("size_bytes"), f"{place}.size_bytes", size),
            kind=found.read(item.get("kind"), f"{place}.kind", facts.disk_kind),
        )
        for place, item in found.items(value, "disks", facts.MAX_DISKS)
    )


def _pci_devices(value: t.Any, found: Facts) -> tuple[PciDevice, ...]:
    items = found.items(value, "pci_devices", facts.MAX_PCI_DEVICES)
    return tuple(
        PciDevice(identifier, found.read(item.get("name"), f"{place}.name", facts.name) or "")
        for place, item in items
        if (identifier := pci.pci_id(item.get("pci_id"))) is not None
    )


_MAX_SENTENCES = 20
