# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OLM's bundle on an API server: its strategy, carried out as OLM does, gives the overlay's operator."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.gotools import build
from lab.process import wait_until
from scripts.release import olm, overlays, programs
from scripts.release.source import Source, version_of
from support.dockerfile import ROOT

Json = dict[str, t.Any]

VERSIONS = "/apis/operators.coreos.com/v1alpha1/namespaces/{}/clusterserviceversions"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "rbac.authorization.k8s.io/v1"
PATHS = {"Deployment": "/apis/apps/v1/namespaces/{}/deployments"}
PATHS |= {"ConfigMap": "/api/v1/namespaces/{}/configmaps"}
PATHS |= {"NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"}


@functools.cache
def of_overlay(kind: str) -> list[Json]:
    items = overlays.objects(ROOT, olm.OVERLAY).values()
    return [item for item in items if item["kind"] == kind]


@functools.cache
def bundle() -> dict[str, Json]:
    """The manifests by file, with the image of the overlay."""
    [deployment] = of_overlay("Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    files = olm.files(Source(ROOT, version_of(ROOT), commit="0" * 40, time=1_700_000_000), image)
    return {
        name: yaml.safe_load(text) for name, text in files.items() if name.startswith("manifests/")
    }


def strategy(version: Json, namespace: str) -> Iterator[Json]:
    """The objects that OLM makes of a stored ClusterServiceVersion."""
    spec = version["spec"]["install"]["spec"]
    entries = [*spec["permissions"], *spec["clusterPermissions"]]
    for account in {entry["serviceAccountName"] for entry in entries}:
        metadata = {"name": account, "namespace": namespace}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    for part, prefix in (("permissions", ""), ("clusterPermissions", "Cluster")):
        for number, entry in enumerate(spec[part]):
            account = entry["serviceAccountName"]
            name = f"{namespace}-{part.lower()}-{number}"
            metadata = {"name": name} if prefix else {"name": name, "namespace": namespace}
            role = {"apiGroup": RBAC.partition("/")[0], "kind": f"{prefix}Role", "name": name}
            yield {
                "apiVersion": RBAC,
                "kind": f"{prefix}Role",
                "metadata": metadata,
                "rules": entry["rules"],
            }
            yield {
                "apiVersion": RBAC,
                "kind": f"{prefix}RoleBinding",
                "metadata": metadata,
                "roleRef": role,
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            }
    for entry in spec["deployments"]:
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": entry["name"],
                "namespace": namespace,
                "labels": entry["label"],
            },
            "spec": entry["spec"],
        }


@pytest.fixture
def installed(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[str]:
    """The namespace in which the bundle is installed, with OLM's own CRD."""
    crd = build(programs.VERIFY, print) / programs.CRD_OF_VERSIONS
    own = yaml.safe_load(crd.read_text(encoding="utf-8"))["metadata"]["name"]
    apply({"kubeconfig": kubeconfig, "src": [str(crd)], "wait": True})
    manifests = dict(bundle())
    version = manifests.pop("manifests/clusterserviceversion.yaml")
    path = VERSIONS.format(namespace)
    body = {**version, "metadata": {**version["metadata"], "namespace": namespace}}
    stored = kube.request("POST", path, body, query={"fieldValidation": "Strict"})
    others = [
        item
        if item["kind"] == "CustomResourceDefinition"
        else {**item, "metadata": {**item["metadata"], "namespace": namespace}}
        for item in manifests.values()
    ]
    made = [*strategy(stored, namespace), *others]
    apply({"kubeconfig": kubeconfig, "manifests": made, "wait": True})
    yield namespace
    for item in made:
        if item["kind"].startswith("ClusterRole"):
            plural = f"{item['kind'].lower()}s"
            kube.request("DELETE", f"/apis/{RBAC}/{plural}/{item['metadata']['name']}")
    kube.request("DELETE", f"{CRDS}/{own}")


def may(kube: Kube, namespace: str, attributes: Json) -> bool:
    """Whether the operator's account has a permission."""
    account = f"system:serviceaccount:{namespace}:{olm.NAME}"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": attributes},
    }
    found = kube.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(found["status"]["allowed"])


def permissions(namespace: str) -> Iterator[Json]:
    """Each permission that the overlay grants in its own namespace and in the whole cluster."""
    for kind, place in (("Role", namespace), ("ClusterRole", "")):
        for item in of_overlay(kind):
            if item["metadata"].get("namespace", overlays.NAMESPACE) == overlays.NAMESPACE:
                for rule in item["rules"]:
                    yield from _of_rule(rule, place)


def _of_rule(rule: Json, namespace: str) -> Iterator[Json]:
    for group in rule.get("apiGroups", ()):
        for resource in rule.get("resources", ()):
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", ("",)):
                    plain, _slash, part = resource.partition("/")
                    yield {
                        "namespace": namespace,
                        "group": group,
                        "resource": plain,
                        "subresource": part,
                        "verb": verb,
                        "name": name,
                    }


def test_an_api_server_runs_what_the_bundle_installs(kube: Kube, installed: str) -> None:
    [deployment] = of_overlay("Deployment")
    path = f"{PATHS['Deployment'].format(installed)}/{deployment['metadata']['name']}"

    def is_available() -> bool:
        return bool(kube.get(path).get("status", {}).get("availableReplicas"))

    wait_until(is_available, 60.0, "the operator's pod")
    for kind, collection in PATHS.items():
        for item in of_overlay(kind):
            body = {**item, "metadata": {**item["metadata"], "namespace": "default"}}
            given = kube.request(
                "POST", collection.format("default"), body, query={"dryRun": "All"}
            )
            stored = kube.get(f"{collection.format(installed)}/{item['metadata']['name']}")
            for part in ("spec", "data"):
                assert stored.get(part) == given.get(part), item["metadata"]
    for crd in of_overlay("CustomResourceDefinition"):
        [version] = kube.get(f"{CRDS}/{crd['metadata']['name']}")["spec"]["versions"]
        assert version["schema"] == crd["spec"]["versions"][0]["schema"]


def test_the_bundles_account_has_the_overlays_permissions_and_no_others(
    kube: Kube, installed: str
) -> None:
    granted = list(permissions(installed))
    assert len(granted) > 20
    found = kube.in_parallel(lambda one: may(kube, installed, one), granted)
    assert [one for one, is_granted in zip(granted, found, strict=True) if not is_granted] == []
    for resource, verb in (("secrets", "list"), ("pods", "create"), ("nodes", "patch")):
        wish = {"resource": resource, "verb": verb, "namespace": "kube-system"}
        assert not may(kube, installed, wish), wish
    with pytest.raises(ApiError, match="spec.displayname"):
        [version] = kube.list(VERSIONS.format(installed))
        unknown = {**version["spec"], "displayname": "x"}
        body = {**version, "metadata": {"name": "unknown"}, "spec": unknown}
        path = VERSIONS.format(installed)
        kube.request("POST", path, body, query={"dryRun": "All", "fieldValidation": "Strict"})
