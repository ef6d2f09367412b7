# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon's checks before it makes a workload; texts and order are RMD's."""

from __future__ import annotations

from collections.abc import Mapping

from lab.rmd.bitmaps import WrongExpressionError, bits_of, cpus_of, hex_groups, numbers_of
from lab.rmd.documents import Workload
from lab.rmd.host import POLICIES, Configuration, Host

_MAX_MBPS = 4294967290


class InvalidError(Exception):
    """A refused workload; `str()` is the daemon's reason."""


class UnknownPolicyError(InvalidError):
    """A policy that the host's file does not have."""


def validated(
    asked: Workload, stored: Mapping[str, Workload], host: Host, configuration: Configuration
) -> Workload:
    """The workload completed with the values of its policy.

    Raises InvalidError for the first check that fails, and PanicError if the daemon dies.
    """
    _require_place(asked, host)
    if asked.policy:
        asked = with_policy(asked, host, configuration)
    else:
        asked = _with_own_values(asked, host, configuration)
    try:
        _require_free(asked, stored, configuration)
    except InvalidError as error:
        raise InvalidError(f"Workload validation in database failed. Details: {error}\n") from error
    return asked


def with_policy(asked: Workload, host: Host, configuration: Configuration) -> Workload:
    """Replace all of the workload's own values by the policy's. Raises InvalidError."""
    try:
        most, least, ratio = POLICIES[host.architecture][asked.policy]
    except KeyError:
        raise UnknownPolicyError(
            f"Could not find the Policy. Can not find specified policy {asked.policy}"
        ) from None
    changed = asked.with_(cache_max=most, cache_min=least, ratio=None, monitoring=None)
    if configuration.pstate:
        changed = changed.with_(ratio=ratio, monitoring="on")
    return changed


def _require_place(asked: Workload, host: Host) -> None:
    if not asked.core_ids and not asked.task_ids:
        raise InvalidError("No task or core id specified")
    for task in asked.task_ids:
        if task not in host.processes:
            raise InvalidError(f"The task: {task} does not exist")


def _with_own_values(asked: Workload, host: Host, configuration: Configuration) -> Workload:
    if (asked.cache_max is None) != (asked.cache_min is None):
        names = "*_cache" if configuration.wire == "0.2" else "cache.*"
        raise InvalidError(f"Need to provide both {names} or none of them")
    if configuration.wire == "0.2":
        asked = _with_pstate(asked, configuration)
        if asked.cache_max is None and not asked.has_pstate:
            raise InvalidError("No Cache neither PState params in workload")
        return asked
    if any(name != "pstate" or not configuration.pstate for name in asked.plugins):
        raise InvalidError("Trying to use module that is not loaded")
    asked = _with_pstate(asked, configuration)
    has_mba = asked.mba_percentage is not None or asked.mba_mbps is not None
    if asked.cache_max is None and not has_mba and not asked.has_pstate:
        raise InvalidError("No RDT/Plugins params in workload")
    return _with_bandwidth(asked, host, configuration, has_mba)


def _with_pstate(asked: Workload, configuration: Configuration) -> Workload:
    if not asked.has_pstate:
        return asked
    if not configuration.pstate:
        raise InvalidError("P-State configuration given while plugin not enabled")
    if asked.ratio is not None and asked.ratio <= 0:
        raise InvalidError("Invalid P-State Branch Ratio given")
    monitoring = asked.monitoring if asked.monitoring is not None else "on"
    if monitoring not in ("on", "off", "ON", "OFF"):
        raise InvalidError("Invalid P-State Monitoring value")
    return asked.with_(monitoring=monitoring.lower())


def _with_bandwidth(
    asked: Workload, host: Host, configuration: Configuration, has_mba: bool
) -> Workload:
    """Memory bandwidth of v0.3: its checks."""
    supported = host.mba and configuration.mba_mode is not None
    if not supported:
        if has_mba:
            raise InvalidError("This machine supports only cache and not MBA")
        return asked
    in_percent = configuration.mba_mode == "percentage"
    if (asked.mba_mbps if in_percent else asked.mba_percentage) is not None:
        raise InvalidError(f"Please provide MBA in {'Percentage' if in_percent else 'Mbps'}")
    if has_mba and asked.cache_max is None:
        raise InvalidError("Need to provide both cache and mba for better performance")
    most = 100 if in_percent else _MAX_MBPS
    value = asked.mba_percentage if in_percent else asked.mba_mbps
    if value is not None and not 1 <= value <= most:
        raise InvalidError(f"MBA values in should range from 1 to {most}")
    is_guaranteed = asked.cache_max == asked.cache_min and asked.cache_max
    if value is not None and value != most and not is_guaranteed:
        raise InvalidError(
            "MBA only supported for Guaranteed Request and not for BestEffort and Shared"
        )
    return asked


def _require_free(
    asked: Workload, stored: Mapping[str, Workload], configuration: Configuration
) -> None:
    """Id, uuid, tasks and CPUs must not be another workload's."""
    if asked.id and asked.id in stored:
        raise InvalidError(f"Workload with id {asked.id} already exists")
    for other in stored.values():
        if asked.uuid and other.uuid == asked.uuid:
            raise InvalidError(f"UUID {asked.uuid} already exists in workload {other.id}")
    for other in stored.values():
        for task in asked.task_ids:
            if task in other.task_ids:
                raise InvalidError(f"TaskID {task} already exists in workload {other.id}")
    strips = configuration.wire == "0.3"
    try:
        cpus = cpus_of(asked.core_ids, strips)
    except WrongExpressionError as error:
        raise InvalidError(str(error)) from error
    taken = frozenset[int]().union(*(cpus_of(other.core_ids, strips) for other in stored.values()))
    if cpus & taken:
        shown = _shown(cpus & taken, min(max(cpus), max(taken)) + 1, configuration)
        raise InvalidError(f"CPU list {shown} has been assigned")


def _shown(overlap: frozenset[int], length: int, configuration: Configuration) -> str:
    """v0.2 prints a mask; v0.3 prints numbers, only of the lowest 32 CPUs."""
    bits = bits_of(overlap)
    if configuration.wire == "0.2":
        return hex_groups(bits, length)
    return f"[{' '.join(map(str, numbers_of(bits & 0xFFFFFFFF)))}]"
