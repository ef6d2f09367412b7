# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines to switch or to cap: their BMCs, identities, and accounts by purpose.

The account that reads a machine is not the account that changes it. A NodeConfig names the latter in
an annotation, a target as ``power_credential``, and ``credentials`` in the entry ``power``.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base import documents
from ...base.context import Context, Parameters
from ...base.errors import InvalidInput, TargetError, TargetFailure
from ...base.fields.lenient import member, text
from ...base.json_types import Object
from ...base.texts import shown
from ...fleet.credentials import DEFAULT_KEY, CredentialReference
from ...fleet.urls import parse_endpoint
from ...fleet.visits import error_of
from ...nodeconfig.poll import PollTarget, given_targets, poll_targets, snapshot_targets
from ...nodeconfig.targets import Targets
from ..discovery import SYSTEMS
from ..links import identity, is_uri
from .metal3 import HostName, host_name, hosts_of_nodes, nodes_of_metal3
from .system import ExpectedMachine, System, is_uuid

REDFISH = "Redfish"
POWER_KEY = "power"
_HOST_MISSING = (
    "its Node is a machine of Metal3, but the snapshot has no BareMetalHost of it; take the snapshot "
    "with bare_metal_hosts in include"
)

SYSTEM_OPTIONS: dict[str, t.Any] = {"system": {"type": "str"}}
IDENTITY_OPTIONS: dict[str, t.Any] = {
    **SYSTEM_OPTIONS,
    "power_credential": {"type": "str", "no_log": False},
    "serial_number": {"type": "str"},
    "system_uuid": {"type": "str"},
}


@dataclass(frozen=True)
class Machine:
    """A machine to change. ``power_account`` is None if no account for changes is named."""

    target: PollTarget
    system: str
    expected: ExpectedMachine
    power_account: CredentialReference | None
    host: HostName | None = None

    @property
    def name(self) -> str:
        return self.target.name

    def error(self, failure: Exception) -> TargetError:
        return error_of(self.target.name, self.target.endpoint, failure)

    def of_type_fake(self, problem: str) -> TargetError:
        """The error of a NodeConfig that names no real BMC."""
        return self.error(TargetFailure("not_found", f"{problem}; leave the node out"))

    def for_changes(self, system: System) -> Machine:
        """The same machine, asked by the account for changes. Raises TargetFailure without one."""
        if self.power_account is None:
            raise TargetFailure(
                "credential",
                f"{self.target.where} names no account for changes; name its Secret in the "
                f"annotation wattwise.github.io/power-secret, or add the entry {POWER_KEY} to "
                "credentials and the namespace to default_credential_namespaces",
            )
        target = replace(self.target, named=self.power_account)
        return replace(self, target=target, system=system.uri)


def machines_of(options: Parameters, own_options: t.Sequence[str]) -> list[Machine]:
    """The machines of the option ``targets``, else of the snapshot. Raises InvalidInput."""
    if options["targets"] is not None:
        found = given_targets(options, REDFISH, "inlet_temp", own_options)
        return [_of_target(target, options) for target in found]
    return configured_machines(snapshot_targets(options), options)


def configured_machines(targets: Targets, options: Parameters) -> list[Machine]:
    """The machines whose NodeConfig names a BMC, in node-name order."""
    return [_of_node_config(target, options) for target in poll_targets(targets, "inlet_temp")]


def with_uuids_of(machines: t.Sequence[Machine], snapshot: Object) -> list[Machine]:
    """The machines, each expected to have the systemUUID of its Node in a snapshot."""
    uuids = {
        text(member(node, "metadata", "name")): text(
            member(node, "status", "nodeInfo", "systemUUID")
        )
        for node in snapshot["nodes"]
    }
    return [
        replace(one, expected=ExpectedMachine(system_uuid=uuids.get(one.name) or None))
        for one in machines
    ]


def with_hosts(
    machines: t.Sequence[Machine], options: Parameters, context: Context
) -> list[Machine]:
    """The machines with their BareMetalHosts by the snapshot, if that is where they are from."""
    if options["targets"] is not None:
        return list(machines)
    return with_hosts_of(machines, documents.load(options["snapshot"], "snapshot"), context)


def with_hosts_of(
    machines: t.Sequence[Machine], snapshot: Object, context: Context
) -> list[Machine]:
    """The machines with their BareMetalHosts in a snapshot.

    Without BareMetalHosts in the snapshot, a Node with a provider ID of Metal3 is an error.
    """
    if "bare_metal_hosts" not in snapshot:
        context.warn(
            "The snapshot has no bare_metal_hosts, so that machines of Metal3 are known only by the "
            "provider IDs of their Nodes; take it with bare_metal_hosts in include"
        )
    hosts, of_metal3 = hosts_of_nodes(snapshot), nodes_of_metal3(snapshot)
    return [
        replace(one, target=replace(one.target, problem=_HOST_MISSING))
        if one.name in of_metal3 and one.name not in hosts
        else replace(one, host=hosts.get(one.name))
        for one in machines
    ]


def _keys_of(machine: Machine, system: System | None) -> list[t.Hashable]:
    """What two targets of one machine have in common."""
    keys: list[t.Hashable] = [machine.host] if machine.host is not None else []
    if system is None:
        return keys
    keys.append((parse_endpoint(machine.target.endpoint).origin, identity(system.uri)))
    return keys if system.machine is None else [*keys, system.machine]


def repeated_machines(
    machines: t.Sequence[tuple[Machine, System | None]],
) -> list[TargetFailure | None]:
    """The failure of each target that leads to a machine of an earlier one."""
    first: dict[t.Hashable, str] = {}
    failures: list[TargetFailure | None] = []
    for machine, system in machines:
        keys = _keys_of(machine, system)
        known = next((first[key] for key in keys if key in first), None)
        failures.append(None if known is None else _of_repeated(known))
        for key in keys:
            first.setdefault(key, machine.name)
    return failures


def _of_repeated(first: str) -> TargetFailure:
    return TargetFailure(
        "conflict",
        f"this is the machine of {first} too, and is changed only as {first}; correct one of the "
        "endpoints",
    )


def with_system(target: PollTarget) -> PollTarget:
    """The target with the computer system that the path of its endpoint names."""
    endpoint, separator, name = target.endpoint.partition(f"{SYSTEMS}/")
    path = f"{separator}{name}".rstrip("/")
    extra = {**target.extra, "system": target.extra.get("system") or path}
    return replace(target, endpoint=endpoint, extra=extra) if name else target


def _of_target(target: PollTarget, options: Parameters) -> Machine:
    target = with_system(target)
    extra = target.extra
    power_key, uuid = extra["power_credential"], extra["system_uuid"]
    system, host = extra["system"], extra.get("bare_metal_host")
    if uuid is not None and not is_uuid(uuid):
        raise InvalidInput(f"{target.where}.system_uuid: {shown(uuid)} is not a UUID")
    if system is not None and not (is_uri(system) and system.startswith("/")):
        raise InvalidInput(
            f"{target.where}.system: {shown(system)} is not a path such as /redfish/v1/Systems/1"
        )
    entries = options["credentials"] or {}
    account = target.named
    if power_key is not None:
        account = CredentialReference(key=power_key)
        if target.named.is_silent and DEFAULT_KEY not in entries:
            target = replace(target, named=account)
    elif target.named.is_silent and POWER_KEY in entries:
        account = CredentialReference(key=POWER_KEY)
    return Machine(
        target,
        system or "",
        ExpectedMachine(extra["serial_number"], uuid),
        account,
        host_name(host) if host is not None else None,
    )


def _of_node_config(target: PollTarget, options: Parameters) -> Machine:
    """The machine of a NodeConfig. Its account for reading is never used for changes."""
    target = with_system(target)
    namespace = target.named.namespace
    secret = target.extra["power_secret"]
    account: CredentialReference | None = None
    if secret and namespace:
        account = CredentialReference(secret=(namespace, secret), namespace=namespace)
    elif POWER_KEY in (options["credentials"] or {}) and (
        namespace in options["default_credential_namespaces"]
    ):
        account = CredentialReference(key=POWER_KEY)
    return Machine(target, target.extra.get("system") or "", ExpectedMachine(), account)
