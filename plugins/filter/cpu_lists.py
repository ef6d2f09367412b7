# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters for Linux CPU lists; the file of each filter's name documents it."""

from __future__ import annotations

import typing as t

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.units import format_cpu_list, parse_cpu_list
from ..plugin_utils.filters import as_filter

CpuList = t.Union[str, t.Iterable[int]]


def _cpus(given: CpuList) -> set[int]:
    """The CPUs of a text or of a list of numbers."""
    if isinstance(given, str):
        return set(parse_cpu_list(given))
    numbers: list[t.Any] = list(given) if isinstance(given, (list, tuple, set)) else [given]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidInput(f"{number!r} is not the number of a CPU; write 0, 1, 2 or so")
    return set(numbers)


def parse(cpus: CpuList) -> list[int]:
    return sorted(_cpus(cpus))


def to_text(cpus: CpuList) -> str:
    return format_cpu_list(_cpus(cpus))


def union(cpus: CpuList, *others: CpuList) -> str:
    return format_cpu_list(_cpus(cpus).union(*map(_cpus, others)))


def intersection(cpus: CpuList, *others: CpuList) -> str:
    return format_cpu_list(_cpus(cpus).intersection(*map(_cpus, others)))


def difference(cpus: CpuList, *others: CpuList) -> str:
    return format_cpu_list(_cpus(cpus).difference(*map(_cpus, others)))


class FilterModule:
    """The class that Ansible loads."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        functions = {
            "parse_cpu_list": parse,
            "format_cpu_list": to_text,
            "cpu_list_union": union,
            "cpu_list_intersection": intersection,
            "cpu_list_difference": difference,
        }
        return {name: as_filter(name, function) for name, function in functions.items()}
