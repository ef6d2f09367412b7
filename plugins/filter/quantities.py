# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters for Kubernetes quantities; the file of each filter's name documents it."""

from __future__ import annotations

import typing as t

from ..module_utils.base.units import format_quantity, parse_quantity
from ..plugin_utils.filters import as_filter


def parse(quantity: str | int | float) -> int | float:
    """An integer if possible, because templates count bytes with it."""
    exact = parse_quantity(quantity)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def to_text(number: str | int | float, binary: bool = False) -> str:
    if isinstance(number, float):
        # Rounding errors of sums are no part of the quantity.
        number = f"{number:.12g}"
    return format_quantity(parse_quantity(number), binary)


class FilterModule:
    """The class that Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        functions: dict[str, t.Callable[..., t.Any]] = {
            "parse_quantity": parse,
            "format_quantity": to_text,
        }
        return {name: as_filter(name, function) for name, function in functions.items()}
