# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An object of storage that cannot be read changes nothing for pods that do not use it."""

from __future__ import annotations

import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.snapshot import take
from support.examples import each_seed
from support.odd_values import bounded, spoilt
from support.scripted_api import Asked, Reply, ScriptedApi
from support.storage_api import PLURALS
from support.volume_objects import (
    ZONE,
    capacity,
    claim,
    csi_driver,
    csi_node,
    mounted,
    storage_class,
    volume,
)

Json = dict[str, t.Any]
NODES = [
    {
        "name": name,
        "labels": {ZONE: zone},
        "allocatable": {"cpu": "16"},
        "curve": {"cpu": [0, 16], "watts": [100, 100 + watts]},
    }
    for name, zone, watts in (("cheap", "a", 10), ("dear", "b", 500))
]
GOOD = [
    storage_class("wait"),
    claim("data", volume="v"),
    volume("v", zone="b"),
    csi_node("dear", 3),
]
ODD = [
    claim("odd", volume="w"),
    volume("w"),
    storage_class("odd"),
    csi_node("absent", 1),
    csi_driver("odd"),
    capacity("odd", "a", "1Gi"),
]


def pod(name: str, *claims: str) -> Json:
    return {"name": name, "requests": {"cpu": "1"}, "volumes": mounted(*claims)}


def an_odd_object(source: random.Random) -> Json:
    given = source.choice(ODD)
    return t.cast(Json, spoilt(source, {**given, "metadata": {**given["metadata"], "name": "odd"}}))


@each_seed(40)
def test_other_pods_get_the_same_nodes(seed: int) -> None:
    objects = [*GOOD, an_odd_object(random.Random(seed))]
    pods = [pod("p", "data"), pod("plain")]
    with bounded():
        result = place(
            {"nodes": NODES, "pods": [*pods, pod("z", "odd")], "volume_objects": objects}
        )
    expected = place({"nodes": NODES, "pods": pods, "volume_objects": GOOD})
    where = {entry["pod"]: entry["node"] for entry in result["placements"]}
    where.pop("z", None)
    assert where == {entry["pod"]: entry["node"] for entry in expected["placements"]}


INLINE = [
    {"name": "a", "rbd": {"monitors": ["m"], "pool": "p", "image": "i", "readOnly": True}},
    {"name": "b", "gcePersistentDisk": {"pdName": "d"}},
    {"name": "c", "iscsi": {"iqn": "q"}},
    {"name": "d", "cinder": {"volumeID": "x"}},
]


@each_seed(60)
def test_odd_disks_of_one_pod_keep_no_other_pod_waiting(seed: int) -> None:
    source = random.Random(seed)
    odd = {"name": "odd", "requests": {"cpu": "1"}, **spoilt(source, {"volumes": INLINE})}
    is_running = source.random() < 0.5
    running = [{**odd, "node_name": "cheap"}] if is_running else []
    given = {"nodes": NODES, "volume_objects": GOOD, "running": running}
    good = {**pod("good"), "volumes": [{"name": "a", "rbd": {"monitors": ["n"], "image": "j"}}]}
    with bounded():
        result = place({**given, "pods": [good] if is_running else [good, odd]})
    assert "good" in {entry["pod"] for entry in result["placements"]}


def taken(objects: list[t.Any]) -> list[Json]:
    """The storage of a snapshot of an API that serves these objects."""

    def answer(asked: Asked) -> Reply:
        plural = asked.path.partition("?")[0].rpartition("/")[2]
        kinds = [kind for kind, name in PLURALS.items() if name == plural]
        items = [item for item in objects if isinstance(item, dict) and item.get("kind") in kinds]
        return Reply({"kind": "List", "items": items})

    with ScriptedApi(answer) as api:
        snapshot = take({"host": api.url, "include": ["volume_objects"]})["snapshot"]
    return t.cast("list[Json]", snapshot["volume_objects"])


@each_seed(20)
def test_the_others_are_in_the_snapshot(seed: int) -> None:
    with bounded():
        found = taken([*GOOD, an_odd_object(random.Random(seed))])
    good = ["data", "v", "wait", "dear"]
    names = [item["metadata"]["name"] for item in found]
    assert [name for name in names if name in good] == good


def test_no_object_of_storage_is_read_without_a_waiting_claim() -> None:
    asked_for: list[str] = []

    def answer(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        asked_for.append(path)
        spec = {"nodeName": "n1", "volumes": mounted("data")}
        running = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec}
        return Reply({"kind": "List", "items": [running] if path.endswith("/pods") else []})

    with ScriptedApi(answer) as api:
        snapshot = take({"host": api.url, "include": ["pods", "volume_objects"]})["snapshot"]
    assert sorted(asked_for) == ["/api/v1/nodes", "/api/v1/pods"]
    assert snapshot["volume_objects"] == []
    assert snapshot["pods"][0]["spec"]["volumes"] == mounted("data")


def test_objects_of_storage_are_read_for_a_disk_of_a_driver() -> None:
    def answer(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        spec = {"volumes": [{"name": "d", "cinder": {"volumeID": "x"}}]}
        waiting = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec}
        items = {"pods": [waiting], "csinodes": [csi_node("n1", 3)]}
        return Reply({"kind": "List", "items": items.get(path.rpartition("/")[2], [])})

    with ScriptedApi(answer) as api:
        snapshot = take({"host": api.url, "include": ["pods", "volume_objects"]})["snapshot"]
    assert [item["kind"] for item in snapshot["volume_objects"]] == ["CSINode"]


def test_options_of_drivers_stay_in_the_cluster() -> None:
    secret: Json = {"volumeAttributes": {"password": "hunter2"}, "driver": "d", "volumeHandle": "h"}
    given = volume("v")
    given["spec"]["csi"] = secret
    [found] = taken([given])
    assert found["spec"]["csi"] == {"driver": "d", "volumeHandle": "h"}
