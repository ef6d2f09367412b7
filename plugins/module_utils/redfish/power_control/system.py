# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A computer system as its BMC reports it: identity, power state and reset action."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ...base.errors import TargetFailure
from ...base.fields.lenient import member, text
from ...base.json_types import Object
from ...base.texts import shown
from ..links import identity, link, name_of
from ..systems import find_servers, find_systems
from ..tree import Tree
from .reset import PowerState, ResetAction, power_state_of, reset_action_of

_UUID = re.compile(r"[0-9a-f]{32}")
# Values of boards whose maker wrote none.
_PLACEHOLDERS = frozenset(
    {"", "0", "none", "default string", "to be filled by o.e.m.", "not specified", "0123456789"}
)
_DEFAULT_UUIDS = frozenset({"0" * 32, "f" * 32, "03000200040005000006000700080009"})


@dataclass(frozen=True)
class System:
    """One computer system at one moment. ``uri`` is as the BMC gave it."""

    uri: str
    power_state: PowerState | None
    action: ResetAction | None
    serial_numbers: tuple[str, ...] = ()
    uuid: str = ""
    vendor: str = ""
    model: str = ""
    power_restore_policy: str = ""

    @property
    def machine(self) -> tuple[str, ...] | None:
        """The identity by which two BMC addresses are one machine; None without a reliable one."""
        uuid = _normal_uuid(self.uuid)
        known = [one for one in self.serial_numbers if one.lower() not in _PLACEHOLDERS]
        if uuid is None or uuid in _DEFAULT_UUIDS or not known:
            return None
        return (uuid, *known)


@dataclass(frozen=True)
class ExpectedMachine:
    """The identity that a machine must have before it is switched; None is any."""

    serial_number: str | None = None
    system_uuid: str | None = None

    def require(self, system: System) -> None:
        """Raise TargetFailure, conflict, if the BMC answers for another machine."""
        self.require_serial_number(system.serial_numbers)
        if self.system_uuid is None:
            return
        if _normal_uuid(system.uuid) not in _forms(self.system_uuid):
            found = f"the UUID {shown(system.uuid)}" if system.uuid else "no UUID"
            raise _other_machine(found, self.system_uuid)

    def is_of(self, system: System) -> bool:
        """Whether this is the identity of the system."""
        try:
            self.require(system)
        except TargetFailure:
            return False
        return True

    def require_serial_number(self, found: t.Sequence[str]) -> None:
        """Raise TargetFailure, conflict, unless one of the serial numbers is the expected one."""
        expected = self.serial_number
        if expected is None or expected.strip().lower() in {one.lower() for one in found}:
            return
        told = " or ".join(map(shown, found))
        raise _other_machine(f"the serial number {told}" if told else "no serial number", expected)


def _other_machine(found: str, expected: str) -> TargetFailure:
    return TargetFailure(
        "conflict",
        f"the machine has {found}, not {shown(expected)}, so that nothing was sent; correct the "
        "endpoint, or the identity of the target",
    )


def _normal_uuid(value: str) -> str | None:
    digits = re.sub(r"[{}\s-]", "", value).lower()
    return digits if _UUID.fullmatch(digits) else None


def _forms(uuid: str) -> set[str | None]:
    """The UUID in both byte orders, because SMBIOS and BMCs differ in that of the first parts."""
    digits = _normal_uuid(uuid)
    if digits is None:
        return set()
    parts = (digits[:8], digits[8:12], digits[12:16])
    swapped = "".join(bytes.fromhex(part)[::-1].hex() for part in parts)
    return {digits, swapped + digits[16:]}


def is_uuid(value: str) -> bool:
    """Whether this is a UUID."""
    return _normal_uuid(value) is not None


async def read_system(tree: Tree, path: str = "") -> System:
    """The system at a known path, else the server's system. Raises TargetFailure.

    Without a path every system must be readable, because another server may be the one that is not.
    """
    body = await tree.require(path) if path else None
    if body is not None and _is_system(body):
        return system_of(path, body)
    _root, systems = await find_systems(tree, path)
    if tree.failures and not path:
        failure = tree.failures[0]
        raise TargetFailure(
            failure.reason, f"{failure.detail}; or name the path of the machine's system"
        )
    return system_of(*systems[0])


async def find_machine(tree: Tree, expected: ExpectedMachine) -> System:
    """The expected one of all servers behind a service. Raises TargetFailure."""
    servers = await find_servers(tree)
    if len(servers) <= 1:
        return await read_system(tree)
    systems = [system_of(uri, body) for uri, body in servers]
    own = [one for one in systems if expected.is_of(one)]
    if len(own) != 1:
        raise TargetFailure(
            "not_found",
            f"{len(own)} of {len(systems)} computer systems at its address have the expected "
            "identity; append the path of the machine's system to the address",
        )
    return own[0]


def _is_system(body: Object) -> bool:
    kind = text(body.get("@odata.type")).lstrip("#").partition(".")[0]
    return kind in ("", "ComputerSystem")


async def with_allowed_values(tree: Tree, system: System) -> tuple[ResetAction | None, str]:
    """The reset action with its values, from the ActionInfo if the system has none.

    If that cannot be read, there is no action, but a problem that may end. Raises TargetFailure.
    """
    action = system.action
    if action is None or action.values is not None or not action.action_info:
        return action, ""
    try:
        body = await tree.require(action.action_info)
    except TargetFailure as failure:
        if failure not in tree.failures:
            raise
        return None, failure.detail
    return (action if body is None else action.with_info(body)), ""


def system_of(uri: str, body: Object) -> System:
    """The system by its resource."""
    own = link(body)
    # With the slash of the BMC, which spares a redirect.
    uri = own if identity(own) == identity(uri) else uri
    serials = (name_of(body.get("SerialNumber")), name_of(body.get("SKU")))
    is_dell = name_of(body.get("Manufacturer")).lower().startswith("dell")
    return System(
        uri=uri,
        power_state=power_state_of(body.get("PowerState")),
        action=reset_action_of({**body, "@odata.id": uri}),
        # Dell's service tag is the SKU, and its serial number that of the board.
        serial_numbers=tuple(filter(None, serials if is_dell else serials[:1])),
        uuid=name_of(body.get("UUID")),
        vendor=name_of(body.get("Manufacturer")),
        model=name_of(body.get("Model")),
        power_restore_policy=name_of(body.get("PowerRestorePolicy"))
        or name_of(member(body, "Oem", "Hpe", "PowerAutoOn")),
    )
