# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about reading machines."""

from __future__ import annotations

import json
import statistics
import typing as t
from pathlib import Path

import yaml

from bench.kit.hall import Hall, installed, without_sensors
from bench.kit.plays import nothing, play
from bench.kit.rows import (
    Bench,
    Different,
    Json,
    Peer,
    Row,
    at_least,
    at_most,
    exactly,
    metric,
    ratio,
)
from bench.kit.stage import Stage
from lab.machines import Machine

PEER_HOSTS = 50
FORKS = 16


def read_a_thousand_bmcs(stage: Stage) -> Row:
    room = installed(stage).hall
    room.quieten()
    room.admin("POST", "/clock", {"frozen": True})
    try:
        return _read(stage, room)
    finally:
        room.admin("POST", "/clock", {"frozen": False})


def _read(stage: Stage, room: Hall) -> Row:
    snapshot = stage.folder() / "snapshot.json"
    stage.playbook(play({"wattwise.kube.fleet_snapshot_info": _taking(room, snapshot)}))
    known = json.loads(snapshot.read_text(encoding="utf-8"))
    cold = stage.folder() / "cold.json"
    cold.write_text(json.dumps(without_sensors(known)), encoding="utf-8")
    ours = [stage.playbook(thermal(room, snapshot)).seconds for _run in stage.runs(5)]
    polled = _requests(stage, room, snapshot)
    first = [stage.playbook(thermal(room, cold)).seconds for _run in stage.runs(2)]
    searched = _requests(stage, room, cold)
    chosen = [item for item in room.machines if item.certificate == "lab-ca"][:PEER_HOSTS]
    uris = [uri_play(stage, room, known, chosen) for _run in stage.runs(2)]
    start_up = stage.playbook(nothing()).seconds
    nodes = len(room.machines)
    peers = [start_up + (seconds - start_up) * nodes / len(chosen) for seconds in uris]
    _compare(stage, room, known, chosen)
    return Row(
        title=f"Reading the inlet temperature of {nodes:,} BMCs",
        work=(
            "One task over TLS. Each answer takes 50 ms; the sensors are known from a previous run."
        ),
        command="wattwise.kube.redfish_thermal_info: {snapshot: snapshot.json, gather: [inlet]}",
        peers=[
            Peer(
                f"`uri` over hosts, {FORKS} forks",
                f"ansible-playbook -f {FORKS}, one host a BMC, ansible.builtin.uri of the sensor",
            )
        ],
        metrics=[
            metric("sensors known", "s", ours, at_most(6)),
            metric("requests a machine", "", [statistics.mean(polled.values())], exactly(1)),
            metric("`uri` over hosts, scaled", "s", peers),
            ratio("times faster than `uri`", peers, ours, at_least(30)),
            metric("sensors unknown", "s", first),
            metric("requests a machine, sensors unknown", "", [statistics.mean(searched.values())]),
        ],
        equal=f"the temperatures of {len(chosen)} machines, with the simulated clock stopped.",
        notes=[
            f"`uri` ran over {len(chosen)} hosts. Its time, less that of a playbook which does "
            f"nothing, was multiplied by {nodes / len(chosen):g}.",
            "The simulated BMCs run on the same processors and take a large part of the time.",
            f"Requests to find the sensors, by kind of BMC: {_by_vendor(room, searched)}.",
        ],
    )


def _taking(room: Hall, path: Path) -> Json:
    include = ["nodes", "node_configs"]
    return {"kubeconfig": room.kubeconfig, "path": str(path), "include": include}


def thermal(room: Hall, snapshot: Path, result: Path | None = None) -> list[Json]:
    """A play that runs the module; with `result`, it writes the returned readings there."""
    options = {
        "snapshot": str(snapshot),
        "kubeconfig": room.kubeconfig,
        "ca_path": str(room.state.ca_certificate),
        "gather": ["inlet"],
        "min_success": 1.0,
        "refresh": True,
    }
    plays = play({"wattwise.kube.redfish_thermal_info": options, "register": "thermal"})
    if result is not None:
        kept = {"content": "{{ thermal.readings | to_json }}", "dest": str(result), "mode": "0600"}
        plays[0]["tasks"].append({"name": "Keep", "ansible.builtin.copy": kept})
    return plays


def _requests(stage: Stage, room: Hall, snapshot: Path) -> dict[str, int]:
    """Node → number of requests to its BMC in one run."""
    room.admin("DELETE", "/requests")
    stage.playbook(thermal(room, snapshot))
    counted = room.admin("GET", "/requests")["nodes"]
    return {node: entry["requests"] for node, entry in counted.items()}


def _by_vendor(room: Hall, requests: dict[str, int]) -> str:
    counts: dict[str, list[int]] = {}
    for machine in room.machines:
        counts.setdefault(machine.vendor, []).append(requests[machine.name])
    means = {vendor: statistics.mean(values) for vendor, values in counts.items()}
    return ", ".join(f"{vendor} {mean:g}" for vendor, mean in sorted(means.items()))


def uri_play(
    stage: Stage, room: Hall, snapshot: Json, machines: list[Machine], folder: Path | None = None
) -> float:
    """Seconds of the peer; with a folder, each host's answer is kept there."""
    sensors = _sensors(snapshot)
    hosts = {
        machine.name: {
            "ansible_connection": "local",
            "uri_url": f"https://{machine.bmc_address}:{room.settings.ports['bmc']}"
            f"{sensors[machine.name]['uri']}",
            "uri_username": machine.bmc_username,
            "uri_password": machine.bmc_password,
        }
        for machine in machines
    }
    inventory = stage.folder() / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    options = {
        "url": "{{ uri_url }}",
        "url_username": "{{ uri_username }}",
        "url_password": "{{ uri_password }}",
        "force_basic_auth": True,
        "ca_path": str(room.state.ca_certificate),
    }
    plays = play({"ansible.builtin.uri": options, "register": "answer"})
    plays[0]["hosts"] = "all"
    if folder is not None:
        kept = {"content": "{{ answer.json | to_json }}", "mode": "0600"}
        kept["dest"] = f"{folder}/{{{{ inventory_hostname }}}}.json"
        plays[0]["tasks"].append({"name": "Keep", "ansible.builtin.copy": kept})
    return stage.playbook(plays, "-i", str(inventory), "-f", str(FORKS)).seconds


def _sensors(snapshot: Json) -> dict[str, Json]:
    return {
        item["spec"]["nodeName"]: item["status"]["sensors"]["inletTemp"]
        for item in snapshot["node_configs"]
    }


def _compare(stage: Stage, room: Hall, snapshot: Json, machines: list[Machine]) -> None:
    result, folder = stage.folder() / "ours.json", stage.folder()
    stage.playbook(thermal(room, room_snapshot(stage, snapshot), result))
    uri_play(stage, room, snapshot, machines, folder)
    readings = {item["name"]: item for item in json.loads(result.read_text(encoding="utf-8"))}
    sensors = _sensors(snapshot)
    for machine in machines:
        body = json.loads((folder / f"{machine.name}.json").read_text(encoding="utf-8"))
        theirs = _reading(body, sensors[machine.name]["name"])
        mine = readings[machine.name]["inlet_celsius"]
        if theirs != mine:
            raise Different(f"{machine.name}: {mine} °C, by uri {theirs} °C")


def room_snapshot(stage: Stage, snapshot: Json) -> Path:
    """Write the snapshot to a file of its own."""
    path = stage.folder() / "snapshot.json"
    path.write_text(json.dumps(snapshot), encoding="utf-8")
    return path


def _reading(body: Json, sensor: str) -> t.Any:
    """The temperature in a Sensor, in Thermal's list or in ThermalMetrics."""
    if "Reading" in body:
        return body["Reading"]
    if "Temperatures" in body:
        [found] = [item for item in body["Temperatures"] if item.get("Name") == sensor]
        return found["ReadingCelsius"]
    for place, value in body.get("TemperatureSummaryCelsius", {}).items():
        if place == sensor:
            return value["Reading"]
    entries = body["TemperatureReadingsCelsius"]
    names = [item.get("DeviceName") or item["DataSourceUri"].split("/")[-1] for item in entries]
    return entries[names.index(sensor)]["Reading"]


BENCHES = [Bench("read-bmcs", read_a_thousand_bmcs)]
