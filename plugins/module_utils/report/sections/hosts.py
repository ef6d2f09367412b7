# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bare-metal hosts by rack, with role, capabilities and the reason."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, natural
from ..markup import Child, element
from ..numbers import counted, moment, number
from ..section import Column, Data, Detail, Section, folded, lead, note, of

_NO_RACK = "no rack"


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.hosts
    if document is None:
        return None
    racks: dict[str, list[Data]] = {}
    for host in document["hosts"]:
        racks.setdefault(host["rack"] or _NO_RACK, []).append(host)
    roles = [role for host in document["hosts"] for role in host["roles"]]
    return {
        "time": document["time"],
        "cluster": document["cluster"],
        "masters": roles.count("master"),
        "workers": roles.count("worker"),
        "hosts": len(document["hosts"]),
        "racks": [
            {"rack": rack, "hosts": sorted(racks[rack], key=_order)}
            for rack in sorted(racks, key=lambda name: (name == _NO_RACK, natural(name)))
        ],
    }


def _order(host: Data) -> tuple[t.Any, ...]:
    """Masters, then workers, then hosts without a role."""
    roles = host["roles"]
    return "master" not in roles, not roles, natural(host["name"])


def _render(data: Data, detail: Detail) -> Child:
    told = (
        f"Cluster {data['cluster']} has {counted(data['masters'], 'master')} and "
        f"{counted(data['workers'], 'worker')} on {counted(data['hosts'], 'known host')}."
    )
    parts = [lead(told)]
    for rack in data["racks"]:
        hosts = rack["hosts"]
        used = sum(bool(host["roles"]) for host in hosts)
        heading = f"{rack['rack']}: {number(used)} of {counted(len(hosts), 'host')} with a role"
        caption = f"Hosts of {rack['rack']}"
        parts.append(folded(heading, detail.table(caption, _COLUMNS, hosts, "hosts of this rack")))
    parts.append(note(f"Assignment of {moment(data['time'])}."))
    return element("div", parts)


def _role(host: Data) -> str:
    roles = " and ".join(host["roles"])
    if not roles:
        return "none"
    return roles if host["label"] in (None, host["name"]) else f"{roles} ({host['label']})"


def _capabilities(host: Data) -> str:
    """The known facts; an unknown one is not shown as a no."""
    words = []
    if host["processors"] is not None:
        words.append(counted(host["processors"], "thread"))
    if host["memory_mib"] is not None:
        words.append(f"{number(host['memory_mib'] / 1024)} GiB")
    words += [name for key, name in (("sriov", "SR-IOV"), ("qat", "QuickAssist")) if host[key]]
    if host["gpus"]:
        words.append(counted(host["gpus"], "GPU"))
    return ", ".join(words) or "not known"


_COLUMNS = (
    Column("Host", of("name")),
    Column("Role", _role),
    Column("Capabilities", _capabilities),
    Column("Reason", of("why")),
)
SECTION = Section("hosts", "Hosts by rack", _collect, _render)
