# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BareMetalHosts of Metal3 as hosts.

Inspection and BMCs write ``status.hardware``, and many people labels and annotations. A broken fact
is unknown and a finding of its host, and does not affect other hosts. An unreadable value that
decides whether a host is free counts as taken or in error.
"""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import replace
from types import MappingProxyType

from ..base import strict_json
from ..base.boundary import Finding, InvalidField, shown
from ..base.fields import strict
from ..base.json_types import Object
from ..base.units import parse_time
from ..fleet.urls import redacted
from ..kube.client import Kube
from ..redfish.hardware import facts, pci
from ..redfish.hardware.facts import Facts
from . import redfish_hardware
from .host import Hardware, Host, NetworkInterface, Processors, read_each_host
from .host_hardware import HostsOfBmcs, completed, facts_about, hosts_of_bmcs
from .labels import RACK_LABELS, rack_of, with_labels
from .redfish_hardware import MEMORY, PROCESSORS, SYSTEM, disks_of, interface_of, members

KIND = "BareMetalHost"
API_VERSION = "metal3.io/v1alpha1"
HARDWARE_DETAILS = "inspect.metal3.io/hardwaredetails"
UNREADABLE = "unreadable"

_MAX_ADDRESS_LENGTH = 2048
_MAX_ANNOTATION_LENGTH = 4096
_MAX_ERROR_LENGTH = 1024
_DETAILS = strict_json.JsonLimits(size=256 * 1024, members=20_000, depth=16)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PORT_NAMES = {"gigabits": "speedGbps", "boots": "pxe"}
_DISK_NAMES = {"size_bytes": "sizeBytes", "kind": "type"}
_SYSTEM_NAMES = {"product": "productName", "serial_number": "serialNumber"}
_NO_BMCS: HostsOfBmcs = MappingProxyType({})


class Hosts(t.NamedTuple):
    """Hosts in the order of the objects. ``findings`` are all defects, even without a host."""

    hosts: list[Host]
    findings: list[Finding]


def read_hosts(
    objects: t.Sequence[t.Any],
    rack_labels: t.Sequence[str] = RACK_LABELS,
    of_bmcs: HostsOfBmcs = _NO_BMCS,
) -> Hosts:
    """The BareMetalHosts as hosts. An object without a usable name gives no host.

    ``of_bmcs`` are the hosts as their BMCs see them.
    """
    findings: list[Finding] = []
    read = functools.partial(host_of, rack_labels=rack_labels, of_bmcs=of_bmcs)
    return Hosts(read_each_host(objects, KIND, read, findings), findings)


def read_all_hosts(
    given: t.Sequence[t.Any], hardware: t.Sequence[t.Any], host_hardware: t.Sequence[t.Any] = ()
) -> tuple[list[Host], list[Finding]]:
    """The given BareMetalHosts, and hosts known only from Redfish; each defect affects only its host.

    ``host_hardware`` are objects that complete the BareMetalHosts.
    """
    of_bmcs, findings = hosts_of_bmcs(host_hardware)
    hosts, defects = read_hosts(given, of_bmcs=of_bmcs)
    findings += defects
    hosts += read_each_host(hardware, "Host", redfish_hardware.host_of, findings, "hardware")
    return hosts, findings


def list_objects(
    kube: Kube, namespaces: t.Sequence[str] = (), selector: str | None = None
) -> list[Object]:
    """The BareMetalHosts of these namespaces, or of all, with the fields in use.

    Raises UnknownKind for a cluster without Metal3, and ApiError.
    """
    resource = kube.resource(API_VERSION, KIND)
    query = {"labelSelector": selector} if selector else {}
    return [
        obj
        for namespace in namespaces or [""]
        for obj in kube.list(resource.collection(namespace), query, _trimmed)
    ]


def host_of(
    obj: t.Any, rack_labels: t.Sequence[str] = RACK_LABELS, of_bmcs: HostsOfBmcs = _NO_BMCS
) -> Host:
    """One BareMetalHost as a host. Raises InvalidField for an object without a usable name."""
    metadata = strict.mapping(strict.mapping(obj, "").get("metadata"), "metadata")
    name = strict.required_text(metadata.get("name"), "metadata.name")
    if not strict.is_subdomain(name):
        raise InvalidField("metadata.name", f"{shown(name)} is not the name of a {KIND}")
    namespace = metadata.get("namespace") or ""
    if namespace:
        namespace = strict.object_name(namespace, "metadata.namespace")
    found = Facts()
    spec, status = _part(found, obj, "spec"), _part(found, obj, "status")
    bmc = _part(found, spec, "bmc", "spec")
    labels, annotations = (_texts(metadata, part, found) for part in ("labels", "annotations"))
    details = _hardware_details(status, annotations, found)
    hardware = _hardware(details, spec, found)
    host = Host(
        name=name,
        source="BareMetalHost",
        namespace=namespace,
        uid=_text(metadata, "uid", "metadata", found) or "",
        resource_version=_text(metadata, "resourceVersion", "metadata", found) or "",
        labels=labels,
        annotations=annotations,
        bmc_address=found.read(bmc.get("address"), "spec.bmc.address", _bmc_address),
        state=_state(status, found),
        operational_status=_operational_status(obj, status, annotations, found),
        error_message=found.read(status.get("errorMessage"), "status.errorMessage", _message) or "",
        is_online=found.read(status.get("poweredOn"), "status.poweredOn", facts.boolean),
        consumer=_consumer(spec.get("consumerRef"), found),
        inspected_at=_inspected_at(status, found),
    )
    host = _with_hardware(host, hardware, of_bmcs.get((namespace, name)), rack_labels, found)
    return _with_access(host, spec, bmc, found)


def _with_hardware(
    host: Host,
    hardware: Hardware,
    by_bmc: Host | None,
    rack_labels: t.Sequence[str],
    found: Facts,
) -> Host:
    """The host with the facts of all sources; facts of another host's BMC are a finding."""
    by_bmc = facts_about(host, by_bmc, found)
    if by_bmc is not None:
        hardware = completed(hardware, by_bmc, host.inspected_at)
    rack = rack_of(host.labels, host.annotations, rack_labels, found)
    rack = rack or (by_bmc.rack if by_bmc else None)
    hardware = with_labels(hardware, host.labels, host.annotations, found)
    return replace(host, hardware=hardware, rack=rack)


def _with_access(host: Host, spec: Object, bmc: Object, found: Facts) -> Host:
    """The host with its boot port, its Secrets and all findings."""
    user_data = _part(found, spec, "userData", "spec")
    boot_mac = found.read(spec.get("bootMACAddress"), "spec.bootMACAddress", facts.mac_address)
    ports = host.hardware.network_interfaces
    booting = {port.mac for port in ports if port.boots and port.mac}
    credentials, object_name = bmc.get("credentialsName"), strict.object_name
    return replace(
        host,
        # Else the MAC address of the only port that the host booted from.
        boot_mac=boot_mac or (booting.pop() if len(booting) == 1 else None),
        bmc_credentials_name=found.read(credentials, "spec.bmc.credentialsName", object_name),
        user_data_secret=found.read(
            _own_secret(user_data, host, found), "spec.userData.name", object_name
        ),
        findings=found.findings,
    )


def _inspected_at(status: Object, found: Facts) -> datetime.datetime | None:
    place = "status.operationHistory"
    history = _part(found, status, "operationHistory", "status")
    last = _part(found, history, "inspect", place)
    return found.read(last.get("end"), f"{place}.inspect.end", parse_time)


def _own_secret(reference: Object, host: Host, found: Facts) -> t.Any:
    """The name in a reference to a Secret of the host's namespace; None for another namespace."""
    namespace = reference.get("namespace")
    if namespace in (None, "", host.namespace):
        return reference.get("name")
    found.note(
        f"spec.userData.namespace: {shown(namespace)} is not the namespace of the host; the user "
        "data of another namespace is not read"
    )
    return None


def _trimmed(obj: dict[str, t.Any]) -> dict[str, t.Any]:
    """The object without its managed fields; a defective one stays for its own boundary."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    annotations = kept.get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {
            key: value for key, value in annotations.items() if key != _LAST_APPLIED
        }
    return {**obj, "metadata": kept}


def _part(found: Facts, parent: Object, name: str, path: str = "") -> Object:
    """A member that must be a mapping; empty with a finding if it is broken."""
    place = f"{path}.{name}" if path else name
    return found.read(parent.get(name), place, strict.mapping) or {}


def _texts(metadata: Object, part: str, found: Facts) -> dict[str, str]:
    """The labels or annotations without broken entries.

    Long annotations are left out as well, except the one with the hardware.
    """
    given = found.read(metadata.get(part), f"metadata.{part}", strict.mapping) or {}
    result = {}
    for key, value in given.items():
        if not _is_text(key) or not _is_text(value):
            found.note(f"metadata.{part}: {shown(key)} has no text in UTF-8")
        elif key == HARDWARE_DETAILS or len(value) <= _MAX_ANNOTATION_LENGTH:
            result[key] = value
    result.pop(_LAST_APPLIED, None)
    return result


def _is_text(value: t.Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _hardware_details(status: Object, annotations: dict[str, str], found: Facts) -> Object:
    """``status.hardware``, else the annotation with the data of an external inspection.

    The annotation is removed from the others, because it is long.
    """
    text = annotations.pop(HARDWARE_DETAILS, None)
    details = _part(found, status, "hardware", "status")
    if details or not text:
        return details

    def parse(value: t.Any, path: str) -> Object:
        try:
            return strict.mapping(strict_json.parse(value, _DETAILS), path)
        except ValueError as error:
            raise InvalidField(path, f"it is not JSON: {error}") from error

    return found.read(text, HARDWARE_DETAILS, parse) or {}


def _hardware(details: Object, spec: Object, found: Facts) -> Hardware:
    place = "status.hardware"
    vendor, cpu = (_part(found, details, name, place) for name in ("systemVendor", "cpu"))
    firmware = _part(found, spec, "firmware", "spec")
    processors = members(found, cpu, f"{place}.cpu.", PROCESSORS, {"architecture": "arch"})
    return Hardware(
        processors=Processors(**processors),
        network_interfaces=_interfaces(details.get("nics"), f"{place}.nics", found),
        disks=disks_of(found, details.get("storage"), f"{place}.storage", _DISK_NAMES),
        sriov_enabled=found.read(
            firmware.get("sriovEnabled"), "spec.firmware.sriovEnabled", facts.boolean
        ),
        **members(found, details, f"{place}.", MEMORY, {"memory_mib": "ramMebibytes"}),
        **members(found, vendor, f"{place}.systemVendor.", SYSTEM, _SYSTEM_NAMES),
    )


def _text(parent: Object, key: str, place: str, found: Facts) -> str | None:
    return found.read(parent.get(key), f"{place}.{key}", facts.name)


def _interfaces(value: t.Any, path: str, found: Facts) -> tuple[NetworkInterface, ...]:
    """The ports; inspection lists one with two addresses twice."""
    ports: dict[t.Any, NetworkInterface] = {}
    for place, item in found.items(value, path, facts.MAX_INTERFACES):
        # The identifier in a model such as ``0x8086 0x1572``; other models are names.
        model = found.read(item.get("model"), f"{place}.model", facts.name)
        port = interface_of(found, item, place, pci.pci_id(model), _PORT_NAMES)
        key = (port.name, port.mac) if port.mac else place
        known = ports.get(key, port)
        ip, ip6 = facts.of_port((known.ip, known.ip6, port.ip))
        ports[key] = replace(known, ip=ip, ip6=ip6)
    return tuple(ports.values())


def _bmc_address(value: t.Any, path: str) -> str:
    """The address of the BMC, without user name and password. Raises InvalidField."""
    if not isinstance(value, str) or len(value) > _MAX_ADDRESS_LENGTH or not value.isprintable():
        raise InvalidField(path, f"{shown(value)} is not an address of a BMC")
    return redacted(value.strip())


def _message(value: t.Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidField(path, f"{shown(value)} is not a text")
    return "".join(char if char.isprintable() else " " for char in value[:_MAX_ERROR_LENGTH])


def _decisive(value: t.Any, path: str, found: Facts) -> str:
    """A text that decides whether the host is free; ``unreadable`` for a broken one."""
    if value is None or value == "":
        return ""
    return found.read(value, path, facts.name) or UNREADABLE


def _state(status: Object, found: Facts) -> str:
    provisioning = _part(found, status, "provisioning", "status")
    if status.get("provisioning") is not None and not isinstance(status["provisioning"], dict):
        return UNREADABLE
    return _decisive(provisioning.get("state"), "status.provisioning.state", found)


def _operational_status(obj: Object, status: Object, annotations: Object, found: Facts) -> str:
    """``status.operationalStatus``; ``error`` if spec or status cannot be read.

    The annotation detaches a host before Metal3's operator has written the status.
    """
    parts = (obj.get("spec"), obj.get("status"))
    unreadable = any(part is not None and not isinstance(part, dict) for part in parts)
    given = _decisive(status.get("operationalStatus"), "status.operationalStatus", found)
    if unreadable or given == UNREADABLE:
        return "error"
    return "detached" if "baremetalhost.metal3.io/detached" in annotations else given


def _consumer(value: t.Any, found: Facts) -> str | None:
    """The consumer as ``kind/namespace/name``; ``unreadable`` for a broken reference."""
    if value is None:
        return None

    def parse(reference: t.Any, path: str) -> str:
        given = strict.mapping(reference, path)
        parts = [facts.name(given.get(key) or "", f"{path}.{key}") for key in _CONSUMER]
        return "/".join(parts)

    return found.read(value, "spec.consumerRef", parse) or UNREADABLE


_CONSUMER = ("kind", "namespace", "name")
