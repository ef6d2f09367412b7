# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims against the cases of kube-scheduler's own tests, Kubernetes v1.34.

The names of the cases are upstream's: volumebinding/{binder,volume_binding}_test.go,
volumezone/volume_zone_test.go, nodevolumelimits/csi_test.go and
volumerestrictions/volume_restrictions_test.go of pkg/scheduler/framework/plugins. Cases about
caches or skipped filters have no counterpart here.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.bind.volume_binding import choose
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.feasibility import (
    CLAIM_IN_USE,
    DISK_TAKEN,
    NO_STORAGE,
    NO_VOLUME,
    VOLUME_ELSEWHERE,
    VOLUME_ZONE,
    shortages,
    volume_obstacles,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import (
    Constraints,
    Node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.volumes.cluster_volumes import (
    ClusterVolumes,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.volumes.inline_disks import (
    MIGRATED,
    disk_uses,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.volumes.objects import (
    VolumeObjects,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.volumes.pod_claims import (
    Unready,
)
from support.volume_objects import (
    ZONE,
    attachment,
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
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
REGION = "topology.kubernetes.io/region"
SELECTED = "volume.kubernetes.io/selected-node"
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

CLASSES = [
    storage_class("static", "kubernetes.io/no-provisioner"),
    storage_class("dynamic", "test-provisioner"),
    storage_class("now", "test-provisioner", volumeBindingMode="Immediate"),
    storage_class(
        "elsewhere",
        "test-provisioner",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "host", "values": ["reference"]}]}],
    ),
]


def local(name: str, node: str, size: str = "1G", of_class: str = "static", **spec: t.Any) -> Json:
    return volume(name, of_class, size=size, nodeAffinity=reachable("host", node), **spec)


def bound(name: str, node: str, of_claim: str, of_class: str = "static") -> Json:
    reference = {"namespace": "default", "name": of_claim, "uid": f"uid-{of_claim}"}
    return local(name, node, of_class=of_class, claimRef=reference)


def with_annotation(item: Json, key: str, value: str) -> Json:
    item["metadata"].setdefault("annotations", {})[key] = value
    return item


UNBOUND = claim("unbound-pvc", "static", size="1G")
UNBOUND_2 = claim("unbound-pvc2", "static", size="5G")
# With a volume, and never completed.
PREBOUND = claim("prebound-pvc", "static", size="1G", volumeName="pv-node1a")
BOUND = claim("bound-pvc", "static", size="1G", volume="pv-bound")
NOW_UNBOUND = claim("immediate-unbound-pvc", "now")
NOW_BOUND = claim("immediate-bound-pvc", "now", volume="pv-bound-immediate")
PROVISIONED = claim("provisioned-pvc", "dynamic", size="1Gi")
SELECTED_PVC = with_annotation(claim("provisioned-pvc", "dynamic", size="1Gi"), SELECTED, "node1")
PV_1A, PV_1B = local("pv-node1a", "node1", "5G"), local("pv-node1b", "node1", "10G")
PV_2, PV_BOUND = local("pv-node2", "node2", "1G"), bound("pv-bound", "node1", "bound-pvc")
PV_NOW = bound("pv-bound-immediate", "node1", "immediate-bound-pvc", "now")
PV_NOW_2 = bound("pv-bound-immediate", "node2", "immediate-bound-pvc", "now")
EPHEMERAL: Json = {"name": "test-volume", "ephemeral": {"volumeClaimTemplate": {}}}


def generic(controller: str) -> Json:
    made = claim("test-pod-test-volume", "static", size="1G", volume="pv-bound")
    made["metadata"]["ownerReferences"] = [{"uid": controller, "controller": True}]
    return made


def waiting(volumes: list[Json]) -> Json:
    metadata = {"name": "test-pod", "namespace": "default", "uid": "uid-test-pod"}
    return {"metadata": metadata, "spec": {"volumes": volumes}}


def outcome(
    objects: list[Json],
    volumes: list[Json],
    labels: Json | None = None,
    running: list[Json] | None = None,
) -> list[str]:
    """Reason why node1 is refused; empty if it is not."""
    read = VolumeObjects.read([*CLASSES, *objects])
    assert read.findings == []
    node = Node("node1", {}, labels={"host": "node1"} if labels is None else labels)
    on_node = [{**pod, "spec": {**pod["spec"], "nodeName": "node1"}} for pod in running or []]
    pod = waiting(volumes)
    cluster = ClusterVolumes(read, on_node, [pod])
    try:
        needs = cluster.needs(pod)
    except Unready as problem:
        return [str(problem)]
    found = volume_obstacles(Constraints(volumes=needs.demands), node)
    found += shortages(needs.requests.items(), cluster.room("node1")[0])
    if needs.shared is not None and needs.shared.static and not found:
        chosen = choose(read, [(pod, "node1")], lambda _names: {"node1": node})
        names = {("default", name) for name in names_of(volumes)}
        unbound = {key for key in names if not read.claims[key].is_bound}
        found += [NO_VOLUME] if unbound - chosen.keys() else []
    return found


def names_of(volumes: list[Json]) -> list[str]:
    return [
        item["persistentVolumeClaim"]["claimName"]
        for item in volumes
        if "persistentVolumeClaim" in item
    ]


WITHOUT_PROVISIONING: dict[str, tuple[list[Json], list[Json], list[str]]] = {
    "no-volumes": ([], [], []),
    "no-pvcs": ([], [{"name": "e", "emptyDir": {}}], []),
    "pvc-not-found": (
        [],
        mounted("bound-pvc"),
        ['persistentvolumeclaim "bound-pvc" not found'],
    ),
    "bound-pvc": ([BOUND, PV_BOUND], mounted("bound-pvc"), []),
    # VolumeZone's PreFilter comes before VolumeBinding's "bound to non-existent pv(s)".
    "bound-pvc,pv-not-exists": (
        [BOUND],
        mounted("bound-pvc"),
        ['persistentvolume "pv-bound" not found'],
    ),
    "prebound-pvc": ([PREBOUND, PV_1A], mounted("prebound-pvc"), [IMMEDIATE]),
    "unbound-pvc,pv-same-node": ([UNBOUND, PV_2, PV_1A, PV_1B], mounted("unbound-pvc"), []),
    "unbound-pvc,pv-different-node": ([UNBOUND, PV_2], mounted("unbound-pvc"), [NO_VOLUME]),
    "two-unbound-pvcs": (
        [UNBOUND, UNBOUND_2, PV_1A, PV_1B],
        mounted("unbound-pvc", "unbound-pvc2"),
        [],
    ),
    "two-unbound-pvcs,partial-match": (
        [UNBOUND, UNBOUND_2, PV_1A],
        mounted("unbound-pvc", "unbound-pvc2"),
        [NO_VOLUME],
    ),
    "one-bound,one-unbound": (
        [UNBOUND, BOUND, PV_BOUND, PV_1A],
        mounted("unbound-pvc", "bound-pvc"),
        [],
    ),
    "one-bound,one-unbound,no-match": (
        [UNBOUND, BOUND, PV_BOUND, PV_2],
        mounted("unbound-pvc", "bound-pvc"),
        [NO_VOLUME],
    ),
    "one-prebound,one-unbound": (
        [UNBOUND, PREBOUND, PV_1A, PV_1B],
        mounted("unbound-pvc", "prebound-pvc"),
        [IMMEDIATE],
    ),
    "immediate-bound-pvc": ([NOW_BOUND, PV_NOW], mounted("immediate-bound-pvc"), []),
    "immediate-bound-pvc-wrong-node": (
        [NOW_BOUND, PV_NOW_2],
        mounted("immediate-bound-pvc"),
        [VOLUME_ELSEWHERE],
    ),
    "immediate-unbound-pvc": ([NOW_UNBOUND], mounted("immediate-unbound-pvc"), [IMMEDIATE]),
    "immediate-unbound-pvc,delayed-mode-bound": (
        [NOW_UNBOUND, BOUND, PV_BOUND],
        mounted("immediate-unbound-pvc", "bound-pvc"),
        [IMMEDIATE],
    ),
    "immediate-unbound-pvc,delayed-mode-unbound": (
        [NOW_UNBOUND, UNBOUND],
        mounted("immediate-unbound-pvc", "unbound-pvc"),
        [IMMEDIATE],
    ),
    "generic-ephemeral,no-pvc": (
        [],
        [EPHEMERAL],
        [
            "waiting for ephemeral volume controller to create the persistentvolumeclaim "
            '"test-pod-test-volume"'
        ],
    ),
    "generic-ephemeral,with-pvc": ([generic("uid-test-pod"), PV_BOUND], [EPHEMERAL], []),
    "generic-ephemeral,wrong-pvc": (
        [generic("uid-other"), PV_BOUND],
        [EPHEMERAL],
        [
            "PVC default/test-pod-test-volume was not created for pod default/test-pod (pod is "
            "not owner)"
        ],
    ),
}


@pytest.mark.parametrize("driver", [[], [csi_driver("test-provisioner")]], ids=["", "capacity"])
@pytest.mark.parametrize("name", WITHOUT_PROVISIONING)
def test_find_pod_volumes_without_provisioning(name: str, driver: list[Json]) -> None:
    objects, volumes, reasons = WITHOUT_PROVISIONING[name]
    assert outcome([*objects, *driver], volumes) == reasons


WITH_PROVISIONING: dict[str, tuple[list[Json], list[str], list[str], bool]] = {
    "one-provisioned": ([PROVISIONED], ["provisioned-pvc"], [], True),
    "two-unbound-pvcs,one-matched,one-provisioned": (
        [UNBOUND, PROVISIONED, PV_1A],
        ["unbound-pvc", "provisioned-pvc"],
        [],
        True,
    ),
    "one-bound,one-provisioned": (
        [BOUND, PROVISIONED, PV_BOUND],
        ["bound-pvc", "provisioned-pvc"],
        [],
        True,
    ),
    "one-binding,one-selected-node": (
        [BOUND, SELECTED_PVC, PV_BOUND],
        ["bound-pvc", "provisioned-pvc"],
        [],
        True,
    ),
    "one-immediate-bound,one-provisioned": (
        [NOW_BOUND, PROVISIONED, PV_NOW],
        ["immediate-bound-pvc", "provisioned-pvc"],
        [],
        True,
    ),
    "invalid-provisioner": ([claim("c", "static")], ["c"], [NO_VOLUME], False),
    "volume-topology-unsatisfied": ([claim("c", "elsewhere")], ["c"], [NO_VOLUME], False),
}


@pytest.mark.parametrize("name", WITH_PROVISIONING)
def test_find_pod_volumes_with_provisioning(name: str) -> None:
    objects, claims, reasons, needs_capacity = WITH_PROVISIONING[name]
    assert outcome(objects, mounted(*claims)) == reasons
    without = [*objects, csi_driver("test-provisioner", counts=False)]
    assert outcome(without, mounted(*claims)) == reasons
    counting = [*objects, csi_driver("test-provisioner")]
    assert outcome(counting, mounted(*claims)) == ([NO_STORAGE] if needs_capacity else reasons)


def on_node(name: str, node: str | None, size: str, largest: str | None = None) -> Json:
    made = capacity(name, None, size, "dynamic")
    made["nodeTopology"] = {} if node is None else {"matchLabels": {"host": node}}
    return {**made, **({"maximumVolumeSize": largest} if largest else {})}


@pytest.mark.parametrize(
    ("name", "capacities", "has_storage"),
    [
        ("network", [on_node("net", None, "1Gi")], True),
        ("local", [on_node("net", "node1", "1Gi")], True),
        ("multiple", [on_node("a", "node2", "1Gi"), on_node("b", "node1", "1Gi")], True),
        ("no-storage", [], False),
        ("wrong-node", [on_node("net", "node2", "1Gi")], False),
        ("too-small", [on_node("net", None, "1Mi")], False),
        ("volume-size-okay", [on_node("net", None, "1Gi", "2Gi")], True),
        ("volume-size-too-small", [on_node("net", None, "1Gi", "1Mi")], False),
        ("no-topology", [{**on_node("net", None, "1Gi"), "nodeTopology": None}], False),
        ("wrong-storage-class", [{**on_node("n", None, "1Gi"), "storageClassName": "o"}], False),
        ("zero-capacity", [on_node("net", None, "0")], False),
    ],
)
def test_capacity(name: str, capacities: list[Json], has_storage: bool) -> None:
    objects = [PROVISIONED, csi_driver("test-provisioner"), *capacities]
    expected = [] if has_storage else [NO_STORAGE]
    assert outcome(objects, mounted("provisioned-pvc")) == expected


@pytest.mark.parametrize(
    ("name", "pv_labels", "node_labels", "passes"),
    [
        ("node without labels", {BETA_ZONE: "a"}, {}, True),
        ("beta zone label matched", {BETA_ZONE: "a"}, {BETA_ZONE: "a", "u": "n"}, True),
        ("beta region label matched", {BETA_REGION: "w", "u": "n"}, {BETA_REGION: "w"}, True),
        ("beta region label doesn't match", {BETA_REGION: "w"}, {BETA_REGION: "no_w"}, False),
        ("beta zone label doesn't match", {BETA_ZONE: "a"}, {BETA_ZONE: "no_a"}, False),
        ("zone label matched", {ZONE: "a"}, {ZONE: "a", "u": "n"}, True),
        ("region label matched", {REGION: "w"}, {REGION: "w"}, True),
        ("region label doesn't match", {REGION: "w"}, {REGION: "no_w"}, False),
        ("zone label doesn't match", {ZONE: "a"}, {ZONE: "no_a"}, False),
        ("pv with zone and region, node with only zone", {ZONE: "a", REGION: "w"}, {ZONE: "a"}, 0),
        ("pv with zone,node with beta zone", {ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ("pv with beta label,node with ga label, matched", {BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ("pv with beta label,node with ga label, don't match", {BETA_ZONE: "a"}, {ZONE: "b"}, 0),
        ("Multi: node without labels", {BETA_ZONE: "c__a"}, {}, True),
        ("Multi: beta zone label matched", {BETA_ZONE: "c__a"}, {BETA_ZONE: "a"}, True),
        ("Multi: beta zone label doesn't match", {BETA_ZONE: "b"}, {BETA_ZONE: "a"}, False),
        ("Multi: zone label matched", {ZONE: "c__a"}, {ZONE: "a"}, True),
        ("Multi: zone label doesn't match", {ZONE: "c__a"}, {ZONE: "b"}, False),
    ],
)
def test_volume_zone(name: str, pv_labels: Json, node_labels: Json, passes: bool) -> None:
    objects = [claim("c", volume="v"), volume("v", labels=pv_labels)]
    assert outcome(objects, mounted("c"), node_labels) == ([] if passes else [VOLUME_ZONE])
    ephemeral = claim("test-pod-test-volume", volume="v")
    ephemeral["metadata"]["ownerReferences"] = [{"uid": "uid-test-pod", "controller": True}]
    assert outcome([ephemeral, objects[1]], [EPHEMERAL], node_labels) == []


def other(name: str, *claims: str) -> Json:
    pod = waiting(mounted(*claims))
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


THREE = [item for i in range(3) for item in (claim(f"c{i}", volume=f"v{i}"), volume(f"v{i}"))]


@pytest.mark.parametrize(
    ("name", "limit", "wanted", "running", "attached", "passes"),
    [
        ("fits when node volume limit >= new pods CSI volume", 4, ["c0"], ["c1", "c2"], [], True),
        ("doesn't when node volume limit <= pods CSI volume", 2, ["c0"], ["c1", "c2"], [], False),
        ("should when driver does not support volume limits", None, ["c0"], ["c1", "c2"], [], True),
        ("should when driver has zero limits", 0, ["c0"], [], [], False),
        ("should not count multiple times", 2, ["c0"], ["c0", "c1"], [], True),
        ("should count VolumeAttachments", 2, ["c0"], ["c1"], ["v2"], False),
        ("should not count VolumeAttachments of pods twice", 2, ["c0"], ["c1"], ["v1"], True),
        ("should count pvcs with unbound pvs", 1, ["pending"], ["c1"], [], False),
        ("fits with an unbound pvc", 2, ["pending"], ["c1"], [], True),
        ("counts one volume of two claims once", 1, ["c0", "same"], [], [], True),
    ],
)
def test_csi_limits(
    name: str,
    limit: int | None,
    wanted: list[str],
    running: list[str],
    attached: list[str],
    passes: bool,
) -> None:
    objects = [*THREE, storage_class("wait"), claim("pending"), claim("same", volume="v0")]
    objects += [] if limit is None else [csi_node("node1", limit)]
    objects += [attachment("node1", each) for each in attached]
    found = outcome(objects, mounted(*wanted), running=[other("existing", *running)])
    assert found == ([] if passes else ["node(s) exceed max volume count"])


@pytest.mark.parametrize(
    ("name", "mode", "user", "passes"),
    [
        ("no conflict with ReadWriteOnce", "ReadWriteOnce", "c0", True),
        ("ReadWriteOncePod in use by another pod", "ReadWriteOncePod", "c0", False),
        ("ReadWriteOncePod not in use", "ReadWriteOncePod", "c1", True),
    ],
)
def test_access_mode_conflict(name: str, mode: str, user: str, passes: bool) -> None:
    only = claim("c0", volume="v0", modes=(mode,))
    objects = [only, *THREE[1:]]
    found = outcome(objects, mounted("c0"), running=[other("existing", user)])
    assert found == ([] if passes else [CLAIM_IN_USE])


def inline(source: str, **fields: t.Any) -> list[Json]:
    return [{"name": "disk", source: fields}]


FOO = {
    "GCE": inline("gcePersistentDisk", pdName="foo"),
    "AWS": inline("awsElasticBlockStore", volumeID="foo"),
    "RBD": inline("rbd", monitors=["a", "b"], pool="foo", image="bar", fsType="ext4"),
    "iSCSI": inline("iscsi", targetPortal="127.0.0.1", iqn="iqn.2016-12.server:storage.target01"),
}
OTHER = {
    "GCE": inline("gcePersistentDisk", pdName="bar"),
    "AWS": inline("awsElasticBlockStore", volumeID="bar"),
    "RBD": inline("rbd", monitors=["c", "d"], pool="foo", image="bar", fsType="ext4"),
    "iSCSI": inline("iscsi", targetPortal="127.0.0.1", iqn="iqn.2017-12.server:storage.target01"),
}


def reading(volumes: list[Json]) -> list[Json]:
    return [
        {key: {**part, "readOnly": True} if isinstance(part, dict) else part}
        for volume in volumes
        for key, part in volume.items()
    ]


@pytest.mark.parametrize("kind", FOO)
def test_disk_conflicts(kind: str) -> None:
    """Nothing, one state, same state, different state; and readers, without an upstream case."""
    foo, bar = FOO[kind], OTHER[kind]
    taken = [DISK_TAKEN]
    cases = [
        ([], [], []),
        ([], foo, []),
        (foo, foo, taken),
        (bar, foo, []),
        (foo, reading(foo), taken),
        (reading(foo), reading(foo), taken if kind == "AWS" else []),
        ([{"name": "volume with no restriction"}], [], []),
    ]
    for volumes, on_node, reasons in cases:
        existing = {**waiting(on_node), "metadata": {"name": "existing", "namespace": "default"}}
        assert refused_disks(volumes, existing) == reasons, (volumes, on_node)


def test_rbd_images_with_one_monitor_in_common_are_one_disk() -> None:
    existing = waiting(inline("rbd", monitors=["b", "c"], pool="foo", image="bar"))
    assert refused_disks(FOO["RBD"], existing) == [DISK_TAKEN]
    assert refused_disks(inline("rbd", monitors=["b"], image="bar"), existing) == []


def refused_disks(volumes: list[Json], existing: Json) -> list[str]:
    node = Node("node1", {}, disks=frozenset(disk_uses(existing["spec"])))
    return volume_obstacles(Constraints(disks=disk_uses({"volumes": volumes})), node)


@pytest.mark.parametrize(
    ("source", "driver", "part"),
    [(source, driver, part) for source, (driver, part) in MIGRATED.items()],
)
def test_inline_disks_count_as_those_of_their_driver(source: str, driver: str, part: str) -> None:
    """A disk that is already on the node, inline or as a volume of the tree, counts once."""
    limits = csi_node("node1", 1, driver)
    on_node = {
        **waiting(inline(source, **{part: "foo"})),
        "metadata": other("existing")["metadata"],
    }
    again, more = (inline(source, **{part: name}) for name in ("foo", "bar"))
    assert outcome([limits], again, running=[on_node]) == []
    assert outcome([limits], more, running=[on_node]) == ["node(s) exceed max volume count"]
    assert outcome([], more, running=[on_node]) == []
    tree = volume("v")
    del tree["spec"]["csi"]
    tree["spec"][source] = {part: "foo"}
    objects = [limits, claim("c", volume="v"), tree]
    assert outcome(objects, mounted("c"), running=[on_node]) == []


@pytest.mark.parametrize("order", [("small", "large"), ("large", "small")])
def test_two_unbound_pvcs_order_by_size(order: tuple[str, str]) -> None:
    objects = [claim("small", "static", size="1G"), claim("large", "static", size="5G")]
    read = VolumeObjects.read([*CLASSES, *objects, PV_1B, PV_1A])
    nodes = {"node1": Node("node1", {}, labels={"host": "node1"})}
    chosen = choose(read, [(waiting(mounted(*order)), "node1")], lambda _names: nodes)
    assert chosen == {("default", "small"): "pv-node1a", ("default", "large"): "pv-node1b"}
