# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of KeplerAddons in which one step fails, without a cluster."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons import (
    reconciliation as kepler_addons,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply import work
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube, Resource

Json = dict[str, t.Any]
SPEC: Json = {
    "prometheus": {"enabled": True, "rules": False},
    "certificates": {"enabled": True, "issuer": "library"},
    "service_mesh": {"enabled": True},
}


class Cluster:
    """An API server that accepts everything except ``refused``; ``applied`` has every call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applied: list[Json] = []
        self.refused = ""
        self.unserved = ""
        self.problem = ""
        self.certificates: list[Json] = []
        monkeypatch.setattr(Kube, "connect", lambda _options: self)
        monkeypatch.setattr(work, "apply", self._apply)
        monkeypatch.setattr(kepler_addons, "keep_certificates", self._keep)

    def _apply(self, given: Json, _context: t.Any, _kube: t.Any, _live: t.Any) -> Json:
        self.applied.append(given)
        found = [(each["kind"], each["metadata"]["name"]) for each in given["manifests"]]
        if self.refused in [kind for kind, _name in found]:
            raise WattwiseError("a conflict", results=[])
        results = [{"kind": kind, "name": name, "action": "created"} for kind, name in found]
        return {"changed": True, "results": results}

    def _keep(self, *_given: t.Any) -> Json:
        if self.problem:
            raise WattwiseError(self.problem)
        self.applied.append({"manifests": [{"kind": "Pair"}]})
        return {"changed": True}

    def kinds(self) -> list[str]:
        return [each["kind"] for given in self.applied for each in given["manifests"]]

    def serves(self, _version: str, kind: str) -> bool:
        return kind != self.unserved

    def resource(self, _version: str, kind: str) -> Resource:
        return Resource("/apis/x", kind, True)

    def list(self, _path: str) -> list[Json]:
        return self.certificates

    def find(self, _path: str) -> Json:
        return {}

    def read_secret(self, _namespace: str, name: str) -> tuple[Json, str] | None:
        return ({"ca.crt": "a"}, "") if name == "kepler-server" else None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def told(status: Json) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status["conditions"]}


def failed(**spec: t.Any) -> tuple[str, dict[str, str]]:
    """The message and the conditions of a failing run."""
    with pytest.raises(WattwiseError) as caught:
        kepler_addons.reconcile({"spec": {**SPEC, **spec}})
    return str(caught.value), told(caught.value.fields["status"])


def test_certificates_that_the_library_could_not_issue_stop_no_other_add_on(
    cluster: Cluster,
) -> None:
    cluster.problem = "no cryptography"
    sentence, reasons = failed()
    assert sentence == "Certificates: no cryptography"
    assert (reasons["Reconciled"], reasons["Certificates"]) == ("ReconcileError",) * 2
    assert reasons["ServiceMesh"] == "Applied"
    assert {"ServiceMonitor", "DestinationRule"} <= set(cluster.kinds())


def test_labels_of_the_namespace_that_are_somebody_elses_stop_no_other_add_on(
    cluster: Cluster,
) -> None:
    cluster.refused = "Namespace"
    spec = {**SPEC["certificates"], "enabled": False}
    sentence, reasons = failed(certificates=spec)
    assert sentence == "ServiceMesh: a conflict"
    assert (reasons["ServiceMesh"], reasons["Prometheus"]) == ("ReconcileError", "Applied")
    assert "ServiceMonitor" in cluster.kinds()


def test_certificates_that_a_run_did_not_reach_are_not_told_as_applied(cluster: Cluster) -> None:
    cluster.refused = "ConfigMap"
    assert failed()[1]["Certificates"] == "NotYet"


def test_certificates_without_their_kinds_are_not_waited_for(cluster: Cluster) -> None:
    cluster.unserved = "Certificate"
    spec = {
        **SPEC,
        "security": {"mode": "mtls"},
        "certificates": {"enabled": True, "issuer": "cert-manager"},
    }
    reasons = told(kepler_addons.reconcile({"spec": spec})["status"])
    assert reasons["Certificates"] == "KindNotServed"
    assert reasons["Prometheus"] == "SecretNotFound"


def test_the_library_issues_after_the_certificates_of_cert_manager_are_pruned(
    cluster: Cluster,
) -> None:
    kepler_addons.reconcile({"spec": SPEC})
    kinds = cluster.kinds()
    assert kinds.index("ServiceMonitor") < kinds.index("Pair") < kinds.index("Secret")
    [secret] = [each for each in cluster.applied if each["manifests"][0]["kind"] == "Secret"]
    assert secret["force_conflicts"]
    # One that is not pruned would fill the Secret again and again.
    cluster.certificates = [{"metadata": {"name": "c"}, "spec": {"secretName": "kepler-client"}}]
    assert "Certificate 'c' also fills the Secret kepler-client" in failed()[0]


def test_two_add_ons_of_a_namespace_never_undo_each_others_labels(cluster: Cluster) -> None:
    managers = set()
    for name in ("kepler", "energy"):
        kepler_addons.reconcile({"name": name, "spec": {"service_mesh": {"enabled": True}}})
        managers |= {
            each["field_manager"]
            for each in cluster.applied
            if each["manifests"][0]["kind"] == "Namespace"
        }
    assert len(managers) == 2
