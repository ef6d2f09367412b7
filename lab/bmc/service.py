# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources of every BMC besides its sensors: service root, system, manager, accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.bmc.hardware import Layout, Parts, memory_summary_gib, threads
from lab.bmc.live import MODEL_VERSION, Live
from lab.bmc.odata import (
    ABSENT,
    HEALTHY,
    ROOT,
    Builder,
    Json,
    collection,
    fixed,
    link,
    links,
    resource,
)
from lab.bmc.power import ResetStyle, action_info, actions
from lab.hardware import system_uuid
from lab.machines import SERVER_TYPES

SESSION_SERVICE = f"{ROOT}/SessionService"
SESSIONS = f"{SESSION_SERVICE}/Sessions"
ACCOUNTS = f"{ROOT}/AccountService/Accounts"
ROLES = f"{ROOT}/AccountService/Roles"
PRIVILEGES = {
    "ReadOnly": ("Login",),
    "Administrator": ("Login", "ConfigureManager", "ConfigureComponents"),
}
PROCESSORS = 2
DIMMS = 8


@dataclass(frozen=True)
class Identity:
    """Differences between vendors.

    `chassis` are the ids of the members of the Chassis collection as listed, `main` the one that
    holds the system. `processor` and `dimm` are id formats that take a number from `first` on.
    """

    manufacturer: str
    redfish_version: str
    system: str
    manager: str
    firmware: str
    main: str
    chassis: tuple[str, ...]
    first: int = 1
    processor: str = "{}"
    dimm: str = "DIMM{}"
    root_properties: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    reset: ResetStyle = field(default_factory=ResetStyle)
    has_attributes: bool = False

    @property
    def system_path(self) -> str:
        return f"{ROOT}/Systems/{self.system}"

    @property
    def manager_path(self) -> str:
        return f"{ROOT}/Managers/{self.manager}"

    @property
    def chassis_path(self) -> str:
        return f"{ROOT}/Chassis/{self.main}"

    @property
    def attributes_path(self) -> str:
        """Dell's attributes of the server."""
        return f"{self.manager_path}/Oem/Dell/DellAttributes/System.Embedded.1"

    @property
    def reset_path(self) -> str:
        return f"{self.system_path}/Actions/ComputerSystem.Reset"

    @property
    def parts(self) -> Parts:
        return Parts(self.system_path, self.chassis_path, self.layout)


def service(identity: Identity) -> dict[str, Builder]:
    """The tree without the resources below the Chassis collection."""
    chassis = [f"{ROOT}/Chassis/{member}" for member in identity.chassis]
    return {
        **_service_root(identity),
        **collection(f"{ROOT}/Systems", "ComputerSystem", [identity.system_path]),
        identity.system_path: lambda live: _system(identity, live),
        **_reset_info(identity),
        **_processors(identity),
        **_memory(identity),
        **identity.parts.resources(),
        f"{identity.system_path}/MachineLearningModel": lambda live: _model(identity, live),
        **_manager(identity),
        **_accounts(),
        **collection(f"{ROOT}/Chassis", "Chassis", chassis),
    }


def main_chassis(
    identity: Identity, schema: str, name: str, **properties: Any
) -> dict[str, Builder]:
    """The chassis that holds the computer system."""
    path = identity.chassis_path

    def build(live: Live) -> Json:
        return resource(
            path,
            schema,
            name,
            ChassisType="RackMount",
            Manufacturer=identity.manufacturer,
            Model=live.machine.model,
            PowerState=live.power_state,
            Status=dict(HEALTHY),
            Links={
                "ComputerSystems": [link(identity.system_path)],
                "ManagedBy": [link(identity.manager_path)],
            },
            **identity.parts.chassis_properties(live),
            **properties,
        )

    return {path: build}


def session(path: str, username: str) -> Json:
    return resource(path, "Session.v1_3_0.Session", "User Session", UserName=username)


def _service_root(identity: Identity) -> dict[str, Builder]:
    names = ("Systems", "Chassis", "Managers", "SessionService", "AccountService")
    return fixed(
        ROOT,
        "ServiceRoot.v1_11_0.ServiceRoot",
        "Root Service",
        RedfishVersion=identity.redfish_version,
        Links={"Sessions": link(SESSIONS)},
        **{name: link(f"{ROOT}/{name}") for name in names},
        **identity.root_properties,
    ) | {"/redfish": lambda live: {"v1": f"{ROOT}/"}}


def _system(identity: Identity, live: Live) -> Json:
    path = identity.system_path
    kind = SERVER_TYPES[live.machine.server_type]
    return resource(
        path,
        "ComputerSystem.v1_16_0.ComputerSystem",
        "System",
        SystemType="Physical",
        Manufacturer=identity.manufacturer,
        Model=live.machine.model,
        HostName=live.machine.name,
        UUID=system_uuid(live.machine.name),
        PowerState=live.power_state,
        PowerRestorePolicy="LastState",
        **({"Actions": actions(identity.reset, path)} if live.has_reset else {}),
        ProcessorSummary={
            "Count": kind.sockets,
            "CoreCount": kind.cores,
            "Model": kind.processor,
            "Status": dict(HEALTHY),
        },
        MemorySummary={
            "TotalSystemMemoryGiB": memory_summary_gib(identity.layout, live),
            "Status": dict(HEALTHY),
        },
        Status=dict(HEALTHY),
        Processors=link(f"{path}/Processors"),
        Memory=link(f"{path}/Memory"),
        MachineLearningModel=link(f"{path}/MachineLearningModel"),
        **identity.parts.system_properties(live),
        Links={
            "Chassis": [link(identity.chassis_path)],
            "ManagedBy": [link(identity.manager_path)],
        },
    )


def _reset_info(identity: Identity) -> dict[str, Builder]:
    if not identity.reset.in_action_info:
        return {}
    path = f"{identity.system_path}/ResetActionInfo"
    return {path: lambda live: action_info(path, identity.reset.types)}


def _processors(identity: Identity) -> dict[str, Builder]:
    folder = f"{identity.system_path}/Processors"
    first = identity.first
    ids = [identity.processor.format(number) for number in range(first, first + PROCESSORS)]

    def builder(socket: int, path: str) -> Builder:
        def build(live: Live) -> Json:
            kind = SERVER_TYPES[live.machine.server_type]
            body = resource(path, "Processor.v1_11_0.Processor", f"Processor {path[-1]}")
            if socket >= kind.sockets:
                return body | {"Status": dict(ABSENT)}
            cores = kind.cores // kind.sockets
            return body | {
                "Model": kind.processor,
                "TotalCores": cores,
                **threads(live, kind.sockets),
                "Status": dict(HEALTHY),
            }

        return build

    paths = [f"{folder}/{name}" for name in ids]
    entries = {path: builder(socket, path) for socket, path in enumerate(paths)}
    return collection(folder, "Processor", paths) | entries


def _memory(identity: Identity) -> dict[str, Builder]:
    folder = f"{identity.system_path}/Memory"

    def builder(path: str) -> Builder:
        return lambda live: resource(
            path,
            "Memory.v1_12_0.Memory",
            path.rpartition("/")[2],
            CapacityMiB=live.machine.memory_gib * 1024 // DIMMS,
            Status=dict(HEALTHY),
        )

    paths = [f"{folder}/{identity.dimm.format(number)}" for number in range(1, DIMMS + 1)]
    return collection(folder, "Memory", paths) | {path: builder(path) for path in paths}


def _model(identity: Identity, live: Live) -> Json:
    """As in the NEDO Machine Learning Model Management API 0.2.0."""
    path = f"{identity.system_path}/MachineLearningModel"
    return {
        "@odata.id": path,
        "@odata.type": "#MachineLearningModel.v1_0_0.MachineLearningModel",
        "@odata.context": f"{ROOT}/$metadata#Systems/{identity.system}/MachineLearningModel",
        "Name": "Machine Learning Model",
        "PowerConsumptionModel": {
            "Name": live.machine.server_type,
            "Url": live.predictor_url,
            "Type": "V2InferenceProtocol",
            "Version": MODEL_VERSION,
        },
    }


def _manager(identity: Identity) -> dict[str, Builder]:
    path = identity.manager_path
    attributes = [link(identity.attributes_path)] if identity.has_attributes else []
    port = f"{path}/EthernetInterfaces/1"

    def interface(live: Live) -> Json:
        return resource(
            port,
            "EthernetInterface.v1_6_0.EthernetInterface",
            "Manager Ethernet Interface",
            HostName=f"{live.machine.name}-bmc",
            IPv4Addresses=[{"Address": live.machine.bmc_address, "AddressOrigin": "Static"}],
            Status=dict(HEALTHY),
        )

    return {
        **collection(f"{ROOT}/Managers", "Manager", [path]),
        **fixed(
            path,
            "Manager.v1_11_0.Manager",
            "Manager",
            ManagerType="BMC",
            FirmwareVersion=identity.firmware,
            Status=dict(HEALTHY),
            EthernetInterfaces=link(f"{path}/EthernetInterfaces"),
            Links={
                "ManagerForServers": [link(identity.system_path)],
                "ManagerForChassis": [link(identity.chassis_path)],
                **({"Oem": {"Dell": {"DellAttributes": attributes}}} if attributes else {}),
            },
        ),
        **collection(f"{path}/EthernetInterfaces", "EthernetInterface", [port]),
        port: interface,
    }


def _accounts() -> dict[str, Builder]:
    """An account that reads, and one that may also switch and cap."""
    accounts = {f"{ACCOUNTS}/{number}": role for number, role in enumerate(PRIVILEGES, 1)}
    roles: dict[str, Builder] = {}
    for role, privileges in PRIVILEGES.items():
        path = f"{ROLES}/{role}"
        roles |= fixed(path, "Role.v1_3_0.Role", role, AssignedPrivileges=list(privileges))
    return {
        **fixed(
            SESSION_SERVICE,
            "SessionService.v1_1_8.SessionService",
            "Session Service",
            ServiceEnabled=True,
            SessionTimeout=1800,
            Sessions=link(SESSIONS),
        ),
        **collection(SESSIONS, "Session", []),
        **fixed(
            f"{ROOT}/AccountService",
            "AccountService.v1_10_0.AccountService",
            "Account Service",
            AccountLockoutThreshold=3,
            AccountLockoutCounterResetAfter=300,
            AccountLockoutDuration=1800,
            Accounts=link(ACCOUNTS),
            Roles=link(ROLES),
        ),
        **collection(ACCOUNTS, "ManagerAccount", list(accounts)),
        **{path: _account(path, role) for path, role in accounts.items()},
        **collection(ROLES, "Role", list(roles)),
        **roles,
    }


def _account(path: str, role: str) -> Builder:
    def build(live: Live) -> Json:
        machine = live.machine
        return resource(
            path,
            "ManagerAccount.v1_8_0.ManagerAccount",
            "User Account",
            UserName=machine.bmc_username if role == "ReadOnly" else machine.power_username,
            Password=None,
            RoleId=role,
            Enabled=True,
            Links={"Role": link(f"{ROLES}/{role}")},
        )

    return build


def storage_enclosure(
    identity: Identity, member: str, name: str, **properties: Any
) -> dict[str, Builder]:
    """A backplane or drive enclosure: a chassis without the server's air inlet."""
    return fixed(
        f"{ROOT}/Chassis/{member}",
        "Chassis.v1_14_0.Chassis",
        name,
        ChassisType="StorageEnclosure",
        Manufacturer=identity.manufacturer,
        Status=dict(HEALTHY),
        Links={
            "ContainedBy": link(identity.chassis_path),
            "ManagedBy": links([identity.manager_path]),
        },
        **properties,
    )
