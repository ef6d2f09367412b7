# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon's environment: the host's caches, and RMD's configuration."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from lab.rmd.bitmaps import cpus_of, ones

Wire = Literal["0.2", "0.3"]
ClientAuth = Literal["no", "require", "require_any", "challenge_given", "challenge"]
Authorization = Literal["signature", "role", "username"]

# Policy → cache ways (most, least) and branch ratio, by microarchitecture; RMD's own files.
POLICIES: Mapping[str, Mapping[str, tuple[int, int, float]]] = MappingProxyType(
    {
        "broadwell": {"gold": (2, 2, 1.5), "silver": (2, 1, 2.5), "bronze": (0, 0, 3.5)},
        "skylake": {"gold": (4, 4, 0.25), "silver": (3, 1, 0.5), "bronze": (0, 0, 0.75)},
    }
)
_MODES = {"none": None, "percentage": "percentage", "mbps": "mbps"}


class BootError(Exception):
    """The daemon ends at its start."""


@dataclass(frozen=True)
class Host:
    """A machine with Intel RDT. `caches` are the CPUs by cache id, `processes` those by task id.

    `closids` are the classes of service for the L3 cache, `mba_closids` those for bandwidth.
    """

    caches: Mapping[int, tuple[int, ...]]
    ways: int = 20
    closids: int = 16
    architecture: str = "broadwell"
    isolated_cpus: frozenset[int] = frozenset()
    processes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    mba: bool = False
    mba_closids: int = 8
    cdp: bool = False

    @property
    def kernel_closids(self) -> int:
        """Number of groups that the kernel allows: the minimum over its resources."""
        return min(self.closids, self.mba_closids) if self.mba else self.closids

    @cached_property
    def cpus(self) -> frozenset[int]:
        return frozenset(cpu for cpus in self.caches.values() for cpu in cpus)

    @property
    def cpu_count(self) -> int:
        return max(self.cpus) + 1

    @property
    def full(self) -> int:
        return ones(self.ways)


@dataclass(frozen=True)
class Configuration:
    """rmd.toml and its surroundings; a pool of 0 ways is not configured.

    `documented_status` makes the daemon answer 400, as its documentation says, where it really
    answers 500. `users` are those of PAM with their password.
    """

    wire: Wire = "0.2"
    os_ways: int = 1
    os_cpus: frozenset[int] = frozenset({0})
    guarantee: int = 10
    besteffort: int = 7
    shared: int = 2
    max_allowed_shared: int = 10
    shrink: bool = False
    infra_ways: int = 0
    infra_cpus: frozenset[int] = frozenset()
    debug: bool = True
    client_auth: ClientAuth = "challenge"
    authorization: Authorization = "signature"
    users: Mapping[str, str] = field(default_factory=dict)
    pstate: bool = False
    mba_mode: str | None = "percentage"
    documented_status: bool = False

    @classmethod
    def from_toml(cls, text: str, wire: Wire = "0.2") -> Configuration:
        """Read an rmd.toml. Raises BootError if it cannot be read."""
        try:
            document = tomllib.loads(text)
            default, os_group = document.get("default", {}), document.get("OSGroup", {})
            pool, infra = document.get("CachePool", {}), document.get("InfraGroup", {})
            plugins = str(default.get("plugins", "")).replace(" ", "").split(",")
            read = cls(
                wire=wire,
                os_ways=int(os_group.get("cacheways", 1)),
                os_cpus=_cpus(os_group, "0"),
                guarantee=int(pool.get("guarantee", 10)),
                besteffort=int(pool.get("besteffort", 7)),
                shared=int(pool.get("shared", 2)),
                max_allowed_shared=int(pool.get("max_allowed_shared", 10)),
                shrink=bool(pool.get("shrink", False)),
                infra_ways=int(infra.get("cacheways", 0)),
                infra_cpus=_cpus(infra, "") if infra else frozenset(),
                debug=bool(document.get("debug", {}).get("enabled", False)),
                client_auth=default.get("clientauth", "challenge"),
                authorization=document.get("acl", {}).get("authorization", "signature"),
                pstate="pstate" in plugins or bool(document.get("pstate", {}).get("enabled")),
                mba_mode=_MODES[document.get("rdt", {}).get("mbaMode", "percentage")],
            )
        except (tomllib.TOMLDecodeError, ValueError, TypeError, KeyError) as error:
            raise BootError(f"rmd.toml cannot be read: {error}") from error
        if default.get("unixsock"):
            raise BootError("Sorry, do not support Unix listener at present!")
        return read

    def check(self, host: Host) -> None:
        """Raise BootError if RMD would not start on this host with this configuration."""
        asked = self.os_ways + self.guarantee + self.besteffort + self.shared
        if asked > host.ways:
            raise BootError(
                f"OS group and pools ask for {asked} cache ways, the host has {host.ways}."
            )
        if self.infra_ways > host.ways:
            raise BootError(
                f"The infra group asks for {self.infra_ways} cache ways, the host has {host.ways}."
            )
        if self.wire == "0.3" and host.mba and host.mba_closids == host.closids:
            raise BootError("v0.3 ends with as many classes for bandwidth as for the L3 cache.")
        if host.architecture not in POLICIES:
            raise BootError(f"Unsupported CPU type {host.architecture!r}.")

    def with_(self, **changes: Any) -> Configuration:
        return dataclasses.replace(self, **changes)


SKYLAKE_WAYS = 11
SKYLAKE = Configuration(guarantee=6, besteffort=3, shared=1)


def _cpus(section: Mapping[str, Any], default: str) -> frozenset[int]:
    text = str(section.get("cpuset", default))
    return cpus_of([text]) if text else frozenset()
