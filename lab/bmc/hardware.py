# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's hardware in the trees of the vendors, which have the same facts in different places.

Dell names PCI devices beside each network function and lists the bridges of the bus; HPE has
decimal numbers under Oem, and disks under SmartStorage; Lenovo links adapters to PCI devices;
Supermicro links nothing, and its attributes of the BIOS end in a number; OpenBMC has interfaces
under the adapters alone, no attributes, and a memory summary of 0. Empty slots are Absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lab.bmc.live import Live
from lab.bmc.odata import ABSENT, HEALTHY, Builder, Json, collection, fixed, link, links, resource
from lab.hardware import DRIVE_BAYS, GPU, GPU_SLOTS, PORTS, QUICK_ASSIST

_ABSENT_ID = "ffff:ffff"
_BRIDGE, _VIDEO = "8086:2030", "1a03:2000"


@dataclass(frozen=True)
class Layout:
    """Places of the facts in one vendor's tree.

    `switch` is the BIOS attribute for SR-IOV with its two values. `bus` is the place of the PCI
    devices; `adapters` says how network functions name their PCI device; "" means no adapters.
    """

    port: str = "{}"
    bus: Literal["system", "chassis", "oem"] = "system"
    adapters: Literal["", "dell", "function", "device"] = ""
    interfaces: bool = True
    switch: tuple[str, str, str] | None = None
    smart_storage: bool = False
    whole_bus: bool = False
    tells_rack: bool = False
    sku: bool = False


@dataclass(frozen=True)
class _Slot:
    """A slot for a PCI device; `identify` gives its identifier, None if the slot is empty."""

    name: str
    title: str
    class_code: str
    device_class: str
    identify: Callable[[Live], str | None]
    functions: int = 1


def _slots(layout: Layout) -> list[_Slot]:
    def gpu(number: int) -> _Slot:
        return _Slot(
            f"gpu-{number}",
            "NVIDIA A100 80GB",
            "0x030200",
            "DisplayController",
            lambda live: GPU if live.machine.hardware.gpus > number else None,
        )

    bridge = _Slot("bridge", "PCIe Root Port", "0x060400", "Bridge", lambda live: _BRIDGE)
    return [
        *([bridge] if layout.whole_bus else []),
        _Slot("video", "ASPEED Graphics", "0x030000", "DisplayController", lambda live: _VIDEO),
        _Slot(
            "nic",
            "Network adapter",
            "0x020000",
            "NetworkController",
            lambda live: live.machine.hardware.adapter.pci_id,
            PORTS,
        ),
        _Slot(
            "qat",
            "C62x Chipset QuickAssist Technology",
            "0x0b4000",
            "Coprocessor",
            lambda live: QUICK_ASSIST if live.machine.hardware.has_qat else None,
        ),
        *map(gpu, range(GPU_SLOTS)),
    ]


@dataclass(frozen=True)
class Parts:
    """The hardware of one vendor's trees: resources, and properties of system and chassis."""

    system: str
    chassis: str
    layout: Layout

    def resources(self) -> dict[str, Builder]:
        """All resources below the system and the chassis."""
        layout = self.layout
        entries = self._hpe_devices() if layout.bus == "oem" else self._devices()
        if layout.interfaces:
            entries |= self._interfaces()
        if layout.adapters:
            entries |= self._adapter()
        entries |= _smart_storage(self.system) if layout.smart_storage else _storage(self.system)
        return entries | _bios(self.system, layout)

    def system_properties(self, live: Live) -> Json:
        """Additional links and values of the system."""
        layout, serial = self.layout, live.machine.hardware.serial_number
        body: Json = {"Bios": link(f"{self.system}/Bios")}
        body |= (
            {"SKU": serial, "SerialNumber": f"CN{serial}00A"}
            if layout.sku
            else {"SerialNumber": serial}
        )
        if layout.bus == "system":
            body["PCIeDevices"] = links(self._device_path(slot) for slot in _slots(layout))
        if layout.interfaces:
            body["EthernetInterfaces"] = link(f"{self.system}/EthernetInterfaces")
        if not layout.smart_storage:
            return body | {"Storage": link(f"{self.system}/Storage")}
        oem = {
            "PCIDevices": link(f"{self.system}/PCIDevices"),
            "SmartStorage": link(f"{self.system}/SmartStorage"),
        }
        return body | {"Oem": {"Hpe": {"Links": oem}}}

    def chassis_properties(self, live: Live) -> Json:
        """Additional links and values of the main chassis."""
        body: Json = {}
        if self.layout.bus == "chassis":
            body["PCIeDevices"] = link(f"{self.chassis}/PCIeDevices")
        if self.layout.adapters:
            body["NetworkAdapters"] = link(f"{self.chassis}/NetworkAdapters")
        if self.layout.tells_rack:
            place = {"Rack": live.machine.rack, "RackOffset": live.machine.position}
            body["Location"] = {"Placement": place}
        return body

    def _device_path(self, slot: _Slot) -> str:
        folder = self.chassis if self.layout.bus == "chassis" else self.system
        return f"{folder}/PCIeDevices/{slot.name}"

    def _devices(self) -> dict[str, Builder]:
        entries: dict[str, Builder] = {}
        slots = _slots(self.layout)
        for slot in slots:
            path = self._device_path(slot)
            functions = [f"{path}/PCIeFunctions/{number}" for number in range(slot.functions)]
            entries |= collection(f"{path}/PCIeFunctions", "PCIeFunction", functions)
            entries[path] = _device(path, slot)
            entries |= {uri: _function(uri, slot) for uri in functions}
        if self.layout.bus == "chassis":
            paths = [self._device_path(slot) for slot in slots]
            entries |= collection(f"{self.chassis}/PCIeDevices", "PCIeDevice", paths)
        return entries

    def _hpe_devices(self) -> dict[str, Builder]:
        folder = f"{self.system}/PCIDevices"
        entries: dict[str, Builder] = {}
        for number, slot in enumerate(_slots(self.layout), start=1):
            for function in range(slot.functions):
                path = f"{folder}/{number}{function}"
                entries[path] = _hpe_device(path, slot, function)
        return collection(folder, "HpeServerPciDevice", list(entries)) | entries

    def _port_ids(self) -> list[str]:
        return [self.layout.port.format(number) for number in range(1, PORTS + 1)]

    def _interfaces(self) -> dict[str, Builder]:
        folder = f"{self.system}/EthernetInterfaces"

        def builder(path: str, number: int) -> Builder:
            def build(live: Live) -> Json:
                hardware = live.machine.hardware
                body = resource(path, "EthernetInterface.v1_6_0.EthernetInterface", "Interface")
                body |= {
                    "MACAddress": hardware.macs[number].upper(),
                    "SpeedMbps": 1000 * hardware.adapter.gigabits if number == 0 else 0,
                    "Status": dict(HEALTHY),
                }
                if self.layout.bus == "oem":
                    address = live.machine.internal_address if number == 0 else "0.0.0.0"
                    body["IPv4Addresses"] = [{"Address": address}]
                    body["UefiDevicePath"] = f"{_uefi_path(number)}/MAC({number})"
                return body

            return build

        paths = [f"{folder}/{name}" for name in self._port_ids()]
        entries = {path: builder(path, number) for number, path in enumerate(paths)}
        return collection(folder, "EthernetInterface", paths) | entries

    def _adapter(self) -> dict[str, Builder]:
        folder = f"{self.chassis}/NetworkAdapters"
        path = f"{folder}/adapter-1"
        functions = [f"{path}/NetworkDeviceFunctions/{name}" for name in self._port_ids()]
        device = self._device_path(next(slot for slot in _slots(self.layout) if slot.name == "nic"))

        def build(live: Live) -> Json:
            adapter = live.machine.hardware.adapter
            controller: Json = {"FirmwarePackageVersion": "1.0"}
            if self.layout.adapters == "device":
                controller["Links"] = {"PCIeDevices": [link(device)]}
            if self.layout.adapters == "dell":
                sriov = {"SRIOVVEPACapable": adapter.virtual_functions}
                offload = {"VirtualizationOffload": {"SRIOV": sriov}}
                controller["ControllerCapabilities"] = offload
            return resource(
                path,
                "NetworkAdapter.v1_5_0.NetworkAdapter",
                "Network Adapter",
                Model=adapter.name,
                Controllers=[controller],
                NetworkDeviceFunctions=link(f"{path}/NetworkDeviceFunctions"),
                Status=dict(HEALTHY),
            )

        entries: dict[str, Builder] = {path: build}
        for number, uri in enumerate(functions):
            entries[uri] = self._network_function(uri, number, f"{device}/PCIeFunctions/{number}")
        return {
            **collection(folder, "NetworkAdapter", [path]),
            **collection(f"{path}/NetworkDeviceFunctions", "NetworkDeviceFunction", functions),
            **entries,
        }

    def _network_function(self, uri: str, number: int, function: str) -> Builder:
        def build(live: Live) -> Json:
            hardware = live.machine.hardware
            body = resource(
                uri,
                "NetworkDeviceFunction.v1_5_0.NetworkDeviceFunction",
                "Network Function",
                BootMode="PXE" if number == 0 else "Disabled",
                Ethernet={"PermanentMACAddress": hardware.macs[number].upper()},
                Status=dict(HEALTHY),
            )
            if self.layout.adapters == "dell":
                vendor, device = hardware.adapter.pci_id.upper().split(":")
                nic = {"PCIVendorID": vendor, "PCIDeviceID": device}
                body["Oem"] = {"Dell": {"DellNIC": nic}}
            if self.layout.adapters == "function":
                body["Links"] = {"PCIeFunction": link(function)}
            return body

        return build


def memory_summary_gib(layout: Layout, live: Live) -> int:
    """The memory in the system's summary; a BMC without attributes does not know it."""
    return 0 if layout.switch is None else live.machine.memory_gib


def threads(live: Live, sockets: int) -> Mapping[str, Any]:
    """A processor's fields about its threads."""
    is_arm = live.machine.architecture == "arm64"
    return {
        "ProcessorType": "CPU",
        "InstructionSet": "ARM-A64" if is_arm else "x86-64",
        "TotalThreads": live.machine.hardware.threads // sockets,
    }


def _ids(identifier: str | None) -> Sequence[str]:
    return [f"0x{part.upper()}" for part in (identifier or _ABSENT_ID).split(":")]


def _device(path: str, slot: _Slot) -> Builder:
    def build(live: Live) -> Json:
        status = HEALTHY if slot.identify(live) else ABSENT
        functions = link(f"{path}/PCIeFunctions")
        return resource(
            path,
            "PCIeDevice.v1_9_0.PCIeDevice",
            slot.title,
            PCIeFunctions=functions,
            Status=dict(status),
        )

    return build


def _function(path: str, slot: _Slot) -> Builder:
    def build(live: Live) -> Json:
        identifier = slot.identify(live)
        vendor, device = _ids(identifier)
        return resource(
            path,
            "PCIeFunction.v1_3_0.PCIeFunction",
            f"{slot.title} function",
            VendorId=vendor,
            DeviceId=device,
            ClassCode=slot.class_code,
            DeviceClass=slot.device_class,
            Status=dict(HEALTHY if identifier else ABSENT),
        )

    return build


def _hpe_device(path: str, slot: _Slot, function: int) -> Builder:
    def build(live: Live) -> Json:
        identifier = slot.identify(live)
        vendor, device = (int(part, 16) for part in (identifier or _ABSENT_ID).split(":"))
        return resource(
            path,
            "HpeServerPciDevice.v2_0_0.HpeServerPciDevice",
            slot.title,
            VendorID=vendor,
            DeviceID=device,
            ClassCode=int(slot.class_code[2:4], 16),
            SubclassCode=int(slot.class_code[4:6], 16),
            UEFIDevicePath=_uefi_path(function) if slot.name == "nic" else f"PciRoot({path[-2:]})",
            Status=dict(HEALTHY if identifier else ABSENT),
        )

    return build


def _uefi_path(function: int) -> str:
    return f"PciRoot(0x1)/Pci(0x1,0x0)/Pci(0x0,0x{function:x})"


def _storage(system: str) -> dict[str, Builder]:
    folder = f"{system}/Storage"
    path = f"{folder}/controller-1"
    drives = [f"{path}/Drives/bay-{number}" for number in range(DRIVE_BAYS)]

    def builder(uri: str, bay: int) -> Builder:
        def build(live: Live) -> Json:
            body = resource(uri, "Drive.v1_12_0.Drive", f"Drive {bay}")
            fitted = live.machine.hardware.drives[bay : bay + 1]
            for drive in fitted:
                body["CapacityBytes"] = drive.size_bytes
                body["MediaType"] = "HDD" if drive.kind == "HDD" else "SSD"
                body["Protocol"] = "NVMe" if drive.kind == "NVME" else "SATA"
            return body | {"Status": dict(HEALTHY if fitted else ABSENT)}

        return build

    return {
        **collection(folder, "Storage", [path]),
        **fixed(path, "Storage.v1_10_0.Storage", "Controller", Drives=links(drives)),
        **{uri: builder(uri, bay) for bay, uri in enumerate(drives)},
    }


def _smart_storage(system: str) -> dict[str, Builder]:
    top = f"{system}/SmartStorage"
    controllers, controller = f"{top}/ArrayControllers", f"{top}/ArrayControllers/0"
    folder = f"{controller}/DiskDrives"
    paths = [f"{folder}/{bay}" for bay in range(DRIVE_BAYS)]

    def builder(uri: str, bay: int) -> Builder:
        def build(live: Live) -> Json:
            body = resource(uri, "HpeSmartStorageDiskDrive.v2_1_0.Drive", "Disk Drive")
            fitted = live.machine.hardware.drives[bay : bay + 1]
            for drive in fitted:
                body["CapacityMiB"] = drive.size_bytes // 2**20
                body["MediaType"] = "HDD" if drive.kind == "HDD" else "SSD"
                body["InterfaceType"] = "NVMe" if drive.kind == "NVME" else "SAS"
            return body | {"Status": dict(HEALTHY if fitted else ABSENT)}

        return build

    schema = "HpeSmartStorage.v2_0_0.HpeSmartStorage"
    drives = {"PhysicalDrives": link(folder)}
    return {
        **fixed(top, schema, "Smart Storage", Links={"ArrayControllers": link(controllers)}),
        **collection(controllers, "HpeSmartStorageArrayController", [controller]),
        **fixed(controller, f"{schema}ArrayController", "Controller", Links=drives),
        **collection(folder, "HpeSmartStorageDiskDrive", paths),
        **{uri: builder(uri, bay) for bay, uri in enumerate(paths)},
    }


def _bios(system: str, layout: Layout) -> dict[str, Builder]:
    path, switch = f"{system}/Bios", layout.switch

    def build(live: Live) -> Json:
        body = resource(path, "Bios.v1_1_0.Bios", "BIOS")
        if switch is None:
            return body
        name, on, off = switch
        state = on if live.machine.hardware.sriov_enabled else off
        return body | {"Attributes": {"BootMode": "Uefi", name: state, "WorkloadProfile": ""}}

    return {path: build}
