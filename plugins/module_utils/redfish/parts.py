# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Coverage of a power reading: the whole server, a part of it, or unknown.

The name decides first, because firmware links "System Power Control" to a processor. Without a
telling name, PhysicalContext and RelatedItem decide.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ..base.fields.lenient import text
from ..base.json_types import Object
from .links import identity, links, name_of

_MAX_RELATED = 20

# Long words count anywhere in a name, also joined; short ones only as a word, with its plural.
_PARTS_WITHIN = (
    *("cpu", "processor", "memory", "dimm", "gpu", "accelerator", "fpga", "asic", "chipset"),
    *("subsys", "storage", "drive", "disk", "backplane", "midplane", "expander", "nvme", "nvlink"),
    *("network", "ethernet", "infiniband", "adapter", "pcie", "riser", "mezz", "hgx", "retimer"),
    *("blower", "cooling", "pump", "battery", "regulator", "voltage", "component", "graphic"),
    *("baseboard", "motherboard", "mainboard", "enclosure", "blade", "sled", "cartridge"),
    *("speicher", "prozessor", "lüfter", "processeur", "mémoire"),
    *("处理器", "内存", "硬盘", "风扇", "プロセッサ", "メモリ", "ファン"),
)
_PARTS_ALONE = frozenset(
    {
        *("aux", "bmc", "board", "cache", "card", "core", "dcu", "ddr", "die", "dpu", "dram"),
        *("fan", "hba", "hbm", "hdd", "ilo", "ioh", "io", "lom", "mem", "mlom", "module"),
        *("nic", "npu", "oam", "ocp", "other", "package", "pch", "pci", "pdb", "pkg", "port"),
        *("proc", "rack", "raid", "rail", "rest", "sas", "sata", "shelf", "slot"),
        *("smartnic", "soc", "socket", "ssd", "standby", "switch", "sxm", "tpu", "ubb", "uncore"),
        *("vcc", "vccin", "vdd", "vr", "vrd", "vrm", "xpu"),
    }
)
# One supply is a part, all of them are the server.
_SUPPLY = re.compile(
    r"power\s*suppl(?:y|ies)|psus?(?![a-z])|(?<![a-z])ps(?![a-z])|netzteil", re.IGNORECASE
)
# IPMI's entity "System Board" carries the consumption of the server.
_SYSTEM_BOARD = re.compile(r"sys(?:tem)?[\s_.-]*board", re.IGNORECASE)
_RAIL = re.compile(r"(?<![a-z0-9.])p?(?:1|3|5|12|24|48|54)(?:[._]?\d+)?v(?![a-z])", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTERS = re.compile(r"[A-Za-z]+")
_ALL = frozenset({"all", "overall", "sum", "total"})
_WHOLE = frozenset(
    {
        *("chassis", "computer", "host", "machine", "node", "platform", "server", "sys", "system"),
        *_ALL,
    }
)

# PowerSupply is not among them: some boards use it for the server's consumption.
_PART_CONTEXTS = frozenset(
    {
        *("accelerator", "asic", "backplane", "battery", "board", "coolingsubsystem", "cpu"),
        *("cpusubsystem", "expansionbay", "expansionsubsystem", "fan", "fpga", "gpu"),
        *("gpusubsystem", "manager", "memory", "memorysubsystem", "networkbay"),
        *("networkingdevice", "pump", "storagebay", "storagedevice", "storagesubsystem"),
        *("switch", "transceiver", "trustedmodule", "voltageregulator"),
    }
)
_PART_COLLECTIONS = re.compile(
    r"/(?:Processors|Memory|MemoryDomains|Drives|Storage|SimpleStorage|PCIeDevices|PCIeSlots"
    r"|NetworkAdapters|NetworkInterfaces|EthernetInterfaces|GraphicsControllers|Fans|Pumps"
    r"|ThermalSubsystem|PowerSupplies|Batteries|FabricAdapters|Managers)(?:/|$)",
    re.ASCII | re.IGNORECASE,
)

Coverage = t.Literal["whole", "unknown", "part"]


# Cached, because machines of one model have the same names.
@functools.lru_cache(maxsize=4096)
def named(name: str) -> Coverage:
    """The coverage by a name; a part wins over the whole, as in "System Fan Power"."""
    bare = _SYSTEM_BOARD.sub("system", name)
    squeezed = re.sub(r"[\s_.-]", "", bare).lower()
    words = {word.lower() for word in [*_WORD.findall(bare), *_LETTERS.findall(bare)]}
    if any(part in squeezed for part in _PARTS_WITHIN) or _RAIL.search(bare):
        return "part"
    if any(word in _PARTS_ALONE or word[:-1] in _PARTS_ALONE for word in words):
        return "part"
    if _SUPPLY.search(bare) and not words & _ALL:
        return "part"
    return "whole" if words & _WHOLE else "unknown"


def of_entry(entry: Object) -> Coverage:
    """The coverage of a control or a sensor."""
    names = [name_of(entry.get(key)) for key in ("Name", "MemberId", "Id")]
    found = {named(name) for name in names if name}
    if "part" in found:
        return "part"
    if "whole" in found:
        return "whole"
    context = text(entry.get("PhysicalContext")).lower()
    related = links(entry.get("RelatedItem"))[:_MAX_RELATED]
    if context in _PART_CONTEXTS or (related and all(map(is_below_part, related))):
        return "part"
    return "unknown"


def is_below_part(uri: str) -> bool:
    """Whether the resource belongs to a processor, a drive or another part."""
    return _PART_COLLECTIONS.search(identity(uri)) is not None
