# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Switching of a machine that Metal3 manages, by ``spec.online`` of its BareMetalHost.

Metal3 compares the power with ``spec.online`` every minute and undoes any other switching. It shuts
a machine down gracefully, and forces it off after three minutes. Source: baremetal-operator.
"""

from __future__ import annotations

import asyncio
import typing as t

from ...base.errors import ApiError, InvalidInput, TargetFailure
from ...base.fields.lenient import member, objects, text
from ...base.fields.strict import is_subdomain
from ...base.json_types import Object
from ...base.texts import shown
from ...kube.client import MERGE_CONTENT_TYPE, Kube
from ...nodeconfig.bare_metal import Machines
from .planning import Answer, DesiredState, Observation, Send
from .reset import PowerState, ResetAction
from .system import ExpectedMachine

API_VERSION, KIND = "metal3.io/v1alpha1", "BareMetalHost"
_PAUSED = "baremetalhost.metal3.io/paused"
_DETACHED = "baremetalhost.metal3.io/detached"
_REBOOT = "reboot.metal3.io"
_CONFLICTS = 5

_ACTION = ResetAction("spec", "spec.online", frozenset({"true", "false"}))

HostName = tuple[str, str]


def host_name(given: str) -> HostName:
    """Namespace and name of a BareMetalHost. Raises InvalidInput."""
    namespace, _slash, name = given.partition("/")
    if not (is_subdomain(namespace) and is_subdomain(name)):
        raise InvalidInput(
            f"bare_metal_host: {shown(given)} is not <namespace>/<name> of a BareMetalHost"
        )
    return namespace, name


def hosts_of_nodes(snapshot: Object) -> dict[str, HostName]:
    """The BareMetalHost of each Node that has one, by the snapshot's objects."""
    machines: Machines[HostName] = Machines()
    for host in objects(snapshot.get("bare_metal_hosts")):
        metadata = member(host, "metadata")
        namespace, name = (member(metadata, key) for key in ("namespace", "name"))
        if is_subdomain(namespace) and is_subdomain(name):
            machines.add(namespace, name, text(member(metadata, "uid")), (namespace, name))
    found = {
        text(member(node, "metadata", "name")): machines.of_node(node)
        for node in objects(snapshot.get("nodes"))
    }
    return {name: host for name, host in found.items() if host is not None}


def nodes_of_metal3(snapshot: Object) -> set[str]:
    """Nodes whose provider ID says that Metal3 provisioned their machine."""
    return {
        text(member(node, "metadata", "name"))
        for node in objects(snapshot.get("nodes"))
        if text(member(node, "spec", "providerID")).startswith(("metal3:", "baremetalhost:"))
    }


class HostHand:
    """A machine behind its BareMetalHost; a hand of ``bmc.switch``."""

    def __init__(
        self, kube: Kube, name: HostName, state: DesiredState, expected: ExpectedMachine
    ) -> None:
        self._kube = kube
        self._path = kube.resource(API_VERSION, KIND).path(name[1], name[0])
        self._name = "/".join(name)
        self._state = state
        self._expected = expected
        self._host: Object = {}

    def read(self) -> Object:
        """The BareMetalHost. Raises TargetFailure if it cannot be read."""
        try:
            found = self._kube.find(self._path)
        except ApiError as error:
            reason: t.Any = "forbidden" if error.status == 403 else "server_error"
            raise TargetFailure(reason, str(error)) from error
        if found is None:
            raise TargetFailure(
                "not_found", f"the {KIND} {self._name} does not exist; correct bare_metal_host"
            )
        hardware = member(found, "status", "hardware", "systemVendor")
        serial = text(member(hardware, "serialNumber"))
        self._expected.require_serial_number([serial] if serial else [])
        if self._expected.serial_number is None and self._expected.system_uuid is not None:
            raise TargetFailure(
                "conflict",
                f"the {KIND} {self._name} has no UUID to compare; give serial_number instead",
            )
        return found

    async def look(self) -> Observation:
        """The state by ``status.poweredOn``, and a transition while ``spec.online`` differs."""
        try:
            self._host = await asyncio.to_thread(self.read)
        except TargetFailure as failure:
            if not self._host or failure.reason != "server_error":
                raise
            return Observation(None, problem=failure.detail)
        problem = unmanaged_because(self._host)
        if problem:
            raise TargetFailure("conflict", f"the {KIND} {self._name} {problem} meanwhile")
        self._require_obedience()
        return Observation(_state_of(self._host), _ACTION)

    def _require_obedience(self) -> None:
        """Raise TargetFailure if Metal3 would not do what spec.online says."""
        if self._state != "on" and member(self._host, "spec", "disablePowerOff") is True:
            raise TargetFailure(
                "refused", f"spec.disablePowerOff of the {KIND} {self._name} is true; remove it"
            )
        annotation = _held_off_by(self._host)
        if self._state != "off" and annotation:
            raise TargetFailure(
                "refused",
                f"the annotation {annotation} of the {KIND} {self._name} keeps the machine off; "
                "its owner must remove it",
            )

    async def send(self, command: Send) -> Answer:
        """Write ``spec.online`` on condition of the version that was read."""
        return await asyncio.to_thread(self._write, command.reset_type == "true")

    def _write(self, online: bool) -> Answer:
        for _attempt in range(_CONFLICTS):
            version = text(member(self._host, "metadata", "resourceVersion"))
            body = {"metadata": {"resourceVersion": version}, "spec": {"online": online}}
            try:
                self._kube.request("PATCH", self._path, body, MERGE_CONTENT_TYPE)
            except ApiError as error:
                if error.status == 409:
                    self._host = self.read()
                    if unmanaged_because(self._host):
                        break
                    continue
                if error.status in (401, 403):
                    raise TargetFailure("forbidden", str(error)) from error
                return Answer("refused", str(error))
            return Answer("accepted", f"spec.online: {str(online).lower()}")
        return Answer("not_now", "the BareMetalHost was changed by others at the same time")


def _state_of(host: Object) -> PowerState | None:
    online, powered = member(host, "spec", "online"), member(host, "status", "poweredOn")
    if not isinstance(powered, bool):
        return None
    if powered is online:
        return "On" if powered else "Off"
    return "PoweringOff" if powered else "PoweringOn"


def unmanaged_because(host: Object) -> str:
    """Why Metal3 does not switch this machine; empty if it does."""
    annotations = member(host, "metadata", "annotations")
    if not isinstance(member(host, "spec", "online"), bool):
        return "has no spec.online"
    if member(annotations, _PAUSED) is not None:
        return "is paused"
    if member(annotations, _DETACHED) is not None:
        return "is detached"
    if text(member(host, "status", "operationalStatus")) == "detached":
        return "is detached"
    state = text(member(host, "status", "provisioning", "state"))
    return "is unmanaged" if state == "unmanaged" else ""


def _held_off_by(host: Object) -> str:
    """The annotation by which somebody keeps the machine off; empty without one."""
    annotations = member(host, "metadata", "annotations")
    names = annotations if isinstance(annotations, dict) else {}
    return next((text(name) for name in names if str(name).startswith(f"{_REBOOT}/")), "")
