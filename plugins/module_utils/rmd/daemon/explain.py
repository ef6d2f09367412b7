# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Meanings of a daemon's messages, with remedies."""

from __future__ import annotations

import re
import typing as t

from ...base.units import format_cpu_list
from .cache import Cache
from .workload import MAX_CPU, Stored, Wire

_GROUP = re.compile(r"[0-9a-f]{1,8}")
_MAX_GROUPS = (MAX_CPU + 1) // 32
# Longer than a mask of all possible CPUs.
_MAX_TEXT_LENGTH = 32 * 1024
_MEANINGS: tuple[tuple[str, str], ...] = (
    (
        r"not enough CLOS on host, (\d+) used|No free CLOS",
        "no class of service is left for another group; end workloads, or remove resctrl groups "
        "that other programs made",
    ),
    (
        r"doesn't support pool (\w+)",
        "that pool has no ways in the machine's rmd.toml; use another kind of request, or "
        "give the pool ways",
    ),
    (
        r"P-State configuration given while plugin not enabled|module that is not loaded",
        "this daemon runs without the P-state plugin; load it, or remove the P-state",
    ),
    (
        r"Can not find specified policy (\S+)",
        "the machine's policy.toml does not have it for this microarchitecture; rmd_info with "
        "gather: [policies] shows those that it has",
    ),
    (
        r"supports only cache and not MBA",
        "the machine has no memory bandwidth allocation; remove mba",
    ),
    (r"Please provide MBA in (\w+)", "the daemon counts bandwidth in the other unit; give that"),
    (
        r"Error to commit resource group",
        "the kernel refused; check whether the CPUs are online and resctrl is mounted for writing",
    ),
)


def explained(text: str, wire: Wire, stored: t.Sequence[Stored], caches: t.Sequence[Cache]) -> str:
    """The daemon's text followed by its meaning, if known."""
    if len(text) > _MAX_TEXT_LENGTH:
        return text
    meaning = (
        _of_overlap(text, wire, stored)
        or _of_full_cache(text, caches)
        or next((meaning for pattern, meaning in _MEANINGS if re.search(pattern, text)), "")
    )
    return f"{text} — {meaning}" if meaning else text


def _of_overlap(text: str, wire: Wire, stored: t.Sequence[Stored]) -> str:
    """v0.2 shows the CPUs as a hexadecimal mask, v0.3 as numbers, only of the first 32 CPUs."""
    match = re.search(r"CPU list (.*) has been assigned", text)
    if match is None:
        return ""
    shown = match.group(1)
    if wire == "0.2":
        cpus = cpus_of_hex_mask(shown)
        kind = "a hexadecimal mask"
    else:
        cpus = frozenset(int(number) for number in re.findall(r"\b[0-9]{1,6}\b", shown))
        kind = "a list, in which CPUs above 31 are missing"
    if cpus is None:
        return ""
    holders = [item.shown for item in stored if item.cpus and item.cpus & cpus]
    named = f"CPU {format_cpu_list(cpus)}" if cpus else "a CPU above 31"
    owner = f" belongs to the workload {', '.join(holders)}" if holders else " has a workload"
    return f"{shown!r} is {kind}: {named}{owner}; remove it from one of them"


def _of_full_cache(text: str, caches: t.Sequence[Cache]) -> str:
    match = re.search(r"Not enough cache left on cache_id ([0-9]{1,9})\b", text)
    if match is None:
        return ""
    for cache in caches:
        if cache.id == int(match.group(1)):
            free = [
                f"{pool} {format_cpu_list(ways) or 'none'} (longest run {cache.longest_run(pool)})"
                for pool, ways in cache.free.items()
                if pool in ("guaranteed", "besteffort")
            ]
            return (
                f"free ways of this cache: {', '.join(free)}; request fewer contiguous ways, or "
                "end other workloads"
            )
    return "no run of free ways is long enough; request fewer ways, or end other workloads"


def cpus_of_hex_mask(text: str) -> frozenset[int] | None:
    """The CPUs of a mask like ``6`` or ``20000,00000000`` (32 bits per group); None if invalid."""
    groups = text.split(",", _MAX_GROUPS)
    if len(groups) > _MAX_GROUPS or not all(map(_GROUP.fullmatch, groups)):
        return None
    return frozenset(
        32 * place + bit
        for place, group in enumerate(reversed(groups))
        for bit in range(32)
        if int(group, 16) >> bit & 1
    )
