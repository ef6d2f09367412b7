# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Walk over the hardware in a BMC's Redfish tree.

Vendors put the same facts in different places. Dell names PCI devices beside each network function.
HPE lists them under Oem, and disk controllers under SmartStorage. Supermicro and AMI add a suffix
to BIOS attributes. OpenBMC has neither interfaces of the system nor attributes.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ...base.context import Result
from ...base.errors import TargetFailure
from ...base.fields.lenient import member, number, objects, whole
from ...base.json_types import Object
from ..links import identity, last_segment, link, links, name_of, natural_order
from ..systems import Member, find_systems
from ..tree import Tree
from . import facts, pci
from .facts import Facts

# A finding about processors whose cores count as threads.
CORES_COUNTED = "processors: the BMC reports no threads, so cores are counted"
_MAX_CHASSIS = 8
_MAX_READ = 256  # members of one collection
_CLASSES = {
    "NetworkController": "020000",
    "MassStorageController": "010000",
    "DisplayController": "030000",
    "Bridge": "060000",
    "Coprocessor": "0b4000",
    "ProcessingAccelerators": "120000",
}
_NETWORK, _BRIDGE = "02", "06"
# Dell; HPE; Lenovo; Supermicro and AMI, whose attributes may end in a number of the build.
_SRIOV_SWITCH = re.compile(
    r"sriovglobalenable|sriov|devicesandioportssriov|sriovsupport(?:[0-9a-f]{3,4})?", re.ASCII
)
_ON, _OFF = (
    frozenset({"enabled", "enable", "on", "true"}),
    frozenset({"disabled", "disable", "off", "false"}),
)
_MAX_ATTRIBUTES = 5000
_MAX_ATTRIBUTE_LENGTH = 128


@dataclass(frozen=True)
class Function:
    """A function on the PCI bus; ``device`` is the URI of its device, or of itself."""

    uri: str
    device: str
    pci_id: str
    class_code: str
    name: str
    uefi_path: str = ""


@dataclass
class Bus:
    """The PCI bus as listed by the BMC; ``is_whole`` if it has more than adapters."""

    functions: dict[str, Function] = field(default_factory=dict)
    was_listed: bool = False
    is_complete: bool = True

    def add(self, uri: str, device: str, body: Object, name: str = "") -> None:
        """Add a function in the standard's form; the name is that of its device."""
        code = pci.class_code(body.get("ClassCode"))
        code = code or _CLASSES.get(name_of(body.get("DeviceClass")), "")
        pci_id = pci.pci_id_of(body.get("VendorId"), body.get("DeviceId"))
        self._add(uri, device, pci_id, code, name or name_of(body.get("Name")))

    def add_hpe_device(self, uri: str, body: Object) -> None:
        """Add a device in iLO's own form: decimal numbers, and the class without its interface."""
        parts = [pci.hexadecimal(body.get(key), 2) for key in ("ClassCode", "SubclassCode")]
        code = "".join(part or "" for part in parts).ljust(6, "0") if parts[0] else ""
        pci_id = pci.pci_id_of(body.get("VendorID"), body.get("DeviceID"))
        self._add(
            uri, uri, pci_id, code, name_of(body.get("Name")), name_of(body.get("UEFIDevicePath"))
        )

    def _add(self, uri: str, device: str, pci_id: str | None, code: str, *names: str) -> None:
        """Add a new function if it has an identifier; beyond a limit the bus is incomplete."""
        self.was_listed = True
        if pci_id is None:
            return
        function = Function(uri, device, pci_id, code, *names)
        if len(self.functions) < facts.MAX_PCI_DEVICES:
            self.functions.setdefault(function.uri, function)
        elif function.uri not in self.functions:
            self.is_complete = False

    @property
    def is_whole(self) -> bool:
        """Whether an unlisted device does not exist.

        Most BMCs list only adapters, and QuickAssist is a part of the chipset or the processor. A
        BMC that lists bridges lists the chipset.
        """
        bridges = any(item.class_code.startswith(_BRIDGE) for item in self.functions.values())
        return self.is_complete and bridges

    def of_device(self, uris: t.Iterable[str]) -> str | None:
        """The identifier of the network functions of these devices or functions."""
        known = {identity(uri) for uri in uris}
        ids = {
            item.pci_id
            for item in self.functions.values()
            if known & {item.uri, item.device} and item.class_code[:2] in ("", _NETWORK)
        }
        return ids.pop() if len(ids) == 1 else None

    def at_path(self, path: str) -> str | None:
        """The identifier of the function with this UEFI path, or on the path to it."""
        found = (
            item.pci_id
            for item in self.functions.values()
            if item.uefi_path and (path == item.uefi_path or path.startswith(f"{item.uefi_path}/"))
        )
        return next(found, None) if path else None

    def hardware(self, gpus: int | None) -> Result:
        """GPUs, QuickAssist and devices; ``gpus`` are those among the processors."""
        functions = self.functions.values()
        there = {item.device for item in functions if pci.is_gpu(item.pci_id, item.class_code)}
        counted = max(gpus or 0, len(there))
        has_qat = any(pci.is_quick_assist(item.pci_id) for item in functions)
        return {
            "gpus": counted if counted or self.is_complete else None,
            "has_qat": True if has_qat else False if self.is_whole else None,
            "pci_devices": [
                {"pci_id": item.pci_id, "name": item.name}
                for item in functions
                if not item.class_code.startswith(_NETWORK)
            ],
        }

    @property
    def only_network(self) -> str | None:
        """The identifier of all network functions, if they have one in common."""
        ids = {
            item.pci_id for item in self.functions.values() if item.class_code.startswith(_NETWORK)
        }
        return ids.pop() if len(ids) == 1 else None


class _Ports:
    """The ports of network adapters by their MAC address."""

    def __init__(self, bus: Bus, found: Facts) -> None:
        self._bus, self._found = bus, found
        self._by_mac: dict[str, Result] = {}

    def add(self, uri: str, body: Object) -> Result | None:
        """Add an interface, or what it adds to a known port; None without a MAC address."""
        given = body.get("PermanentMACAddress") or body.get("MACAddress")
        mac = self._found.read(given, f"MACAddress of {uri}", facts.mac_address)
        if mac is None:
            return None
        speed = number(body.get("SpeedMbps"))
        name = name_of(body.get("Id")) or last_segment(uri)
        new = {"name": name, "mac": mac, **dict.fromkeys(_PORT), "uefi_path": ""}
        port = self._by_mac.setdefault(mac, new)
        known = (port["ip"], port["ip6"])
        port["ip"], port["ip6"] = facts.of_port((*known, *self._addresses(uri, body)))
        port["gigabits"] = port["gigabits"] or (speed / 1000 if speed and speed > 0 else None)
        port["uefi_path"] = port["uefi_path"] or name_of(body.get("UefiDevicePath"))
        return port

    def _addresses(self, uri: str, body: Object) -> list[str | None]:
        entries = [*objects(body.get("IPv4Addresses")), *objects(body.get("IPv6Addresses"))]
        given = [entry.get("Address") for entry in entries[:8]]
        return [
            self._found.read(each, f"address of {uri}", facts.host_address)
            for each in given
            if each not in (None, "", "0.0.0.0", "::")
        ]

    def add_adapter(self, adapter: Object, functions: t.Iterable[Member]) -> None:
        """Add the ports of an adapter by its network functions."""
        controllers = objects(adapter.get("Controllers"))[:16]
        devices = [
            uri for item in controllers for uri in links(member(item, "Links", "PCIeDevices"))
        ]
        of_adapter = self._bus.of_device(devices)
        told = any(member(item, *_SRIOV_CAPABLE) is True for item in controllers)
        for uri, body in functions:
            ethernet = next(iter(objects([body.get("Ethernet")])), {})
            port = self.add(uri, {**ethernet, "Id": body.get("Id")})
            if port is None:
                continue
            dell = member(body, "Oem", "Dell", "DellNIC")
            port["pci_id"] = (
                pci.pci_id_of(member(dell, "PCIVendorID"), member(dell, "PCIDeviceID"))
                or self._bus.of_device(links(member(body, "Links", "PCIeFunction")))
                or of_adapter
            )
            virtual = whole(body.get("MaxVirtualFunctions")) or 0
            port["can_sriov"] = True if told or virtual > 0 else None
            mode = name_of(body.get("BootMode")).lower()
            port["boots"] = mode == "pxe" if mode else None

    def listed(self) -> list[Result]:
        """The ports in the order of their names, with identifiers as far as the bus has them."""
        for port in self._by_mac.values():
            path = port.pop("uefi_path")
            port["pci_id"] = port["pci_id"] or self._bus.at_path(path) or self._bus.only_network
            # A missing statement of the BMC does not exclude virtual functions.
            port["can_sriov"] = port["can_sriov"] or pci.can_sriov(port["pci_id"])
        ordered = sorted(self._by_mac.values(), key=lambda port: natural_order(port["name"]))
        return ordered[: facts.MAX_INTERFACES]


class Walk:
    """One BMC's hardware. ``hardware`` has the facts so far, ``failure`` the first defect.

    ``system`` is the path of the computer system, for BMCs of several servers.
    """

    def __init__(self, tree: Tree, system: str = "") -> None:
        self._tree = tree
        self._wanted = identity(system)
        self._found = Facts()
        self._systems: list[Member] = []
        self._chassis: list[Member] = []
        self._bus = Bus()
        self.hardware: Result = {}
        self.failure: TargetFailure | None = None

    async def read(self) -> None:
        """Read all. Raises TargetFailure if not even the system could be read."""
        await self._read_system()
        try:
            await self._read_chassis()
            await self._read_processors()
            await self._read_memory()
            await self._read_bus()
            await self._read_network()
            await self._read_disks()
            await self._read_switch()
        except TargetFailure as failure:
            self.failure = failure
        if self.failure is None and self._tree.failures:
            self.failure = self._tree.failures[0]
        self.hardware["findings"] = list(self._found.findings)

    @property
    def _system(self) -> Object:
        return self._systems[0][1]

    async def _members(self, value: t.Any) -> list[Member]:
        return await _resources(self._tree, value) or []

    async def _read_system(self) -> None:
        root, systems = await find_systems(self._tree, self._wanted)
        self._systems = [(identity(uri), body) for uri, body in systems]
        uri, body = self._systems[0]
        maker = name_of(body.get("Manufacturer")) or name_of(root.get("Vendor"))
        # The serial number belongs to the board; the service tag is the SKU.
        serial = ("SKU", "SerialNumber") if maker.lower().startswith("dell") else ("SerialNumber",)
        self.hardware.update(
            {
                "system_uri": uri,
                "manufacturer": maker or None,
                "product": name_of(body.get("Model")) or None,
                "serial_number": next(
                    filter(None, (name_of(body.get(key)) for key in serial)), None
                ),
                "is_on": {"on": True, "off": False}.get(name_of(body.get("PowerState")).lower()),
                **_NOT_READ,
            }
        )

    async def _read_chassis(self) -> None:
        for uri in links(member(self._system, "Links", "Chassis"))[:_MAX_CHASSIS]:
            body = await self._tree.read(uri)
            if body is not None:
                self._chassis.append((identity(uri), body))
        racks = [member(body, "Location", "Placement", "Rack") for _uri, body in self._chassis]
        self.hardware["rack"] = next(filter(None, map(name_of, racks)), None)

    async def _read_processors(self) -> None:
        found: list[Object] = []
        gpus = 0
        before = len(self._tree.failures)
        for uri, system in self._systems:
            for _uri, body in await self._members(link(system.get("Processors"))):
                kind = name_of(body.get("ProcessorType")) or "CPU"
                gpus += kind == "GPU"
                if kind == "CPU" and uri == self._systems[0][0]:
                    found.append(body)
        self.hardware["gpus"] = gpus or None
        is_complete = len(self._tree.failures) == before
        self.hardware["processors"] = _processors(
            self._system, found if is_complete else [], self._found
        )

    async def _read_memory(self) -> None:
        """The summary if it is a whole number of GiB, because some firmware uses GB or rounds."""
        gib = number(member(self._system, "MemorySummary", "TotalSystemMemoryGiB"))
        if gib is None or gib <= 0 or gib != int(gib):
            before = len(self._tree.failures)
            modules = await self._members(link(self._system.get("Memory")))
            mib = _sum([body.get("CapacityMiB") for _uri, body in modules], 0)
            if mib and len(self._tree.failures) == before:
                self.hardware["memory_mib"] = min(mib, facts.MAX_MEMORY_MIB)
                return
        if gib is not None and 0 < gib <= facts.MAX_MEMORY_MIB / 1024:
            self.hardware["memory_mib"] = round(gib * 1024)

    async def _read_bus(self) -> None:
        before = len(self._tree.failures)
        bodies = [*self._chassis, self._systems[0]]
        for _uri, body in bodies:
            for value in (body.get("PCIeDevices"), member(body, "Links", "PCIeDevices")):
                await self._read_devices(value)
        for uri, body in await self._members(self._system.get("PCIeFunctions")):
            self._bus.add(uri, uri, body)
        oem = member(self._system, "Oem", "Hpe", "Links", "PCIDevices")
        for uri, body in await self._members(link(oem)):
            self._bus.add_hpe_device(uri, body)
        if not self._bus.is_complete:
            self._found.note(f"PCI devices: only the first {facts.MAX_PCI_DEVICES} are read")
        self._bus.is_complete &= len(self._tree.failures) == before
        if not self._bus.was_listed:
            return
        self.hardware.update(self._bus.hardware(self.hardware["gpus"]))

    async def _read_devices(self, value: t.Any) -> None:
        for uri, body in await self._members(value):
            given = body.get("PCIeFunctions") or member(body, "Links", "PCIeFunctions")
            for function_uri, function in await self._members(given):
                self._bus.add(function_uri, uri, function, name_of(body.get("Name")))

    async def _read_network(self) -> None:
        ports = _Ports(self._bus, self._found)
        for uri, body in await self._members(link(self._system.get("EthernetInterfaces"))):
            ports.add(uri, body)
        for uri in await self._adapters():
            adapter = await self._tree.read(uri)
            if adapter is not None and not _is_absent(adapter):
                functions = await self._members(link(adapter.get("NetworkDeviceFunctions")))
                ports.add_adapter(adapter, functions)
        self.hardware["network_interfaces"] = ports.listed()

    async def _adapters(self) -> list[str]:
        """The URIs of the network adapters, from the chassis or from links of interfaces."""
        uris: dict[str, str] = {}
        for _uri, body in self._chassis:
            for uri in await self._tree.members(link(body.get("NetworkAdapters"))) or []:
                uris[identity(uri)] = uri
        for _uri, body in await self._members(link(self._system.get("NetworkInterfaces"))):
            for uri in links(member(body, "Links", "NetworkAdapter")):
                uris.setdefault(identity(uri), uri)
        return list(uris.values())[:_MAX_READ]

    async def _read_disks(self) -> None:
        disks: dict[str, Result] = {}
        controllers = await _resources(self._tree, link(self._system.get("Storage")))
        for _uri, body in controllers or []:
            for uri, drive in await self._members(body.get("Drives")):
                _add_disk(disks, uri, drive)
        smart = await self._smart_storage()
        for uri, drive in smart or []:
            _add_disk(disks, uri, drive)
        if controllers is None and smart is None:
            simple = await _resources(self._tree, link(self._system.get("SimpleStorage")))
            for uri, body in simple or []:
                for index, device in enumerate(objects(body.get("Devices"))[:_MAX_READ]):
                    _add_disk(disks, f"{uri}#{index}", device)
            if simple is None:
                return
        ordered = sorted(disks.values(), key=lambda disk: natural_order(disk["name"]))
        self.hardware["disks"] = ordered[: facts.MAX_DISKS]

    async def _smart_storage(self) -> list[Member] | None:
        """The drives behind controllers that iLO lists under a separate resource."""
        oem = member(self._system, "Oem", "Hpe", "Links", "SmartStorage")
        body = await self._tree.read(link(oem)) if oem else None
        if body is None:
            return None
        found: list[Member] = []
        given = member(body, "Links", "ArrayControllers") or body.get("ArrayControllers")
        for _uri, controller in await self._members(link(given)):
            found += await self._members(link(member(controller, "Links", "PhysicalDrives")))
        return found

    async def _read_switch(self) -> None:
        """The switch for SR-IOV in the attributes of the BIOS, if the vendor has one."""
        body = await self._tree.read(link(self._system.get("Bios")))
        attributes = member(body, "Attributes")
        if not isinstance(attributes, dict):
            return
        for key, value in list(attributes.items())[:_MAX_ATTRIBUTES]:
            plain = re.sub(r"[^a-z0-9]", "", str(key)[:_MAX_ATTRIBUTE_LENGTH].lower())
            if _SRIOV_SWITCH.fullmatch(plain):
                given = str(value).lower() if isinstance(value, (str, bool)) else ""
                state = True if given in _ON else False if given in _OFF else None
                self.hardware["sriov_enabled"] = state
                return


async def _resources(tree: Tree, value: t.Any) -> list[Member] | None:
    """The present resources of a list of links, or of a linked collection; None without one."""
    is_list = isinstance(value, list)
    entries = value if is_list else await tree.entries(link(value), "Members", expand=True)
    if entries is None:
        return None
    found: dict[str, Object] = {}
    for entry in entries[:_MAX_READ]:
        uri = link(entry)
        is_whole = isinstance(entry, dict) and len(entry) > 1
        body = entry if is_whole else await tree.read(uri)
        if uri and isinstance(body, dict) and not _is_absent(body):
            found.setdefault(identity(uri), body)
    return list(found.items())


_PORT = ("ip", "ip6", "pci_id", "gigabits", "boots", "can_sriov")
_SRIOV_CAPABLE = ("ControllerCapabilities", "VirtualizationOffload", "SRIOV", "SRIOVVEPACapable")
# Unknown parts if a BMC stops answering.
_NOT_READ: t.Mapping[str, t.Any] = {
    "rack": None,
    "processors": dict.fromkeys(("count", "cores", "sockets", "model", "architecture")),
    "memory_mib": None,
    "network_interfaces": [],
    "disks": None,
    "pci_devices": None,
    "has_qat": None,
    "gpus": None,
    "sriov_enabled": None,
}


def _add_disk(disks: dict[str, Result], uri: str, body: Object) -> None:
    if _is_absent(body):
        return
    size = number(body.get("CapacityBytes"))
    mib = number(body.get("CapacityMiB"))
    size = mib * 2**20 if size is None and mib is not None else size
    usable = size is not None and 0 < size <= facts.MAX_BYTES
    protocol = name_of(body.get("Protocol") or body.get("InterfaceType")).upper()
    kind = name_of(body.get("MediaType")).upper()
    disks[identity(uri) if "#" not in uri else uri] = {
        "name": name_of(body.get("Id")) or name_of(body.get("Name")),
        "size_bytes": int(size) if usable and size is not None else None,
        "kind": "NVME" if "NVME" in protocol else kind if kind in ("HDD", "SSD") else None,
    }


def _is_absent(body: Object) -> bool:
    return name_of(member(body, "Status", "State")).lower() in ("absent", "unavailableoffline")


def _processors(system: Object, found: t.Sequence[Object], host: Facts) -> Result:
    summary = member(system, "ProcessorSummary") or {}
    threads = _sum([body.get("TotalThreads") for body in found])
    cores = _sum([body.get("TotalCores") for body in found])
    count = threads or _positive(member(summary, "LogicalProcessorCount"))
    cores = cores or _positive(member(summary, "CoreCount"))
    if count is None and cores is not None:
        host.note(CORES_COUNTED)
        count = cores
    names = [body.get("Model") for body in found] + [member(summary, "Model")]
    sets = [(body.get("InstructionSet"), body.get("ProcessorArchitecture")) for body in found]
    given = next((name_of(item) for pair in sets for item in pair if name_of(item)), None)
    return {
        "count": count,
        "cores": cores,
        "sockets": len(found) or _positive(member(summary, "Count")),
        "model": next(filter(None, map(name_of, names)), None),
        "architecture": host.read(given, "InstructionSet", facts.architecture),
    }


def _positive(value: t.Any) -> int | None:
    found = whole(value)
    return found if found is not None and 0 < found <= facts.MAX_THREADS else None


def _sum(values: t.Sequence[t.Any], missing: int | None = None) -> int | None:
    """The sum; None if a term is unknown, unless it counts as ``missing``."""
    known = [found if (found := whole(value)) and found > 0 else missing for value in values]
    if not known or None in known:
        return None
    return sum(item for item in known if item is not None)
