# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random claims and volumes for the generated instances of placement_instances.py."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from hypothesis import strategies as st

from support.placement_rules import HOSTNAME
from support.placement_volumes import SELECTED
from support.volume_objects import (
    ZONE,
    capacity,
    claim,
    csi_driver,
    csi_node,
    mounted,
    reachable,
    storage_class,
    volume,
)

Json = dict[str, t.Any]
Draw = Callable[[st.SearchStrategy[t.Any]], t.Any]

CLAIMS = ("c0", "c1", "c2", "c3")
SIZES = st.sampled_from(["1Gi", "1Gi", "2Gi", "5Gi"])
MODES = st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce",), ("ReadWriteOncePod",)])
# Disks without a claim; the drivers of the first two may have limits.
INLINE = st.sampled_from(
    [
        {"gcePersistentDisk": {"pdName": "a"}},
        {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
        {"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
        {"iscsi": {"iqn": "iqn.2001-04.com.example:a", "readOnly": True}},
        {"iscsi": {"iqn": "iqn.2001-04.com.example:a"}},
        {"rbd": {"monitors": ["m1", "m2"], "image": "a"}},
        {"rbd": {"monitors": ["m2"], "image": "a", "readOnly": True}},
        {"rbd": {"monitors": ["m2"], "image": "a", "pool": "other"}},
        {"nfs": {"server": "nfs.example.com", "path": "/a"}},
    ]
)
_BY_NAME = st.sampled_from(CLAIMS)
_DRIVERS = ("disks.example.com", "disks.example.com", "pd.csi.storage.gke.io", "ebs.csi.aws.com")


def volumes_of_pod(draw: Draw) -> list[Json]:
    """No claim, one or two; some pods share a claim or a disk without a claim."""
    volumes = mounted(*sorted(draw(st.sets(_BY_NAME, max_size=2))))
    if draw(st.integers(1, 4)) == 4:
        volumes.append({"name": "disk", **draw(INLINE)})
    return volumes


def volume_objects(draw: Draw, node_names: list[str]) -> list[Json]:
    objects = [
        storage_class("wait", **_topologies(draw)),
        storage_class("local", "kubernetes.io/no-provisioner"),
        storage_class("now", volumeBindingMode="Immediate"),
    ]
    for name in CLAIMS:
        objects += _claim(draw, name, node_names)
    for index in range(draw(st.integers(0, 4))):
        in_class = draw(st.sampled_from(["local", "local", "wait"]))
        objects.append(_volume(draw, f"free-{index}", in_class, node_names))
    for name in node_names:
        if draw(st.booleans()):
            driver = draw(st.sampled_from(_DRIVERS))
            objects.append(csi_node(name, draw(st.integers(0, 3)), driver))
    if draw(st.integers(1, 3)) == 3:
        objects.append(csi_driver())
        zones = draw(st.sets(st.sampled_from(["x", "y", None])))
        objects += [capacity(f"in-{zone}", zone, draw(SIZES)) for zone in sorted(zones, key=str)]
    return objects


def _topologies(draw: Draw) -> Json:
    if draw(st.integers(1, 3)) > 1:
        return {}
    values = sorted(draw(st.sets(st.sampled_from(["x", "y"]), min_size=1)))
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]}


def _claim(draw: Draw, name: str, node_names: list[str]) -> list[Json]:
    """A claim with its volume, if it is bound; some claims are missing, or not ready."""
    kind = draw(st.sampled_from(["bound"] * 4 + ["wait"] * 4 + ["local"] * 4 + ["now", "gone"]))
    if kind == "gone":
        return []
    options: Json = {"size": draw(SIZES), "modes": draw(MODES)}
    if kind == "bound":
        bound = _volume(draw, f"of-{name}", "wait", node_names)
        bound["status"]["phase"] = "Bound"
        bound["spec"]["claimRef"] = {"namespace": "default", "name": name}
        return [claim(name, volume=f"of-{name}", **options), bound]
    found = claim(name, kind, **options)
    if draw(st.integers(1, 8)) == 8:
        found["metadata"]["annotations"] = {SELECTED: draw(st.sampled_from(node_names))}
    return [found]


def _volume(draw: Draw, name: str, in_class: str, node_names: list[str]) -> Json:
    """A volume of one node, of a zone, or of all nodes; some state the zone only as a label."""
    found = volume(name, in_class, size=draw(SIZES), modes=draw(MODES))
    where = draw(st.sampled_from(["node", "node", "zone", "label", "anywhere"]))
    if where == "node":
        found["spec"]["nodeAffinity"] = reachable(HOSTNAME, draw(st.sampled_from(node_names)))
    elif where == "zone":
        found["spec"]["nodeAffinity"] = reachable(ZONE, draw(st.sampled_from(["x", "y"])))
    elif where == "label" and in_class == "wait" and name.startswith("of-"):
        key = draw(st.sampled_from([ZONE, "failure-domain.beta.kubernetes.io/zone"]))
        found["metadata"]["labels"] = {key: draw(st.sampled_from(["x", "y", "x__z"]))}
    return found
