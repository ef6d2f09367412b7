# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests count as applied without a request only if the server would leave them unchanged."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.applied import is_applied
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.change import desired_part
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    APPLY_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.connection.transport import (
    Transport,
)

MANAGER = "wattwise"

CONTAINER: MutableObject = {
    "name": "main",
    "image": "example/none",
    "args": ["--one", "--two"],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "ports": [
        {"name": "http", "containerPort": 80, "protocol": "TCP"},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
    ],
    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
}
MANIFESTS: dict[str, MutableObject] = {
    "configmaps": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "data": {"key": "value", "other": ""},
    },
    "serviceaccounts": {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "one", "finalizers": ["example.com/first", "example.com/second"]},
        "secrets": [{"name": "a"}, {"name": "b"}],
        "automountServiceAccountToken": False,
    },
    "services": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one"},
        "spec": {
            "selector": {"app": "one"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    },
    "pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one"},
        "spec": {
            "schedulerName": "nobody",
            "containers": [CONTAINER],
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    },
}


class Stored:
    """One of the manifests on the API server."""

    def __init__(self, kube: Kube, namespace: str, plural: str) -> None:
        self.kube = kube
        self.path = f"/api/v1/namespaces/{namespace}/{plural}/one"
        self.manifest = copy.deepcopy(MANIFESTS[plural])
        self.manifest["metadata"]["namespace"] = namespace

    def apply(self, manifest: MutableObject, manager: str = MANAGER, **query: str) -> MutableObject:
        asked: dict[str, str | int] = {"fieldManager": manager, "force": "true", **query}
        answer = self.kube.send("PATCH", self.path, manifest, APPLY_CONTENT_TYPE, asked)
        return answer.body

    def read(self) -> MutableObject:
        return t.cast(MutableObject, self.kube.find(self.path))

    def would_stay(self, manifest: MutableObject) -> bool:
        """Whether the API server would leave the object unchanged."""
        try:
            after = self.apply(manifest, dryRun="All")
        except ApiError:
            return False
        return desired_part(after) == desired_part(self.read())


@pytest.fixture(params=MANIFESTS)
def stored(kube: Kube, namespace: str, request: pytest.FixtureRequest) -> Iterator[Stored]:
    found = Stored(kube, namespace, request.param)
    found.apply(found.manifest)
    yield found
    found.apply({**found.manifest, "metadata": {"name": "one", "finalizers": []}})


def mutants(value: t.Any) -> Iterator[t.Any]:
    """The value with one change somewhere in it: another text, less, more, another order."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield {other: item for other, item in value.items() if other != key}
            for mutant in mutants(member):
                yield {**value, key: mutant}
        yield {**value, "more": "text"}
    elif isinstance(value, list):
        for at, element in enumerate(value):
            yield value[:at] + value[at + 1 :]
            for mutant in mutants(element):
                yield [*value[:at], mutant, *value[at + 1 :]]
        yield value[::-1]
        yield [*value, *value]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    else:
        yield f"{value}x"


def test_what_was_applied_needs_no_second_application(stored: Stored) -> None:
    assert is_applied(stored.manifest, stored.read(), MANAGER)
    assert not is_applied(stored.manifest, stored.read(), "another")


def test_no_manifest_that_would_change_the_object_is_taken_for_applied(stored: Stored) -> None:
    live = stored.read()
    tried = 0
    for mutant in mutants(stored.manifest):
        names = {key: mutant.get("metadata", {}).get(key) for key in ("name", "namespace")}
        same_object = names == {"name": "one", "namespace": live["metadata"]["namespace"]}
        if not same_object or mutant.get("kind") != stored.manifest["kind"]:
            continue
        tried += 1
        if mutant.get("apiVersion") == "v1" and is_applied(mutant, live, MANAGER):
            assert stored.would_stay(mutant), mutant
    assert tried > 10


def test_what_others_took_or_changed_is_applied_anew(stored: Stored) -> None:
    """Labels of other managers do not matter; a field of ours with another manager does."""
    stored.apply(
        {**stored.manifest, "metadata": {"name": "one", "labels": {"theirs": "x"}}}, "another"
    )
    assert is_applied(stored.manifest, stored.read(), MANAGER)
    body = {"metadata": {"labels": {"a": "theirs"}}}
    stored.kube.send("PATCH", stored.path, body, "application/merge-patch+json", {})
    if "labels" in stored.manifest["metadata"]:
        assert not is_applied(stored.manifest, stored.read(), MANAGER)
    else:
        assert is_applied(stored.manifest, stored.read(), MANAGER)


def test_a_run_with_nothing_to_do_only_reads(
    kubeconfig: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = [
        {**copy.deepcopy(MANIFESTS["configmaps"]), "metadata": {"name": f"c{number}"}}
        for number in range(30)
    ]
    for manifest in manifests:
        manifest["metadata"]["namespace"] = namespace
    parameters = {"kubeconfig": kubeconfig, "manifests": manifests}
    assert apply(parameters)["changed"]
    methods: list[str] = []
    send = Transport.send

    def noting(self: Transport, method: str, *arguments: t.Any, **more: t.Any) -> t.Any:
        methods.append(method)
        return send(self, method, *arguments, **more)

    monkeypatch.setattr(Transport, "send", noting)
    result = apply(parameters)
    assert {entry["action"] for entry in result["results"]} == {"unchanged"}
    assert set(methods) == {"GET"}
