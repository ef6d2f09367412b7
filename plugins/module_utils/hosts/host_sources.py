# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hosts of all sources: BareMetalHosts, HostHardware and Redfish."""

from __future__ import annotations

import typing as t

from ..base.boundary import Finding, read_each, subject_of
from .bare_metal_host import read_hosts
from .host import Host
from .host_hardware import read_told
from .redfish_hardware import host_of


def read_all_hosts(
    given: t.Sequence[t.Any], hardware: t.Sequence[t.Any], host_hardware: t.Sequence[t.Any] = ()
) -> tuple[list[Host], list[Finding]]:
    """The given BareMetalHosts, and hosts known only from Redfish; each defect affects only its host.

    ``host_hardware`` are objects that complete the BareMetalHosts.
    """
    told, defects = read_told(host_hardware)
    hosts, findings = read_hosts(given, told=told)
    findings = [*defects, *findings]
    for entry, host in read_each(hardware, "Host", host_of, findings, "hardware"):
        hosts.append(host)
        subject = subject_of(entry, "Host")
        findings += [Finding(subject, "", sentence) for sentence in host.findings]
    return hosts, findings
