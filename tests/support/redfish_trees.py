# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small Redfish trees of our own, with the quirks of real ones."""

from __future__ import annotations

import typing as t

from support.https_server import Document

Body = dict[str, t.Any]

ROOT = "/redfish/v1"
SERVER = f"{ROOT}/Chassis/Server"


def ref(uri: str) -> Body:
    return {"@odata.id": uri}


def collection(*uris: str) -> Body:
    return {"Members": [ref(uri) for uri in uris], "Members@odata.count": len(uris)}


def chassis(uri: str, kind: str = "RackMount", system: bool = True, **more: t.Any) -> Body:
    """A chassis that links to every usual resource below it, whether it exists or not."""
    names = ("Thermal", "Power", "Sensors", "ThermalSubsystem", "EnvironmentMetrics")
    links = {"ComputerSystems": [ref(f"{ROOT}/Systems/1")]} if system else {}
    return {
        "@odata.id": uri,
        "ChassisType": kind,
        "PowerState": "On",
        "Manufacturer": "Contoso",
        "Links": links,
        **{name: ref(f"{uri}/{name}") for name in names},
        **more,
    }


def temperature(name: str, celsius: t.Any, context: str | None = None, **more: t.Any) -> Body:
    """An entry of Thermal.Temperatures."""
    entry = {"Name": name, "ReadingCelsius": celsius, "Status": {"State": "Enabled"}, **more}
    return entry if context is None else {**entry, "PhysicalContext": context}


def sensor(
    uri: str, name: str, reading: t.Any, context: str | None = None, **more: t.Any
) -> dict[str, Body]:
    """A Sensor resource by its URI."""
    body = {
        "@odata.id": uri,
        "Id": uri.rpartition("/")[2],
        "Name": name,
        "Reading": reading,
        "ReadingType": "Temperature",
        "ReadingUnits": "Cel",
        "Status": {"State": "Enabled"},
        **more,
    }
    return {uri: body if context is None else {**body, "PhysicalContext": context}}


def thermal(*entries: Body, uri: str = SERVER) -> dict[str, Document]:
    return {f"{uri}/Thermal": {"@odata.id": f"{uri}/Thermal", "Temperatures": list(entries)}}


def power(watts: t.Any, uri: str = SERVER) -> dict[str, Document]:
    control = {"Name": "System Power Control", "PowerConsumedWatts": watts}
    return {f"{uri}/Power": {"@odata.id": f"{uri}/Power", "PowerControl": [control]}}


def metrics(body: Body, uri: str = SERVER) -> dict[str, Document]:
    place = f"{uri}/ThermalSubsystem"
    return {
        place: {"ThermalMetrics": ref(f"{place}/ThermalMetrics")},
        f"{place}/ThermalMetrics": body,
    }


def sensors(*members: dict[str, Body], uri: str = SERVER) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    for member in members:
        documents.update(member)
    return {f"{uri}/Sensors": collection(*documents), **documents}


def one_server(*parts: dict[str, Document], **chassis_fields: t.Any) -> dict[str, Document]:
    """Root, system and one chassis, which the system links to, with these resources."""
    documents: dict[str, Document] = {
        ROOT: {
            "Systems": ref(f"{ROOT}/Systems"),
            "Chassis": ref(f"{ROOT}/Chassis"),
            "Vendor": "Contoso",
        },
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems/1"),
        f"{ROOT}/Systems/1": {"PowerState": "On", "Links": {"Chassis": [ref(SERVER)]}},
        f"{ROOT}/Chassis": collection(SERVER),
        SERVER: chassis(SERVER, **chassis_fields),
    }
    for part in parts:
        documents.update(part)
    return documents
