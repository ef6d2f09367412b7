# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""All outputs of an assignment: inventories, objects for the cluster, and SSH access."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

from ...base.boundary import Finding, Subject, guarded, warn_of
from ...base.context import Context, Parameters, Result
from ...base.json_types import Object
from ..assignment_request import AssignmentRequest
from ..host import Host
from ..provisioning import Request
from ..roles.assignment import Assigned
from . import cluster_objects, kubespray
from .ssh import (
    SshAccess,
    access_of,
    access_of_inventory,
    access_of_secret,
    access_of_user_data,
    file_path,
    keys_in_known_hosts,
    known_hosts_text,
    revocations,
)


def outputs(
    wanted: AssignmentRequest,
    assignments: t.Sequence[Assigned],
    options: Parameters,
    context: Context,
) -> tuple[Result, list[Finding]]:
    """Inventories and objects of the assignment, and defects in sources of SSH access."""
    access, defects = _ssh_access(wanted.request, assignments, options, context)
    addresses = {each.label: each.ip for each in assignments if each.ip}
    namespace, cluster = wanted.owner.namespace, wanted.owner.cluster
    known_hosts_file = options["ssh"].get("known_hosts_file")
    _of_secret, known, _doubts = _told_hosts(options)
    result = {
        "inventory": kubespray.kubespray_inventory(
            assignments,
            wanted.request,
            access,
            options["group_names"],
            file_path(known_hosts_file, "ssh.known_hosts_file"),
        ),
        "hosts_ini": kubespray.hosts_ini(assignments, access, is_virtlet=wanted.is_virtlet),
        "known_hosts": known_hosts_text(
            ((ip, access[label]) for label, ip in addresses.items()), revocations(known)
        ),
        "hosts_without_key": [label for label in addresses if not access[label].host_keys],
        "config_map": cluster_objects.config_map(assignments, cluster, namespace),
        "host_labels": cluster_objects.host_labels(assignments, cluster),
        "cluster_api": cluster_objects.cluster_api_values(assignments, wanted.request, cluster),
    }
    return result, defects


def _told_hosts(options: Parameters) -> tuple[SshAccess, str, list[str]]:
    """The access from the Secret, the known_hosts of all sources, and warnings about the Secret."""
    known = options["ssh"]["known_hosts"]
    if options["ssh_secret"] is None:
        return SshAccess(), known, []
    of_secret, of_file, doubts = access_of_secret(options["ssh_secret"])
    return of_secret, f"{known}\n{of_file}", doubts


def _ssh_access(
    request: Request, assignments: t.Sequence[Assigned], options: Parameters, context: Context
) -> tuple[dict[str, SshAccess], list[Finding]]:
    """SSH access to each host by its label, from all sources, without revoked keys.

    A host's unreadable entry or user data is ignored; its defect is a warning and returned.
    """
    given = options["ssh"]
    of_secret, known, doubts = _told_hosts(options)
    for doubt in doubts:
        context.warn(f"ssh_secret: {doubt}")
    revoked = frozenset(revocations(known).values())
    key = SshAccess(private_key=file_path(given["private_key_file"], "ssh.private_key_file"))
    found: dict[str, SshAccess] = {}
    defects: dict[Finding, None] = {}
    for each in assignments:
        told = [_of_inventory(each, given["hosts"]), _of_user_data(each.host, options["user_data"])]
        defects |= {source: None for source in told if isinstance(source, Finding)}
        usable = [source.without(revoked) for source in told if isinstance(source, SshAccess)]
        access = access_of(request.ssh, *usable, of_secret, key)
        if not access.host_keys and each.ip:
            keys = keys_in_known_hosts(known, each.ip, access.port)
            access = replace(access, host_keys=keys).without(revoked)
        found[each.label] = access
    warn_of(list(defects), context)
    return found, list(defects)


def _of_inventory(assigned: Assigned, given: Object) -> SshAccess | Finding:
    """Access from the inventory's variables, by the label or name of the host."""
    host, name = assigned.host, assigned.label
    if not given.get(name):
        name = host.name
    return _guarded(host, access_of_inventory, given.get(name), f"ssh.hosts.{name}")


def _of_user_data(host: Host, user_data: Object) -> SshAccess | Finding:
    """Access from the host's user data, by ``namespace/name`` of its Secret."""
    if not host.user_data_secret:
        return SshAccess()
    name = f"{host.namespace}/{host.user_data_secret}"
    return _guarded(host, access_of_user_data, user_data.get(name), f"user_data.{name}")


def _guarded(
    host: Host, read: t.Callable[[t.Any, str], SshAccess], given: t.Any, path: str
) -> SshAccess | Finding:
    subject = Subject("BareMetalHost", host.name, host.namespace)
    return guarded(subject, functools.partial(read, given, path))
