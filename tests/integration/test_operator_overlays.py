# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The overlays of operator/config: built by kubectl, and accepted by an API server."""

from __future__ import annotations

import re
import subprocess
import typing as t
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.controlplane.programs import find_programs
from lab.operator.installation import namespaces_of
from lab.process import wait_until
from support.dockerfile import ROOT

Json = dict[str, t.Any]

CONFIG = ROOT / "operator" / "config"
OVERLAYS = ("minimal", "default", "full")
NAMESPACE = "wattwise-system"
DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/powerfleets.wattwise.github.io"
)
# Beside PowerFleet's, the CRDs that each overlay brings.
SYSTEMS = {
    "minimal": set(),
    "default": {"wao.bitmedia.co.jp"},
    "full": {
        *("wao.bitmedia.co.jp", "intel.com", "devmgmtproto.k8s.io"),
        *("kepler.system.sustainable.computing.io", "bpa.akraino.org"),
    },
}

# The form of klog's lines of the lowest level: I, month and day, time.
INFORMATION = re.compile(r"I\d{4} \d\d:\d\d:\d\d")


@cache
def kubectl() -> Path:
    return find_programs(print)["kubectl"]


def run(*arguments: str, given: str | None = None) -> str:
    """kubectl's output; its warnings and errors fail the test.

    Messages of its library about a restarted watch are neither.
    """
    done = subprocess.run(
        [str(kubectl()), *arguments], input=given, capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if not INFORMATION.match(line)]
    assert (done.returncode, said) == (0, []), done.stdout
    return done.stdout


@cache
def built(folder: str) -> str:
    return run("kustomize", str(CONFIG / folder))


def objects(folder: str) -> list[Json]:
    return [each for each in yaml.safe_load_all(built(folder)) if each]


def of_kind(folder: str, kind: str) -> list[Json]:
    return [each for each in objects(folder) if each["kind"] == kind]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_watches_no_kind_that_it_does_not_define(overlay: str) -> None:
    [watches] = of_kind(f"overlays/{overlay}", "ConfigMap")
    watched = yaml.safe_load(watches["data"]["watches.yaml"])
    definitions = of_kind(f"overlays/{overlay}", "CustomResourceDefinition")
    defined = {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in definitions}
    assert watched
    assert {(each["group"], each["kind"]) for each in watched} <= defined
    assert {group for group, _kind in defined} == SYSTEMS[overlay] | {"wattwise.github.io"}
    # PowerFleets are watched with the image's own settings.
    known = yaml.safe_load((ROOT / "operator" / "watches.yaml").read_text())
    assert [each for each in watched if each["kind"] == "PowerFleet"] == known
    assert all((ROOT / "operator" / each["playbook"]).is_file() for each in watched)
    # No text of a spec is executed, and the runs write the status.
    assert all(each["markUnsafe"] and not each["manageStatus"] for each in watched)
    [deployment] = of_kind(f"overlays/{overlay}", "Deployment")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert {"name": watches["metadata"]["name"]} in [each.get("configMap") for each in volumes]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_definitions_are_those_of_role_crds(overlay: str) -> None:
    for given in of_kind(f"overlays/{overlay}", "CustomResourceDefinition"):
        plural, _dot, group = given["metadata"]["name"].partition(".")
        path = ROOT / "roles" / "crds" / "files" / f"{group}_{plural}.yaml"
        assert given == yaml.safe_load(path.read_text()), path.name


def test_no_definition_of_role_crds_is_left_out_of_its_list() -> None:
    folder = ROOT / "roles" / "crds" / "files"
    listed = yaml.safe_load((folder / "Kustomization").read_text())["resources"]
    assert listed == sorted(path.name for path in folder.glob("*.yaml"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_containers_have_one_image_that_is_set_once(overlay: str) -> None:
    [deployment] = of_kind(f"overlays/{overlay}", "Deployment")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    given = yaml.safe_load((CONFIG / "manager" / "kustomization.yaml").read_text())
    [image] = given["images"]
    assert {each["image"] for each in containers} == {f"{image['newName']}:{image['newTag']}"}
    assert len(containers) == 3


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_lies_outside_the_namespace_is_found_by_its_label(overlay: str) -> None:
    """Except for the CRDs, whose removal would delete users' objects."""
    for item in objects(f"overlays/{overlay}"):
        labels = item["metadata"].get("labels") or {}
        if item["kind"] == "CustomResourceDefinition":
            assert not labels
        elif item["metadata"].get("namespace") != NAMESPACE:
            assert labels["app.kubernetes.io/name"] == "wattwise-operator", item["metadata"]


@pytest.fixture(scope="module")
def cluster(kubeconfig: str) -> Iterator[Kube]:
    """With the namespaces of the overlays, PowerFleet, and the operator's account."""
    kube = Kube.connect({"kubeconfig": kubeconfig})
    kept = [item["metadata"]["name"] for item in kube.list("/api/v1/namespaces")]
    wanted = [NAMESPACE, *namespaces_of(objects("overlays/full"))]
    namespaces = [name for name in wanted if name not in kept]
    assert NAMESPACE in namespaces
    known = kube.find(DEFINITION)
    first = [
        each
        for each in objects("overlays/minimal")
        if each["kind"] in ("Namespace", "ServiceAccount", "CustomResourceDefinition")
    ]
    others = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in namespaces
        if name != NAMESPACE
    ]
    try:
        apply(kubeconfig, [*others, *first])
        run(
            f"--kubeconfig={kubeconfig}",
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "customresourcedefinition/powerfleets.wattwise.github.io",
        )
        yield kube
    finally:
        for name in namespaces:
            kube.request("DELETE", f"/api/v1/namespaces/{name}")
        if known is None:
            kube.request("DELETE", DEFINITION)
        for name in namespaces:
            path = f"/api/v1/namespaces/{name}"
            wait_until(lambda path=path: kube.find(path) is None, 120.0, f"the end of {name}")  # type: ignore[misc]


def apply(kubeconfig: str, items: list[Json], *options: str) -> list[str]:
    """Apply objects as a user would, in their order; an unknown field is an error."""
    arguments = ("apply", "--server-side", "--validate=strict", "--filename=-", *options)
    text = yaml.safe_dump_all(items)
    return run(f"--kubeconfig={kubeconfig}", *arguments, given=text).splitlines()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_api_server_takes_every_object(overlay: str, cluster: Kube, kubeconfig: str) -> None:
    items = objects(f"overlays/{overlay}")
    # Existing objects belong to the lab or to this file, under other managers.
    options = ("--dry-run=server", "--force-conflicts")
    assert len(apply(kubeconfig, items, *options)) == len(items)


def test_an_api_server_takes_the_permissions_that_no_overlay_has(
    cluster: Kube, kubeconfig: str
) -> None:
    assert len(apply(kubeconfig, objects("rbac/eviction"), "--dry-run=server")) == 2
    assert len(apply(kubeconfig, objects("rbac/sleep"), "--dry-run=server")) == 8


def test_an_api_server_takes_the_samples(cluster: Kube, kubeconfig: str) -> None:
    items = objects("samples")
    assert {each["kind"] for each in items} == {"PowerFleet", "Provisioning"}
    name = "provisionings.bpa.akraino.org"
    definitions = of_kind("overlays/full", "CustomResourceDefinition")
    apply(kubeconfig, [each for each in definitions if each["metadata"]["name"] == name])
    waiting = ("--for=condition=Established", "--timeout=60s", f"customresourcedefinition/{name}")
    run(f"--kubeconfig={kubeconfig}", "wait", *waiting)
    assert len(apply(kubeconfig, items, "--dry-run=server")) == len(items)


@pytest.mark.parametrize("folder", sorted(path.name for path in (CONFIG / "overlays").iterdir()))
def test_every_pod_of_an_overlay_meets_the_restricted_standard(folder: str, cluster: Kube) -> None:
    items = objects(f"overlays/{folder}")
    specs = [
        each["spec"]["template"]["spec"] for each in items if "template" in each.get("spec", {})
    ]
    assert specs
    expect_restricted(cluster, specs)


def test_the_pod_of_the_example_of_a_cronjob_meets_the_restricted_standard(cluster: Kube) -> None:
    path = ROOT / "docs" / "examples" / "kubernetes" / "cronjob.yaml"
    [job] = [
        each for each in yaml.safe_load(path.read_text())["items"] if each["kind"] == "CronJob"
    ]
    expect_restricted(cluster, [job["spec"]["jobTemplate"]["spec"]["template"]["spec"]])


def expect_restricted(cluster: Kube, specs: list[Json]) -> None:
    """Pods that the namespace of the operator, which enforces the standard, takes."""
    namespace = cluster.get(f"/api/v1/namespaces/{NAMESPACE}")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for number, spec in enumerate(specs):
        # Pods may not name an account that does not exist; other tests look at the accounts.
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"restricted-{number}"},
            "spec": {**spec, "serviceAccountName": "wattwise-operator"},
        }
        cluster.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", body)


def test_the_pod_is_made_under_the_restricted_standard(cluster: Kube, kubeconfig: str) -> None:
    """By the Deployment controller, in the namespace that enforces that standard."""
    [deployment] = of_kind("overlays/minimal", "Deployment")
    name = deployment["metadata"]["name"]
    apply(kubeconfig, [*of_kind("overlays/minimal", "ConfigMap"), deployment])
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    wait_until(lambda: bool(cluster.list(pods)), 60.0, "the operator's pod")
    [pod] = cluster.list(pods)
    assert pod["spec"]["serviceAccountName"] == name
    refused = {**pod["spec"]["containers"][0], "securityContext": {"privileged": True}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "refused"},
        "spec": {"containers": [refused], "volumes": pod["spec"]["volumes"]},
    }
    with pytest.raises(ApiError, match="PodSecurity"):
        cluster.request("POST", f"{pods}?dryRun=All", body)
