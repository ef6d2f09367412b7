# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of certificates that a teardown deletes."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons import certificates
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.spec import read_addons
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Resource, UnknownKind

Json = dict[str, t.Any]
Names = list[str]

SECRETS = {"server_secret": "server", "client_secret": "client"}
ADDONS = read_addons("kepler", "kepler", {"security": SECRETS})
LABELS = certificates.secret_labels(ADDONS)
KEY = "kepler-addons-authority"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kepler-owner", "uid": "u1"}


class Cluster:
    """Objects by path; a forbidden one is a status. ``removed`` are names of Secrets."""

    def __init__(self) -> None:
        own: Json = {"metadata": {"labels": {**LABELS, "more": "labels"}}}
        self.objects: dict[str, Json | int] = {
            "/api/v1/namespaces/kepler/secrets/server": own,
            "/api/v1/namespaces/kepler/secrets/client": own,
            f"/api/v1/namespaces/authority/secrets/{KEY}": own,
        }
        self.daemon_sets: list[Json] = []
        self.removed: list[str] = []
        self.warnings: list[str] = []
        self.context = Context(warn=self.warnings.append)
        self.kube = self

    def find(self, path: str) -> Json | None:
        found = self.objects.get(path)
        if isinstance(found, int):
            raise ApiError("refused", status=found)
        return found

    def list(self, _path: str, _query: Json) -> list[Json]:
        return self.daemon_sets

    def resource(self, api_version: str, kind: str) -> Resource:
        if kind != "ConfigMap":
            raise UnknownKind(api_version, kind, "https://api")
        return Resource(f"/api/{api_version}", "configmaps", True)

    def apply(self, given: Json) -> None:
        assert given["state"] == "absent"
        self.removed += [each["metadata"]["name"] for each in given["manifests"]]

    def taken_back(self) -> Names:
        certificates.take_back(t.cast("t.Any", self), ADDONS, "authority")
        return self.removed


def daemon_set(secret: str, **metadata: t.Any) -> Json:
    volumes = [{"name": "proc", "hostPath": {}}, {"name": "tls", "secret": {"secretName": secret}}]
    spec = {"template": {"spec": {"volumes": volumes}}}
    return {"metadata": {"name": "kepler-amd64-rapl", **metadata}, "spec": spec}


def test_all_secrets_of_the_library_go_with_the_key_of_its_authority() -> None:
    cluster = Cluster()
    assert cluster.taken_back() == ["server", "client", KEY] and not cluster.warnings


@pytest.mark.parametrize(
    "found",
    [{"metadata": {"labels": {}}}, {"metadata": {}}, 403,
     {"metadata": {"labels": LABELS, "annotations": {"cert-manager.io/certificate-name": "c"}}}],
)  # fmt: skip
def test_secrets_of_others_stay(found: Json | int) -> None:
    """Users' Secrets, cert-manager's, and those that this account may not read."""
    cluster = Cluster()
    cluster.objects["/api/v1/namespaces/kepler/secrets/client"] = found
    assert cluster.taken_back() == ["server", KEY]


CONFIG_MAP = "/api/v1/namespaces/kepler/configmaps/kepler-owner"


@pytest.mark.parametrize(
    ("metadata", "owner", "stays"),
    [
        ({}, None, True),
        ({"deletionTimestamp": "2026-01-31T12:00:00Z"}, None, False),
        ({"ownerReferences": [OWNER]}, {"metadata": {"uid": "u1"}}, True),
        ({"ownerReferences": [OWNER]}, 403, True),
        # The garbage collector has not run yet.
        ({"ownerReferences": [OWNER]}, None, False),
        ({"ownerReferences": [OWNER]}, {"metadata": {"uid": "u2"}}, False),
        (
            {"ownerReferences": [OWNER]},
            {"metadata": {"uid": "u1", "deletionTimestamp": "2026-01-31T12:00:00Z"}},
            False,
        ),
        ({"ownerReferences": [{**OWNER, "kind": "KeplerSystem"}]}, None, False),
    ],
)
def test_secrets_stay_while_a_kepler_mounts_one(
    metadata: Json, owner: Json | int | None, stays: bool
) -> None:
    cluster = Cluster()
    cluster.daemon_sets = [daemon_set("other"), daemon_set("server", **metadata)]
    if owner is not None:
        cluster.objects[CONFIG_MAP] = owner
    assert cluster.taken_back() == ([] if stays else ["server", "client", KEY])
    assert bool(cluster.warnings) == stays
    assert all("remove Kepler first" in warning for warning in cluster.warnings)


def test_an_api_server_that_fails_is_no_answer() -> None:
    cluster = Cluster()
    cluster.objects["/api/v1/namespaces/kepler/secrets/client"] = 500
    with pytest.raises(ApiError):
        cluster.taken_back()
