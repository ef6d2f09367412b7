# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""PCI identifiers: forms in the sources, and capabilities of the devices.

Sources: pci-ids.ucw.cz for the identifiers, the drivers ixgbe, i40e, ice, igb, mlx4, mlx5, bnxt_en
and qat of Linux for virtual functions, and the installer of KUD for QuickAssist.
"""

from __future__ import annotations

import re
import typing as t

_TWO_NUMBERS = re.compile(
    r"(?:0x)?([0-9a-f]{4})[ :,]\s*(?:0x)?([0-9a-f]{4})", re.ASCII | re.IGNORECASE
)
_NUMBER = re.compile(r"(?:0x)?([0-9a-f]{1,8})h?", re.ASCII | re.IGNORECASE)
_MAX_LENGTH = 32

_INTEL, _MELLANOX, _BROADCOM = "8086", "15b3", "14e4"

# Physical functions of network adapters that have virtual functions.
_WITH_VIRTUAL_FUNCTIONS: t.Mapping[str, frozenset[str]] = {
    _INTEL: frozenset(
        (
            # 82576, I350: igb
            *("10c9", "10e6", "10e7", "10e8", "150a", "150d", "1518", "1526"),
            *("1521", "1522", "1523", "1524"),
            # 82599, X540, X550, X552, X553: ixgbe
            *("10f8", "10fb", "10fc", "151c", "154a", "154d", "1557", "1558"),
            *("1528", "1560", "1563", "15d1", "15ab", "15ac", "15ad", "15ae"),
            *("15c2", "15c3", "15c4", "15c6", "15c7", "15c8", "15ce", "15e4", "15e5"),
            # X710, XL710, XXV710, X722: i40e
            *("1572", "1574", "1580", "1581", "1583", "1584", "1585", "1586", "1587", "1588"),
            *("1589", "158a", "158b", "104e", "104f", "0dd2", "15ff"),
            *("37ce", "37cf", "37d0", "37d1", "37d2", "37d3"),
            # E810, E822, E823: ice
            *("1591", "1592", "1593", "1599", "159a", "159b"),
            *("1890", "1891", "1892", "1893", "1894", "188a", "188b", "188c", "188d"),
        )
    ),
    _MELLANOX: frozenset(
        # ConnectX-3 to ConnectX-8, BlueField-2 and -3
        (
            *("1003", "1007", "1011", "1013", "1015", "1017", "1019", "101b", "101d", "101f"),
            *("1021", "1023", "a2d6", "a2dc"),
        )
    ),
    # BCM57412, 57414, 57416, 57504, 57508
    _BROADCOM: frozenset(("16d6", "16d7", "16d8", "1750", "1751", "1752")),
}
# Network adapters without virtual functions: I210, 82574L, 82579LM, BCM5719, BCM5720, e1000,
# virtio.
_WITHOUT_VIRTUAL_FUNCTIONS = frozenset(
    (
        *("8086:1533", "8086:10d3", "8086:1502", "8086:100e", "8086:100f"),
        *("14e4:1657", "14e4:165f", "1af4:1000", "1af4:1041"),
    )
)
# QuickAssist: DH895XCC, C62x, D15xx, C3xxx, C4xxx, 200xx; 4xxx, 401xx, 402xx, 420xx, 6xxx; each
# with its virtual function, which a virtual machine as host has.
_QUICK_ASSIST = frozenset(
    (
        *("0434", "0435", "37c8", "6f54", "19e2", "18a0", "18ee"),
        *("0442", "0443", "37c9", "6f55", "19e3", "18a1", "18ef"),
        *("4940", "4942", "4944", "4946", "4948", "4941", "4943", "4945", "4947", "4949"),
    )
)
# Graphics of the BMC itself: Aspeed, Matrox, and those of hypervisors.
_BMC_GRAPHICS = frozenset(("1a03", "102b", "1234", "1013", "15ad", "1af4", "1b36"))
_ACCELERATOR_MAKERS = frozenset(("10de", "1002", "1da3"))
_GPU_MAKERS = frozenset((*_ACCELERATOR_MAKERS, _INTEL))
_COPROCESSOR, _3D_CONTROLLER = "0b40", "0302"
# Base classes of network and display controllers, co-processors, and processing accelerators.
_CLASSES = ("02", "03", "0b", "12")
_VENDORS = frozenset((_MELLANOX, _BROADCOM)) | _GPU_MAKERS | _BMC_GRAPHICS


def pci_id(text: t.Any) -> str | None:
    """Vendor and device such as ``8086:1572``, from a text such as ``0x8086 0x1572``."""
    if not isinstance(text, str) or len(text) > _MAX_LENGTH:
        return None
    match = _TWO_NUMBERS.fullmatch(text.strip())
    return f"{match[1]}:{match[2]}".lower() if match else None


def pci_id_of(vendor: t.Any, device: t.Any) -> str | None:
    """Vendor and device from two values, each a text of hexadecimal digits or a number.

    Identifiers that mean no device (0000 and ffff) give None.
    """
    parts = hexadecimal(vendor, 4), hexadecimal(device, 4)
    if None in parts or parts[0] in ("0000", "ffff") or parts[1] == "ffff":
        return None
    return f"{parts[0]}:{parts[1]}"


def hexadecimal(value: t.Any, digits: int) -> str | None:
    """A number with this exact count of hexadecimal digits, from a text or a number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 16**digits:
        return f"{value:0{digits}x}"
    if not isinstance(value, str) or len(value) > _MAX_LENGTH:
        return None
    match = _NUMBER.fullmatch(value.strip())
    found = match[1].lower().zfill(digits) if match else ""
    return found if len(found) == digits else None


def class_code(value: t.Any) -> str:
    """Class, subclass and interface in six hexadecimal digits; empty for none.

    Shorter texts, of two or four digits, lack the last parts.
    """
    for digits in (2, 4, 6):
        found = hexadecimal(value, digits) if isinstance(value, str) or digits == 6 else None
        if found is not None:
            return found.ljust(6, "0")
    return ""


def can_sriov(identifier: str | None) -> bool | None:
    """Whether a network adapter has virtual functions; None for adapters of neither list."""
    vendor, _colon, device = (identifier or "").partition(":")
    if device in _WITH_VIRTUAL_FUNCTIONS.get(vendor, ()):
        return True
    return False if identifier in _WITHOUT_VIRTUAL_FUNCTIONS else None


def is_quick_assist(identifier: str) -> bool:
    """Whether this is Intel's QuickAssist."""
    vendor, _colon, device = identifier.partition(":")
    return vendor == _INTEL and device in _QUICK_ASSIST


class Discovered(t.NamedTuple):
    """Certain facts of a device; False stands for unknown as well."""

    is_quick_assist: bool
    is_gpu: bool
    is_network: bool


def discovered(fields: t.Sequence[str]) -> Discovered:
    """The device of NFD's fields, in hexadecimal digits.

    They are a choice of class, vendor, device, subsystem vendor and subsystem device, in this
    order. Only values tell which: known vendors and devices, and classes of the devices of interest.
    """
    rest = list(fields)
    # A known device is none of the classes, and only a class precedes a vendor.
    is_class = rest[0][:2] in _CLASSES and rest[0] not in _QUICK_ASSIST | _VENDORS
    class_code = rest.pop(0) if is_class else ""
    vendor = rest.pop(0) if rest and rest[0] in _VENDORS else ""
    device = rest[0] if rest else ""
    vendors = (vendor,) if vendor else tuple(_WITH_VIRTUAL_FUNCTIONS)
    return Discovered(
        _is_discovered_quick_assist(class_code, vendor, device),
        _is_discovered_gpu(class_code, vendor),
        class_code.startswith("02")
        or (not class_code and vendor == _MELLANOX)
        or any(can_sriov(f"{each}:{device}") for each in vendors),
    )


def _is_discovered_quick_assist(class_code: str, vendor: str, device: str) -> bool:
    """By the device, or by the class of co-processors, which Intel also used for Xeon Phi."""
    if class_code[:2] not in ("", "0b") or vendor not in ("", _INTEL):
        return False
    of_subsystem = device == _INTEL
    if device and not of_subsystem:
        return is_quick_assist(f"{_INTEL}:{device}")
    return class_code == _COPROCESSOR and vendor == _INTEL


def _is_discovered_gpu(class_code: str, vendor: str) -> bool:
    """By class and maker; a maker of nothing else, or 3D controllers of any maker suffice."""
    if not class_code:
        return vendor in _ACCELERATOR_MAKERS
    if not vendor:
        return class_code == _3D_CONTROLLER
    return vendor in _GPU_MAKERS and is_gpu(f"{vendor}:", class_code.ljust(6, "0"))


def is_gpu(identifier: str, class_code: str) -> bool:
    """Whether a device of this class (six hexadecimal digits) is a GPU that workloads may use."""
    vendor = identifier.partition(":")[0]
    if class_code.startswith("03"):
        return vendor not in _BMC_GRAPHICS
    return class_code.startswith("12") and vendor in _ACCELERATOR_MAKERS
