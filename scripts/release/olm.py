# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle for the Operator Lifecycle Manager, from the objects of one overlay.

OLM installs CRDs, Deployments, accounts and permissions, and no admission policies. These policies
restrict the permissions of the larger overlays, so the bundle is that of `minimal`.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

import yaml

from scripts.release import overlays
from scripts.release.overlays import Object
from scripts.release.source import Source

NAME = "wattwise-operator"
OVERLAY = "minimal"
CHANNEL = "alpha"
# Kinds whose objects become parts of the ClusterServiceVersion.
INLINED = (
    *("Namespace", "ServiceAccount", "Deployment"),
    *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
)
_PREFIX = "operators.operatorframework.io.bundle"
# Of the bundle, and labels of its image.
ANNOTATIONS = {
    f"{_PREFIX}.mediatype.v1": "registry+v1",
    f"{_PREFIX}.manifests.v1": "manifests/",
    f"{_PREFIX}.metadata.v1": "metadata/",
    f"{_PREFIX}.package.v1": NAME,
    f"{_PREFIX}.channels.v1": CHANNEL,
    f"{_PREFIX}.channel.default.v1": CHANNEL,
}
HOMEPAGE = "https://github.com/wattwise/wattwise.kube"
DESCRIPTION = """\
Reads temperatures and power draw of the nodes of a PowerFleet from their BMCs, and records them in the NodeConfigs.
The bundle observes; the kustomize overlays and the Helm chart of the same release also place pods.

The namespace of NodeConfigs, wao-system, must exist. Passwords of BMCs are Secrets of the operator's own namespace; for
Secrets elsewhere, apply `operator/config/rbac/secrets` of the release.
"""


def files(source: Source, image: str) -> dict[str, bytes]:
    """Files of the bundle by their path; ``image`` is the operator's image with its tag."""
    items = overlays.objects(source.tree, OVERLAY)
    manifests = {
        "clusterserviceversion": _version(source, list(items.values()), image),
        **{
            "-".join(filter(None, (key[0], key[2]))).lower(): _anywhere(item)
            for key, item in items.items()
            if item["kind"] not in INLINED
        },
    }
    texts = {f"manifests/{name}.yaml": item for name, item in manifests.items()}
    texts["metadata/annotations.yaml"] = {"annotations": ANNOTATIONS}
    labels = "".join(f"LABEL {name}={text}\n" for name, text in ANNOTATIONS.items())
    return {
        "Dockerfile": f"FROM scratch\n{labels}COPY manifests /manifests/\nCOPY metadata /metadata/\n".encode(),
        **{
            path: yaml.safe_dump(item, sort_keys=False, allow_unicode=True).encode()
            for path, item in texts.items()
        },
    }


def _anywhere(item: Object) -> Object:
    """OLM chooses the namespace."""
    metadata = {name: each for name, each in item["metadata"].items() if name != "namespace"}
    return {**item, "metadata": metadata}


def _version(source: Source, items: list[Object], image: str) -> Object:
    """The ClusterServiceVersion."""
    created = datetime.datetime.fromtimestamp(source.time, datetime.UTC)
    crds = [item for item in items if item["kind"] == "CustomResourceDefinition"]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{NAME}.v{source.version}",
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps([_example(source)], indent=2),
                "capabilities": "Basic Install",
                "categories": "Monitoring",
                "containerImage": image,
                "createdAt": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "description": "Observes heat and power draw of bare-metal nodes.",
                "repository": HOMEPAGE,
                "support": "Contributors to the wattwise.kube project",
            },
        },
        "spec": {
            "displayName": "wattwise.kube",
            "description": DESCRIPTION,
            "version": source.version,
            "maturity": "alpha",
            "minKubeVersion": "1.34.0",
            "provider": {"name": "Contributors to the wattwise.kube project", "url": HOMEPAGE},
            "links": [{"name": "Documentation", "url": f"{HOMEPAGE}/tree/main/docs"}],
            "keywords": ["energy", "power", "redfish", "bare metal"],
            "relatedImages": [{"name": "operator", "image": image}],
            # A PowerFleet covers nodes, which have no namespace.
            "installModes": [
                {"type": name, "supported": name == "AllNamespaces"}
                for name in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "customresourcedefinitions": {"owned": [_owned(crd) for crd in crds]},
            "install": {"strategy": "deployment", "spec": _install(items, image)},
        },
    }


def _example(source: Source) -> Object:
    """A PowerFleet that needs no permission to bind pods."""
    sample = source.tree / overlays.CONFIG / "samples" / "powerfleet_minimal.yaml"
    fleet: Object = yaml.safe_load(sample.read_text(encoding="utf-8"))
    return {**fleet, "spec": {"placement": {"enabled": False}}}


def _owned(crd: Object) -> dict[str, str]:
    kind, [version] = crd["spec"]["names"]["kind"], crd["spec"]["versions"]
    return {
        "name": crd["metadata"]["name"],
        "version": version["name"],
        "kind": kind,
        "displayName": kind,
        "description": version["schema"]["openAPIV3Schema"]["description"],
    }


def _install(items: list[Object], image: str) -> dict[str, Any]:
    """Deployments and permissions; those in other namespaces are left to the administrator."""
    deployments = []
    for item in items:
        if item["kind"] == "Deployment":
            for container in item["spec"]["template"]["spec"]["containers"]:
                container["image"] = image
            deployments.append(
                {
                    "name": item["metadata"]["name"],
                    "label": item["metadata"].get("labels", {}),
                    "spec": item["spec"],
                }
            )
    return {
        "deployments": deployments,
        "permissions": _permissions(items, "Role"),
        "clusterPermissions": _permissions(items, "ClusterRole"),
    }


def _permissions(items: list[Object], kind: str) -> list[dict[str, Any]]:
    rules = [
        rule
        for item in items
        if item["kind"] == kind
        and item["metadata"].get("namespace", overlays.NAMESPACE) == overlays.NAMESPACE
        for rule in item["rules"]
    ]
    return [{"serviceAccountName": NAME, "rules": rules}]
