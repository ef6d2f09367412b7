# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RAPL zones of the powercap tree.

Source: Linux, Documentation/power/powercap/powercap.rst.
"""

from __future__ import annotations

import re

from ..facts import MAX_ITEMS, RaplZone
from . import attributes
from .host_files import HostFiles

_POWERCAP = "sys/class/powercap"
# A zone has numbers after the control type, such as intel-rapl:0:1; AMD's zones have this name too.
_ZONE = re.compile(r"intel-rapl(?:-mmio|-tpmi)?(?::[0-9a-f]{1,4}){1,3}")


def rapl_zones(files: HostFiles) -> tuple[RaplZone, ...] | None:
    """The zones in the order of their names; None if the tree is not visible."""
    try:
        names = files.entries(_POWERCAP)
    except OSError:
        # A kernel without powercap still has /sys/class.
        return () if files.is_folder("sys/class") else None
    return tuple(_zone(files, name) for name in names if _ZONE.fullmatch(name))[:MAX_ITEMS]


def _zone(files: HostFiles, folder: str) -> RaplZone:
    name, name_problem = attributes.word(files, f"{_POWERCAP}/{folder}/name")
    most, most_problem = attributes.count(files, f"{_POWERCAP}/{folder}/max_energy_range_uj")
    _energy, problem = attributes.count(files, f"{_POWERCAP}/{folder}/energy_uj")
    # Kepler reads all three, and stops at the first that it cannot read.
    first = name_problem or most_problem or problem
    return RaplZone(
        path=folder,
        name=name,
        max_energy_range_uj=most,
        readable=not first,
        problem=first,
    )
