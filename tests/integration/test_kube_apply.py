# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube_apply's library function on a real API server."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    APPLY_CONTENT_TYPE,
    Kube,
)
from lab.process import wait_until
from support.asking_pods import MERGE

CHECK = Context(check_mode=True)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Manifest = dict[str, t.Any]


def config_map(name: str, namespace: str, owner: Manifest | None = None, **data: str) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    if owner is not None:
        metadata["labels"] = {"applyset.kubernetes.io/part-of": f"set-{namespace}"}
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
        metadata["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def definition(kind: str, namespace: str, **properties: Manifest) -> Manifest:
    """A CRD in an API group of the test's own: CRDs belong to the whole cluster."""
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{namespace}.test"},
        "spec": {
            "group": f"{namespace}.test",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def custom(kind: str, namespace: str, **spec: t.Any) -> Manifest:
    metadata = {"name": "one", "namespace": namespace}
    return {"apiVersion": f"{namespace}.test/v1", "kind": kind, "metadata": metadata, "spec": spec}


def actions(result: Manifest) -> list[str]:
    return [entry["action"] for entry in result["results"]]


def versions(kube: Kube, namespace: str) -> dict[str, str]:
    items = kube.list(f"/api/v1/namespaces/{namespace}/configmaps")
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}


def test_a_second_run_moves_no_resource_version(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    manifests = [config_map(f"c{number}", namespace, a=str(number)) for number in range(30)]
    first = apply({"kubeconfig": kubeconfig, "manifests": manifests})
    before = versions(kube, namespace)
    second = apply({"kubeconfig": kubeconfig, "manifests": manifests})
    assert first["changed"] and set(actions(first)) == {"created"}
    assert not second["changed"] and set(actions(second)) == {"unchanged"}
    assert second["diff"] == []
    assert versions(kube, namespace) == before


def test_progress_counts_up_to_the_last_object(kubeconfig: str, namespace: str) -> None:
    told: list[int] = []

    def progress(done: int, total: int, failed: int) -> None:
        told.append(done)

    manifests = [config_map(f"c{number}", namespace) for number in range(60)]
    apply({"kubeconfig": kubeconfig, "manifests": manifests}, Context(progress=progress))
    assert told == list(range(1, 61))


def test_a_namespace_without_any_field_is_unchanged_in_the_second_run(
    kubeconfig: str, namespace: str
) -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-bare"}}
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": [bare]})) == ["created"]
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": [bare]})) == ["unchanged"]
    gone = apply({"kubeconfig": kubeconfig, "manifests": [bare], "state": "absent"})
    assert actions(gone) == ["deleted"]


def test_empty_labels_and_annotations_are_unchanged_in_the_second_run(
    kubeconfig: str, namespace: str
) -> None:
    kind = definition("Empty", namespace, a={"type": "string"})
    one = custom("Empty", namespace, a="x")
    one["metadata"] |= {"labels": {}, "annotations": {}}
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": [kind, one]})) == ["created"] * 2
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": [one]})) == ["unchanged"]


def test_only_what_differs_is_configured_and_shown_in_the_diff(
    kubeconfig: str, namespace: str
) -> None:
    one, two = config_map("one", namespace, a="1"), config_map("two", namespace, a="2")
    apply({"kubeconfig": kubeconfig, "manifests": [one, two]})
    two["data"]["a"] = "3"
    result = apply({"kubeconfig": kubeconfig, "manifests": [one, two]})
    assert actions(result) == ["unchanged", "configured"]
    [shown] = result["diff"]
    assert '"a": "2"' in shown["before"] and '"a": "3"' in shown["after"]


def test_check_mode_says_what_would_change_and_changes_nothing(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    one = config_map("one", namespace, a="1")
    apply({"kubeconfig": kubeconfig, "manifests": [one]})
    before = versions(kube, namespace)
    changed = config_map("one", namespace, a="2")
    result = apply(
        {"kubeconfig": kubeconfig, "manifests": [changed, config_map("new", namespace)]}, CHECK
    )
    assert actions(result) == ["configured", "created"]
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": [one]}, CHECK)) == ["unchanged"]
    assert versions(kube, namespace) == before


def test_check_mode_works_before_namespace_and_definition_exist(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    coming = f"{namespace}-coming"
    manifests = [
        custom("Early", coming, watts=3),
        config_map("inside", coming),
        definition("Early", coming, watts={"type": "integer"}),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": coming}},
    ]
    result = apply({"kubeconfig": kubeconfig, "manifests": manifests}, CHECK)
    assert set(actions(result)) == {"created"}
    assert kube.find(f"/api/v1/namespaces/{coming}") is None
    manifests[0]["spec"]["watts"] = "many"
    with pytest.raises(WattwiseError, match=r"Early .*would be refused: spec.watts"):
        apply({"kubeconfig": kubeconfig, "manifests": manifests}, CHECK)


def test_a_definition_and_its_objects_go_in_one_call(kubeconfig: str, namespace: str) -> None:
    manifests = [
        custom("Both", namespace, a="x"),
        definition("Both", namespace, a={"type": "string"}),
    ]
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": manifests})) == ["created"] * 2
    assert actions(apply({"kubeconfig": kubeconfig, "manifests": manifests})) == ["unchanged"] * 2


def test_a_definition_that_is_being_deleted_is_made_again_with_its_objects(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    manifests = [definition("Returning", namespace), custom("Returning", namespace)]
    asked = {"kubeconfig": kubeconfig, "manifests": manifests}
    apply(asked)
    path = f"{DEFINITIONS}/{manifests[0]['metadata']['name']}"
    before = kube.get(path)
    finalizers = [*before["metadata"].get("finalizers", []), "example.com/held"]
    kube.request("PATCH", path, {"metadata": {"finalizers": finalizers}}, MERGE)
    kube.request("DELETE", path)
    assert actions(apply(asked, CHECK))[0] == "created"
    with pytest.raises(
        WattwiseError, match="is being deleted, and was still there after 0.5 s"
    ) as failure:
        apply({**asked, "wait_timeout": 0.5})
    refused = failure.value.fields["results"][1]
    assert refused["error"].endswith("its CRD is still being deleted; run again")

    def free() -> None:
        # With the server's own finalizer gone too early, its objects would outlive the CRD.
        wait_until(
            lambda: kube.get(path)["metadata"]["finalizers"] == ["example.com/held"],
            30.0,
            "the deletion of the CRD's objects",
        )
        kube.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)

    timer = threading.Timer(0.5, free)
    timer.start()
    assert actions(apply(asked)) == ["created", "created"]
    timer.join()
    assert kube.get(path)["metadata"]["uid"] != before["metadata"]["uid"]


def test_one_bad_object_stops_no_other_and_is_reported(kubeconfig: str, namespace: str) -> None:
    bad = config_map("bad", namespace)
    bad["dataa"] = {"typo": "x"}
    manifests = [config_map("first", namespace), bad, config_map("last", namespace)]
    with pytest.raises(WattwiseError, match="1 of 3 objects failed: .*dataa") as caught:
        apply({"kubeconfig": kubeconfig, "manifests": manifests})
    assert actions(caught.value.fields) == ["created", "failed", "created"]
    assert caught.value.fields["changed"]


def test_a_namespace_that_is_being_deleted_fails_its_own_objects_only(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    ending = f"{namespace}-ending"
    kept = config_map("kept", ending)
    kept["metadata"]["finalizers"] = ["wattwise.test/kept"]
    space: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ending}}
    apply({"kubeconfig": kubeconfig, "manifests": [space, kept]})
    path = f"/api/v1/namespaces/{ending}"
    kube.request("DELETE", path)
    wait_until(
        lambda: kube.get(path)["status"]["phase"] == "Terminating", 10.0, "the end of the namespace"
    )
    try:
        manifests = [config_map("late", ending), config_map("other", namespace)]
        options = {"kubeconfig": kubeconfig, "manifests": manifests, "on_error": "report"}
        result = apply(options)
        assert actions(result) == ["failed", "created"]
        assert "is being terminated" in result["results"][0]["error"]
        assert "RBAC" not in result["results"][0]["error"]
    finally:
        patch: Manifest = {"metadata": {"finalizers": []}}
        content_type = "application/merge-patch+json"
        kube.send("PATCH", f"{path}/configmaps/kept", patch, content_type)


def test_a_field_of_another_manager_is_named_and_taken_only_by_force(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    mine, theirs = config_map("shared", namespace, a="1"), config_map("shared", namespace, a="2")
    path = f"/api/v1/namespaces/{namespace}/configmaps/shared"
    kube.request("PATCH", path, theirs, APPLY_CONTENT_TYPE, {"fieldManager": "kubectl"})
    with pytest.raises(WattwiseError, match=r'\.data\.a .*"kubectl".*force_conflicts'):
        apply({"kubeconfig": kubeconfig, "manifests": [mine]})
    assert kube.get(path)["data"] == {"a": "2"}
    forced = apply({"kubeconfig": kubeconfig, "manifests": [mine], "force_conflicts": True})
    assert actions(forced) == ["configured"]
    assert kube.get(path)["data"] == {"a": "1"}


def test_a_foreign_definition_is_refused_and_adopted_only_if_its_objects_fit(
    kubeconfig: str, namespace: str
) -> None:
    theirs = definition("Adopted", namespace, watts={"type": "string"})
    apply({"kubeconfig": kubeconfig, "manifests": [theirs], "field_manager": "helm", "wait": True})
    stored = custom("Adopted", namespace, watts="three")
    apply({"kubeconfig": kubeconfig, "manifests": [stored]})
    ours = definition("Adopted", namespace, watts={"type": "integer"})
    parameters = {"kubeconfig": kubeconfig, "manifests": [ours]}
    with pytest.raises(WattwiseError, match="exists and is managed by helm; remove .*crds_adopt"):
        apply({**parameters, "foreign": "refuse"})
    with pytest.raises(WattwiseError, match=f"cannot be adopted: .*{namespace}/one .*spec.watts"):
        apply({**parameters, "foreign": "adopt"})
    apply({"kubeconfig": kubeconfig, "manifests": [stored], "state": "absent"})
    assert actions(apply({**parameters, "foreign": "adopt"})) == ["configured"]


def owned_set(kube: Kube, namespace: str, count: int) -> tuple[Manifest, list[Manifest]]:
    owner = kube.request(
        "POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("owner", namespace)
    )
    return owner, [config_map(f"m{number}", namespace, owner) for number in range(count)]


def prune_parameters(kubeconfig: str, namespace: str, manifests: list[Manifest]) -> Manifest:
    return {
        "kubeconfig": kubeconfig,
        "manifests": manifests,
        "prune": f"set-{namespace}",
        "prune_owner_kinds": ["ConfigMap"],
    }


def test_pruning_removes_what_left_the_list_but_no_copy_that_a_person_made(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    _owner, members = owned_set(kube, namespace, 10)
    copy = config_map("copy", namespace)
    copy["metadata"]["labels"] = members[0]["metadata"]["labels"]
    apply(prune_parameters(kubeconfig, namespace, members))
    apply({"kubeconfig": kubeconfig, "manifests": [copy]})
    checked = apply(prune_parameters(kubeconfig, namespace, members[:7]), CHECK)
    assert [entry["name"] for entry in checked["pruned"]] == ["m7", "m8", "m9"]
    assert len(versions(kube, namespace)) == 13  # ten members, owner, copy, kube-root-ca.crt
    result = apply(prune_parameters(kubeconfig, namespace, members[:7]))
    assert result["changed"]
    assert [entry["name"] for entry in result["pruned"]] == ["m7", "m8", "m9"]
    names = versions(kube, namespace).keys()
    assert "copy" in names and "m6" in names and "m7" not in names


def test_an_object_whose_kind_ends_in_list_is_applied_and_not_pruned(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    """An AllowList without items was once dropped with success, and pruning deleted the live one."""
    owner, members = owned_set(kube, namespace, 1)
    allow_list = custom("AllowList", namespace, cidrs=["10.0.100.0/24"])
    allow_list["metadata"] |= {key: members[0]["metadata"][key] for key in ("labels",)}
    allow_list["metadata"]["ownerReferences"] = members[0]["metadata"]["ownerReferences"]
    strings = {"type": "array", "items": {"type": "string"}}
    apply(
        {
            "kubeconfig": kubeconfig,
            "manifests": [definition("AllowList", namespace, cidrs=strings)],
        }
    )
    options = {
        **prune_parameters(kubeconfig, namespace, [*members, allow_list]),
        "prune_kinds": [
            {"api_version": "v1", "kind": "ConfigMap", "namespace": namespace},
            {"api_version": f"{namespace}.test/v1", "kind": "AllowList", "namespace": namespace},
        ],
    }
    for action in ("created", "unchanged"):
        result = apply(options)
        assert actions(result) == [action] * 2
        assert result["pruned"] == []
    path = f"/apis/{namespace}.test/v1/namespaces/{namespace}/allowlists/one"
    assert kube.get(path)["spec"] == {"cidrs": ["10.0.100.0/24"]}
    assert owner["metadata"]["name"]


def test_pruning_more_than_its_limit_removes_nothing(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    _owner, members = owned_set(kube, namespace, 10)
    apply(prune_parameters(kubeconfig, namespace, members))
    with pytest.raises(WattwiseError, match=r"4 of 10 objects .* allows \(3\); nothing was prun"):
        apply(prune_parameters(kubeconfig, namespace, members[:6]))
    assert {f"m{number}" for number in range(10)} <= versions(kube, namespace).keys()
    allowed = {**prune_parameters(kubeconfig, namespace, members[:6]), "prune_max": 0.4}
    assert len(apply(allowed)["pruned"]) == 4


def test_nothing_is_pruned_after_a_failure(kubeconfig: str, kube: Kube, namespace: str) -> None:
    _owner, members = owned_set(kube, namespace, 10)
    apply(prune_parameters(kubeconfig, namespace, members))
    members[0]["dataa"] = {}
    with pytest.raises(WattwiseError) as caught:
        apply(prune_parameters(kubeconfig, namespace, members[:9]))
    assert caught.value.fields["pruned"] == []
    assert "m9" in versions(kube, namespace)


def test_an_owner_is_set_on_every_object(kubeconfig: str, kube: Kube, namespace: str) -> None:
    owner, _members = owned_set(kube, namespace, 0)
    reference = {"api_version": "v1", "kind": "ConfigMap", "name": "owner", "namespace": namespace}
    apply(
        {
            "kubeconfig": kubeconfig,
            "manifests": [config_map("owned", namespace)],
            "owner": reference,
        }
    )
    owned = kube.get(f"/api/v1/namespaces/{namespace}/configmaps/owned")
    assert owned["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    missing = {**reference, "name": "nobody"}
    with pytest.raises(WattwiseError, match="there is no ConfigMap nobody; make it first"):
        apply({"kubeconfig": kubeconfig, "manifests": [], "owner": missing})


def test_a_status_is_a_change_only_when_a_condition_moves(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    one = custom("Measured", namespace)
    apply({"kubeconfig": kubeconfig, "manifests": [definition("Measured", namespace), one]})

    def write(celsius: float, ready: str) -> Manifest:
        conditions = [{"type": "Ready", "status": ready, "reason": "Read", "message": "x"}]
        status = {"celsius": celsius, "conditions": conditions}
        manifest = {key: value for key, value in one.items() if key != "spec"}
        return apply(
            {
                "kubeconfig": kubeconfig,
                "status": True,
                "manifests": [{**manifest, "status": status}],
            }
        )

    def stored() -> Manifest:
        path = f"/apis/{namespace}.test/v1/namespaces/{namespace}/measureds/one"
        return t.cast("Manifest", kube.get(path)["status"])

    assert write(20.0, "True")["changed"]
    moment = stored()["conditions"][0]["lastTransitionTime"]
    moved = write(21.0, "True")
    assert not moved["changed"] and actions(moved) == ["configured"]
    assert stored() == {
        "celsius": 21.0,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Read",
                "message": "x",
                "lastTransitionTime": moment,
            }
        ],
    }
    assert actions(write(21.0, "True")) == ["unchanged"]
    assert write(21.0, "False")["changed"]


def test_a_status_of_an_object_that_was_deleted_is_dropped_where_it_names_the_object(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    one = custom("Fleeting", namespace)
    parameters = {"kubeconfig": kubeconfig, "manifests": [definition("Fleeting", namespace), one]}
    apply(parameters)
    path = f"/apis/{namespace}.test/v1/namespaces/{namespace}/fleetings/one"
    first = kube.get(path)["metadata"]["uid"]
    kube.request("DELETE", path)
    named = {**one, "metadata": {**one["metadata"], "uid": first}, "status": {"celsius": 20.0}}

    def write(manifest: Manifest) -> Manifest:
        return apply({"kubeconfig": kubeconfig, "status": True, "manifests": [manifest]})

    assert actions(write(named)) == ["unchanged"]
    apply(parameters)
    assert actions(write(named)) == ["unchanged"]
    assert "status" not in kube.get(path)
    now = {**named["metadata"], "uid": kube.get(path)["metadata"]["uid"]}
    assert actions(write({**named, "metadata": now})) == ["configured"]
    kube.request("DELETE", path)
    with pytest.raises(WattwiseError, match="its status cannot be written"):
        write({**one, "status": {"celsius": 20.0}})


def test_objects_of_a_kind_that_is_not_served_fail_with_the_remedy(
    kubeconfig: str, namespace: str
) -> None:
    with pytest.raises(WattwiseError, match="serves no Nowhere of .*test/v1; install"):
        apply({"kubeconfig": kubeconfig, "manifests": [custom("Nowhere", namespace)]})


def test_waiting_ends_with_the_names_of_what_is_not_ready(kubeconfig: str, namespace: str) -> None:
    container = {"name": "c", "image": "none"}
    labels = {"app": "x"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "never", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "nodeSelector": {"no": "where"}},
            },
        },
    }
    parameters = {"kubeconfig": kubeconfig, "manifests": [deployment], "wait": True}
    with pytest.raises(WattwiseError, match=f"Not ready after 0.3 s: .*{namespace}.*never"):
        apply({**parameters, "wait_timeout": 0.3})


def test_an_api_server_that_restarts_in_the_middle_loses_nothing(
    kubeconfig: str, kube: Kube, namespace: str, restart_apiserver: t.Callable[[], None]
) -> None:
    manifests = [config_map(f"r{number}", namespace, a="1") for number in range(400)]
    restarting = threading.Thread(target=restart_apiserver)

    def progress(done: int, total: int, failed: int) -> None:
        if done == 100:
            restarting.start()

    result = apply(
        {"kubeconfig": kubeconfig, "manifests": manifests, "concurrency": 4},
        Context(progress=progress),
    )
    restarting.join()
    # An object whose answer was lost turns out to be applied when it is sent again.
    assert set(actions(result)) <= {"created", "unchanged", "configured"}
    assert sum(name.startswith("r") for name in versions(kube, namespace)) == 400


def pod(namespace: str, *arguments: str, **resources: str) -> Manifest:
    container: Manifest = {"name": "one", "image": "one", "args": list(arguments)}
    if resources:
        container["resources"] = {"limits": resources}
    metadata = {"name": "one", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }


def test_what_cannot_change_is_made_anew_only_where_that_is_asked_for(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/one"
    asked = {"kubeconfig": kubeconfig, "manifests": [pod(namespace, "a")]}
    apply(asked)
    before = kube.get(path)["metadata"]["uid"]
    asked["manifests"] = [pod(namespace, "b")]
    with pytest.raises(WattwiseError, match="may not change fields"):
        apply(asked)
    check = apply({**asked, "recreate": True}, CHECK)
    assert (actions(check), kube.get(path)["metadata"]["uid"]) == (["configured"], before)
    assert actions(apply({**asked, "recreate": True})) == ["configured"]
    after = kube.get(path)
    assert (after["metadata"]["uid"] != before, after["spec"]["containers"][0]["args"]) == (
        True, ["b"],
    )  # fmt: skip
    assert actions(apply({**asked, "recreate": True})) == ["unchanged"]


def test_a_manifest_that_is_wrong_deletes_nothing(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    asked = {"kubeconfig": kubeconfig, "manifests": [pod(namespace, "a")], "recreate": True}
    apply(asked)
    path = f"/api/v1/namespaces/{namespace}/pods/one"
    before = kube.get(path)["metadata"]["uid"]
    asked["manifests"] = [pod(namespace, "b", cpu="-1")]
    with pytest.raises(WattwiseError, match="must be greater than or equal to 0"):
        apply(asked)
    assert kube.get(path)["metadata"]["uid"] == before


def test_an_object_that_only_its_controller_wrote_to_is_unchanged(
    kubeconfig: str, kube: Kube, namespace: str
) -> None:
    # The API server reorders the field managers of a policy after its controller wrote a status, so
    # the next application changes only the resource version.
    policy: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                        "operations": ["CREATE"],
                    }
                ]
            },
            "validations": [{"expression": "true"}],
        },
    }
    asked = {"kubeconfig": kubeconfig, "manifests": [policy]}
    apply(asked)
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{namespace}"
    wait_until(
        lambda: "typeChecking" in kube.get(path).get("status", {}), 30.0, "the status of the policy"
    )
    assert actions(apply(asked)) == ["unchanged"]
    assert actions(apply({**asked, "state": "absent"})) == ["deleted"]
