# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CRDs of the prototype's kinds on a real API server: accepted and refused objects."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.device_shapes import SHAPES, device_pools
from support.device_objects import attributes, device_claim, device_class, device_pool, manifest
from support.k8srm_samples import CLASSES, SAMPLES, SRIOV_1, a100

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "tests" / "conformance" / "k8srm"
PROTOTYPE = "devmgmtproto.k8s.io/v1alpha1"
CLUSTER_SCOPED = ("DeviceDriver", "DeviceClass", "DevicePool")
PLURALS = {"DeviceClass": "deviceclasses"}


@pytest.fixture(scope="module")
def definitions(kubeconfig: str) -> None:
    """The CRDs, established; they belong to the whole lab and stay."""
    folder = ROOT / "roles" / "crds" / "files"
    files = [str(path) for path in sorted(folder.glob("devmgmtproto.k8s.io_*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


def try_to_create(kube: Kube, obj: MutableObject, namespace: str) -> MutableObject:
    """Create like kubectl, with strict field validation, as a dry run."""
    plural = PLURALS.get(obj["kind"], obj["kind"].lower() + "s")
    place = "" if obj["kind"] in CLUSTER_SCOPED else f"namespaces/{namespace}/"
    obj = copy.deepcopy(obj)
    if place:
        obj["metadata"]["namespace"] = namespace
    path = f"/apis/{PROTOTYPE}/{place}{plural}"
    return kube.request("POST", path, obj, query={"fieldValidation": "Strict", "dryRun": "All"})


def published() -> list[MutableObject]:
    """The prototype's drivers and classes, including the defective ones."""
    documents = yaml.safe_load_all((PUBLISHED / "classes.yaml.in").read_text(encoding="utf-8"))
    return [one for one in documents if one["apiVersion"] == PROTOTYPE]


# Classes with a misspelled field; a CEL expression is checked only by the allocator.
DEFECTIVE = {
    "foozer-single": "deviceMaxCount",
    "sriov-nic": "deviceTypes",
    "sriov-nic-1Gbps": "contstraints",
}
# The prototype's mock accepted any name; Kubernetes requires lower case.
NAMES_OF_A_MOCK = ("sriov-nic-10Gbps", "sriov-nic-1Gbps-or-faster")


@pytest.mark.usefixtures("definitions")
def test_published_manifests_are_accepted_as_they_are(kube: Kube, namespace: str) -> None:
    use_cases = yaml.safe_load((PUBLISHED / "use_cases.yaml").read_text(encoding="utf-8"))
    unusable = (*DEFECTIVE, *NAMES_OF_A_MOCK)
    objects = [obj for obj in published() if obj["metadata"]["name"] not in unusable]
    objects += [device_claim(f"use-case-{n}", **spec) for n, spec in enumerate(use_cases.values())]
    objects += [pool for shape in SHAPES for pool in device_pools(shape, 1)]
    objects += [*CLASSES, *SRIOV_1, a100()]
    for name, asked, pools, _expected in SAMPLES:
        objects += [device_claim(name, **asked), *pools]
    for obj in objects:
        stored = try_to_create(kube, obj, namespace)
        assert {key: stored.get(key) for key in ("spec", "deviceTypes")} == {
            key: obj.get(key) for key in ("spec", "deviceTypes")
        }


@pytest.mark.usefixtures("definitions")
def test_misspelled_fields_of_published_classes_are_named(kube: Kube, namespace: str) -> None:
    found = {obj["metadata"]["name"]: obj for obj in published()}
    for name, field in DEFECTIVE.items():
        with pytest.raises(ApiError, match=f'unknown field "spec.{field}"'):
            try_to_create(kube, found[name], namespace)
    for name in NAMES_OF_A_MOCK:
        with pytest.raises(ApiError, match="lower case"):
            try_to_create(kube, found[name], namespace)


FOOZER = {"driver": "example.com-foozer"}
REFUSED: dict[str, tuple[MutableObject, str]] = {
    "no device": (device_claim("c", driver="d", minDeviceCount=0), "spec.minDeviceCount"),
    "fewer at the most than at the least": (
        device_claim("c", driver="d", minDeviceCount=2, maxDeviceCount=1),
        "maxDeviceCount must not be less",
    ),
    "nothing asked for": (device_claim("c", minDeviceCount=1), "name a class, a device type"),
    "nothing asked for in a part": (
        device_claim("c", claims=[{"requests": {"count": 1}}]),
        "name a class, a device type",
    ),
    "two words for a class": (
        device_claim("c", devices=[{"class": "a", "deviceClass": "b"}]),
        "give either class or deviceClass",
    ),
    "0 of a class": (
        device_claim("c", claims=[{"deviceClass": "a", "requests": {"count": 0}}]),
        "the number of devices must be from 1",
    ),
    "an amount that is none": (
        device_claim("c", claims=[{"deviceClass": "a", "requests": {"memory": "much"}}]),
        "requests.memory",
    ),
    "33 requests": (device_claim("c", claims=[FOOZER] * 33), "must have at most 32 items"),
    "parts in both words": (
        device_claim("c", claims=[FOOZER], devices=[FOOZER]),
        "give either claims or devices",
    ),
    "a mode of access that is none": (
        device_claim(
            "c", driver="d", requests=[{"resource": "r", "accessMode": {"request": "Mine"}}]
        ),
        "Unsupported value",
    ),
    "a privileged claim on no driver": (
        manifest(PROTOTYPE, "DevicePrivilegedClaim", "c", {}, namespace="default"),
        "spec.driver: Required value",
    ),
    "a class of nothing": (device_class("c", constraints="true"), "name a driver or a device type"),
    "a meta class with a driver of its own": (
        device_class("c", selector={}, definition=FOOZER),
        "give either selector or definition",
    ),
    "a driver of no type": (
        {"apiVersion": PROTOTYPE, "kind": "DeviceDriver", "metadata": {"name": "d"}},
        "deviceTypes: Required value",
    ),
    "a pool of nothing": (device_pool("p", "n", "d"), "give devices, or count equal ones"),
    "a pool that counts wrongly": (
        device_pool("p", "n", "d", count=2, devices=[{"name": "a"}]),
        "count must be the number of devices",
    ),
    "two devices of one name": (
        device_pool("p", "n", "d", devices=[{"name": "a"}, {"name": "a"}]),
        "Duplicate value",
    ),
    "an attribute of a type that there is not": (
        device_pool("p", "n", "d", count=1, attributes=[{"name": "a", "floatValue": 1.5}]),
        'unknown field "spec.attributes[0].floatValue"',
    ),
    "an attribute of two types": (
        device_pool(
            "p", "n", "d", count=1, attributes=[{"name": "a", "intValue": 1, "stringValue": "1"}]
        ),
        "must have at most 2 items",
    ),
    "a resource without a capacity": (
        device_pool("p", "n", "d", devices=[{"name": "a", "resources": [{"name": "memory"}]}]),
        "give exactly one of capacity",
    ),
}


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("case", REFUSED)
def test_what_could_never_work_is_refused(kube: Kube, namespace: str, case: str) -> None:
    obj, words = REFUSED[case]
    with pytest.raises(ApiError) as refusal:
        try_to_create(kube, obj, namespace)
    assert words in str(refusal.value)


@pytest.mark.usefixtures("definitions")
def test_every_type_of_attribute_is_taken(kube: Kube, namespace: str) -> None:
    listed = attributes(vendor="example.com", numa=1)
    listed += [
        {"name": "memory", "quantityValue": "10Gi"},
        {"name": "version", "semVerValue": "1.2.3"},
    ]
    pool = device_pool("p", "n", "d", count=1, attributes=listed)
    assert try_to_create(kube, pool, namespace)["spec"]["attributes"] == listed
