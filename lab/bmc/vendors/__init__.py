# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of each vendor's BMC. The docstring of each file lists the traps of its tree."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lab.bmc.tree import Tree
from lab.bmc.vendors import dell_idrac9, dell_idrac10, hpe, lenovo, openbmc, supermicro

TREES: Mapping[str, Tree] = MappingProxyType(
    {
        "idrac9": dell_idrac9.TREE,
        "idrac10": dell_idrac10.TREE,
        "hpe": hpe.TREE,
        "lenovo": lenovo.TREE,
        "supermicro": supermicro.TREE,
        "openbmc": openbmc.TREE,
    }
)

_IDENTITIES = {
    "idrac9": dell_idrac9.IDENTITY,
    "idrac10": dell_idrac10.IDENTITY,
    "hpe": hpe.IDENTITY,
    "lenovo": lenovo.IDENTITY,
    "supermicro": supermicro.IDENTITY,
    "openbmc": openbmc.IDENTITY,
}
# Vendor → path of the computer system, and the manufacturer that it names.
SYSTEMS: Mapping[str, str] = MappingProxyType(
    {vendor: identity.system_path for vendor, identity in _IDENTITIES.items()}
)
MANUFACTURERS: Mapping[str, str] = MappingProxyType(
    {vendor: identity.manufacturer for vendor, identity in _IDENTITIES.items()}
)
