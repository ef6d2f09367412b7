# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of limits: watts for the fleet, racks and nodes, and inlet temperatures for racks."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import shown
from ...base.context import Parameters
from ...base.errors import InvalidInput

# Key of a mapping that stands for all racks or types that it does not name.
OTHERS = "*"
TYPE_LABEL = "node.kubernetes.io/instance-type"

_MAX_WATTS = 1e9
_MAX_CELSIUS = 100.0

WATTS: t.Mapping[str, t.Any] = {
    "fleet_watts": {"type": "float", "default": 0.0},
    "rack_watts": {"type": "dict", "default": {}},
    "node_watts": {"type": "dict", "default": {}},
}
INLETS: t.Mapping[str, t.Any] = {"inlet_celsius": {"type": "dict", "default": {}}}

_MODES = ["off", "dry_run", "on"]
# What happens while a domain is above its limit.
REMEDIES: t.Mapping[str, t.Any] = {
    "cap": {"type": "str", "choices": _MODES, "default": "dry_run"},
    "evict": {"type": "str", "choices": _MODES, "default": "off"},
    "max_evictions": {"type": "int", "default": 5},
}

Limits = t.Mapping[str, float]


@dataclass(frozen=True)
class PowerLimits:
    """Limits in W of the fleet, of racks by name, and of nodes by type; inlets in °C by rack."""

    fleet_watts: float | None = None
    rack_watts: Limits = field(default_factory=dict)
    node_watts: Limits = field(default_factory=dict)
    inlet_celsius: Limits = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any limit is set."""
        return self.has_watts or bool(self.inlet_celsius)

    @property
    def has_watts(self) -> bool:
        """Whether any limit in W is set."""
        return self.fleet_watts is not None or bool(self.rack_watts or self.node_watts)

    @classmethod
    def of(cls, options: Parameters) -> PowerLimits:
        """The limits of options of WATTS and INLETS. Raises InvalidInput."""
        fleet = options.get("fleet_watts")
        return cls(
            _number(fleet, "limits.fleet_watts", "W", _MAX_WATTS) if fleet else None,
            _numbers(options, "rack_watts", "W", _MAX_WATTS),
            _numbers(options, "node_watts", "W", _MAX_WATTS),
            _numbers(options, "inlet_celsius", "°C", _MAX_CELSIUS),
        )


def limit_of(limits: Limits, name: str) -> float | None:
    """The limit of a rack or type; a node without one has the limit of all others."""
    return limits.get(name, limits.get(OTHERS))


def _numbers(options: Parameters, name: str, unit: str, most: float) -> dict[str, float]:
    given = options.get(name) or {}
    return {
        str(key): _number(value, f"limits.{name}.{key}", unit, most) for key, value in given.items()
    }


def _number(value: t.Any, path: str, unit: str, most: float) -> float:
    # Variables of Ansible may be text.
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 < found <= most:
        raise InvalidInput(
            f"{path}: {shown(value)} is no limit; give {unit} above 0, at most {most:g}"
        )
    return found
