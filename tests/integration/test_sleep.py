# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that sleep, on a real API server with KWOK nodes that their simulated BMCs switch."""

from __future__ import annotations

import itertools
import json
import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import RESOURCE_KIND
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.bmcs import Bmcs
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.execution import Executor
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.lifecycle import Change
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.node_changes import (
    EXCLUDED,
    OUT_OF_SERVICE,
    TAINT,
    apply_patch,
    patch_to_awake,
    patch_to_record,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    HOLD,
    SCALE_DOWN_DISABLED,
    NodeRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record_store import NAME
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from lab.process import wait_until
from support.fleet_of_machines import FleetOfMachines
from support.sleeping_lab import LABEL, SleepingLab

Json = dict[str, t.Any]
RECORD = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"


def versions(sleeping: SleepingLab) -> dict[str, str]:
    """Versions of all that a run may write, apart from heartbeats of kubelets."""
    found = {}
    for name in sleeping.names:
        node = sleeping.node(name)
        metadata, spec = node["metadata"], node["spec"]
        # The control plane adds taints of its own while a kubelet is silent.
        taints = [one for one in spec.pop("taints", ()) if one["key"] in (TAINT, OUT_OF_SERVICE)]
        kept = (metadata["annotations"], metadata["labels"], spec, taints, sleeping.resets(name))
        found[name] = json.dumps(kept, sort_keys=True)
    record = sleeping.kube.find(RECORD)
    found["record"] = "" if record is None else record["metadata"]["resourceVersion"]
    return found


def test_machines_sleep_and_a_waiting_pod_wakes_one(sleeping: SleepingLab) -> None:
    result = sleeping.run()
    asleep = sleeping.asleep()
    assert (len(asleep), result["asleep"], result["awake"]) == (2, 2, 1), result
    for name in asleep:
        node = sleeping.node(name)
        assert not sleeping.is_on(name)
        assert sleeping.resets(name)[-1] == "GracefulShutdown"
        assert node["spec"]["unschedulable"] is True
        assert TAINT in {one["key"] for one in node["spec"]["taints"]}
        assert EXCLUDED in node["metadata"]["labels"]
    before = versions(sleeping)
    again = sleeping.run()
    assert (again["transitions"], again["changed"]) == ([], False)
    assert versions(sleeping) == before
    # More than one machine has room for, so that one must wake.
    cores = min(machine.cores for machine in sleeping.machines)
    for number in range(4):
        sleeping.pod(f"waiting-{number}", str(cores * 2 // 3))
    woken = sleeping.run(wait_timeout=60.0)
    assert {one["phase"] for one in woken["transitions"]} >= {"waking"}, woken
    awake = [name for name in asleep if sleeping.phase(name) == "awake"]
    assert awake, woken
    assert (woken["cycles"], woken["wakes_in_time"], woken["wakes_late"]) == (2, len(awake), 0)
    for name in awake:
        node = sleeping.node(name)
        assert sleeping.is_ready(name)
        assert not node["spec"].get("unschedulable")
        assert TAINT not in {one["key"] for one in node["spec"].get("taints", ())}
        assert EXCLUDED not in node["metadata"]["labels"]


def test_a_dry_run_tells_and_switches_nothing(sleeping: SleepingLab) -> None:
    before = versions(sleeping)
    result = sleeping.run("dry_run")
    assert len(result["transitions"]) == 2
    assert {one["phase"] for one in result["transitions"]} == {"draining"}
    assert result["dry_run_days"][0]["most_asleep"] == 2
    after = versions(sleeping)
    del before["record"], after["record"]
    assert after == before
    sleeping.kube.request("DELETE", RECORD)
    sleeping.run("dry_run", check_mode=True)
    assert sleeping.kube.find(RECORD) is None


def test_off_wakes_all_machines(sleeping: SleepingLab) -> None:
    sleeping.run()
    assert len(sleeping.asleep()) == 2
    result = sleeping.run("off")
    assert set(sleeping.phases().values()) == {"awake"}, result
    assert all(map(sleeping.is_ready, sleeping.names))
    assert result["saved_joules"] > 0


class Killed(BaseException):
    """The run ends as by SIGKILL."""


def _killed_at(sleeping: SleepingLab, number: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run until just before this write; whether the run came so far."""
    counted = itertools.count(1)
    is_dead = False
    send, switch = Kube.send, Bmcs.switch

    def count() -> None:
        nonlocal is_dead
        is_dead = is_dead or next(counted) >= number
        if is_dead:
            raise Killed

    def counted_send(self: Kube, method: str, path: str, *rest: t.Any, **more: t.Any) -> t.Any:
        # The Lease expires; the test does not wait for that.
        if method != "GET" and "/leases" not in path:
            count()
        return send(self, method, path, *rest, **more)

    def counted_switch(self: Bmcs, names: t.Any, *rest: t.Any) -> t.Any:
        if names:
            count()
        return switch(self, names, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Kube, "send", counted_send)
        patched.setattr(Bmcs, "switch", counted_switch)
        try:
            sleeping.run()
        except Killed:
            return True
    return False


def test_a_run_killed_between_any_two_writes_is_continued(
    sleeping: SleepingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = 0
    for number in range(1, 40, 2):
        if not _killed_at(sleeping, number, monkeypatch):
            break
        kills += 1
        result = sleeping.run()
        assert len(sleeping.asleep()) == 2, (number, result)
        result = sleeping.run("off")
        assert set(sleeping.phases().values()) == {"awake"}, (number, result)
    assert kills >= 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"readings_age": None}, "readings are missing"),
        ({"readings_age": 5000.0}, "5000 s old"),
    ],
)
def test_nothing_is_switched_off_on_old_readings(
    sleeping: SleepingLab, given: Json, words: str
) -> None:
    result = sleeping.run(**given)
    assert words in result["obstacle"]
    assert set(sleeping.phases().values()) == {"awake"}
    assert all(map(sleeping.is_on, sleeping.names))


def test_a_bmc_of_another_machine_gets_no_request(sleeping: SleepingLab) -> None:
    first, second, _third = sleeping.machines
    # Both NodeConfigs lead to the BMC of the first.
    object.__setattr__(second, "bmc_address", first.bmc_address)
    before = {name: sleeping.resets(name) for name in sleeping.names}
    sleeping.run()
    assert sleeping.resets(second.name) == before[second.name]
    assert sleeping.phase(second.name) == "awake"


def test_a_pod_that_came_since_the_decision_stops_its_machine_alone(
    sleeping: SleepingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Executor.write
    came: list[str] = []

    def write_late(self: Executor, changes: t.Any, nodes: t.Any) -> list[Change]:
        written = write(self, changes, nodes)
        off = [one.name for one in written if one.action == "switch_off"]
        if off and not came:
            came.append(off[0])
            sleeping.pod("late", "1", off[0])
        return written

    with monkeypatch.context() as patched:
        patched.setattr(Executor, "write", write_late)
        result = sleeping.run()
    [late] = came
    told = [one["reason"] for one in result["transitions"] if one["name"] == late]
    assert told[-1].endswith("late came since the decision, so it was not switched off."), told
    assert sleeping.phase(late) == "awake"
    assert sleeping.resets(late)[-1:] != ["GracefulShutdown"]
    assert len(sleeping.asleep()) == 1


def test_a_node_that_refuses_its_patch_concerns_no_other(
    sleeping: SleepingLab, namespace: str
) -> None:
    refused = sleeping.run("dry_run")["transitions"][0]["name"]
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    policy = {
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {
                "resourceRules": [{**rules, "resources": ["nodes"], "resourceNames": [refused]}]
            },
            "validations": [{"expression": "false", "message": "not this node"}],
        },
    }
    binding = {
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }
    sleeping.kube.request("POST", policies, policy)
    sleeping.kube.request("POST", f"{policies[:-3]}ybindings", binding)
    tries = itertools.count()

    def is_in_force() -> bool:
        try:
            labels = {"policy-test": str(next(tries))}
            sleeping.patch_node(refused, {"metadata": {"labels": labels}})
        except ApiError as error:
            assert "not this node" in str(error)
            return True
        return False

    try:
        wait_until(is_in_force, 30.0, "the policy")
        result = sleeping.run()
    finally:
        sleeping.kube.request("DELETE", f"{policies[:-3]}ybindings/{namespace}")
        sleeping.kube.request("DELETE", f"{policies}/{namespace}")
        # The fixture changes the Node again.
        wait_until(lambda: not is_in_force(), 30.0, "the end of the policy")
    words = {one["name"]: one["word"] for one in result["machines"]}
    assert sleeping.phase(refused) == "awake"
    assert words[refused] == "failed"
    assert [one["name"] for one in result["findings"]] == [refused]
    assert "not this node" in result["findings"][0]["problem"]
    assert len(sleeping.asleep()) == 1


def test_a_run_that_waits_reads_the_machines_in_transition_alone(
    sleeping: SleepingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping.run()
    asleep = sleeping.asleep()
    told: list[str] = []
    send, read = Kube.send, Bmcs.read

    def counted_send(self: Kube, method: str, path: str, *rest: t.Any, **more: t.Any) -> t.Any:
        told.append(path)
        return send(self, method, path, *rest, **more)

    def counted_read(self: Bmcs, names: t.Any) -> t.Any:
        told.append(f"power of {len(names)}")
        return read(self, names)

    with monkeypatch.context() as patched:
        patched.setattr(Kube, "send", counted_send)
        patched.setattr(Bmcs, "read", counted_read)
        result = sleeping.run("off")
    assert result["awake"] == 3
    assert set(asleep) == {one["name"] for one in result["transitions"]}
    # One list before the round that wakes, one after it, and one in the round without a change.
    assert told.count("/api/v1/pods") <= 3, told
    assert told.count(f"power of {len(asleep)}") > 3


def test_a_hold_and_a_foreign_annotation_concern_only_their_machine(
    sleeping: SleepingLab,
) -> None:
    held, foreign, _other = sleeping.names
    sleeping.patch_node(held, {"metadata": {"annotations": {HOLD: "maintenance"}}})
    sleeping.patch_node(foreign, {"metadata": {"annotations": {ANNOTATION: "{nonsense"}}})
    result = sleeping.run()
    assert [one["name"] for one in result["findings"]] == [foreign]
    assert sleeping.phase(held) == "awake"
    assert sleeping.is_on(held)
    assert sleeping.is_on(foreign)


def test_a_boot_that_fails_is_quarantined_and_told(sleeping: SleepingLab) -> None:
    sleeping.run()
    name = sleeping.asleep()[0]
    sleeping.admin("POST", "/faults", [{"kind": "boot-fails", "node": name}])
    quick: Json = {"boot_timeout": 3.0, "max_attempts": 2, "wait_timeout": 20.0}
    told: list[Json] = []
    for _run in range(4):
        result = sleeping.run("on" if told else "off", **quick)
        told += [one for one in result["transitions"] if one["name"] == name and one["warning"]]
        if sleeping.phase(name) == "quarantined":
            break
    assert told[-1]["phase"] == "quarantined"
    assert result["wakes_late"] >= 1
    events = sleeping.kube.list("/api/v1/namespaces/default/events")
    reasons = {one["reason"] for one in events if one["involvedObject"]["name"] == name}
    assert "MachineQuarantined" in reasons
    sleeping.admin("DELETE", "/faults")
    sleeping.run("off")
    assert sleeping.phase(name) == "awake"


def test_a_rule_that_selects_all_leaves_the_floor_awake(sleeping: SleepingLab) -> None:
    sleeping.run(min_awake=2)
    assert len(sleeping.asleep()) == 1


def test_a_selector_of_the_control_plane_switches_none_of_it(sleeping: SleepingLab) -> None:
    role = "node-role.kubernetes.io/control-plane"
    for name in sleeping.names:
        sleeping.patch_node(name, {"metadata": {"labels": {role: ""}}})
    try:
        result = sleeping.run()
        assert result["transitions"] == []
        assert {one["word"] for one in result["machines"]} == {"protected"}
    finally:
        for name in sleeping.names:
            sleeping.patch_node(name, {"metadata": {"labels": {role: None}}})


class TestAccount:
    """The operator's account, on which the policy puts its limits."""

    @pytest.fixture
    def account(self, kubeconfig: str, namespace: str) -> Iterator[Kube]:
        folder = Path(__file__).parents[2] / "operator" / "config" / "rbac" / "sleep"
        text = "\n---\n".join(
            (folder / name).read_text("utf-8") for name in ("rights.yaml", "policies.yaml")
        )
        operator = "system:serviceaccount:wattwise-system:wattwise-operator"
        text = text.replace(operator, namespace).replace("wattwise-operator-sleep", namespace)
        made = [each for each in yaml.safe_load_all(text) if each]
        made = [each for each in made if each["kind"] not in ("Role", "RoleBinding")]
        for each in made:
            if each["kind"] == "ClusterRoleBinding":
                group = "rbac.authorization.k8s.io"
                each["subjects"] = [{"apiGroup": group, "kind": "User", "name": namespace}]
        apply({"kubeconfig": kubeconfig, "manifests": made})
        yield Kube.connect({"kubeconfig": kubeconfig, "impersonate_user": namespace})
        apply({"kubeconfig": kubeconfig, "manifests": made, "state": "absent"})

    def wait_for_patch(
        self,
        account: Kube,
        sleeping: SleepingLab,
        name: str,
        patch_of: t.Callable[[Json], list[Json]],
    ) -> None:
        def is_patched() -> bool:
            node = sleeping.node(name)
            return apply_patch(account, node, patch_of(node)) is not None

        wait_until(is_patched, 10.0, "the patch")

    def test_it_changes_only_the_fields_of_a_sleep(
        self, account: Kube, sleeping: SleepingLab
    ) -> None:
        name = sleeping.names[0]

        def may(body: Json) -> bool:
            try:
                account.request("PATCH", f"/api/v1/nodes/{name}", body, MERGE_CONTENT_TYPE)
            except ApiError as error:
                assert (error.status, "the operator changes" in str(error)) == (403, True), error
                return False
            return True

        tries = itertools.count()

        def is_in_force() -> bool:
            return not may({"metadata": {"labels": {"policy-test": str(next(tries))}}})

        # A new policy is in force after a moment.
        wait_until(is_in_force, 30.0, "the policy")
        record = NodeRecord(Phase.DRAINING, 1.8e9, "test", cordoned=True, excluded=True)
        asleep = replace(record, phase=Phase.ASLEEP)
        for patch_of in (
            lambda node: patch_to_record(node, record),
            lambda node: patch_to_record(node, asleep, is_out_of_service=True),
            lambda node: patch_to_awake(node, record),
        ):
            # The control plane adds and removes the taint of the cordon meanwhile.
            self.wait_for_patch(account, sleeping, name, patch_of)
        assert not may({"metadata": {"annotations": {"x": "y"}}})
        assert not may({"metadata": {"finalizers": ["example.org/x"]}})
        assert not may({"spec": {"taints": [{"key": "other", "effect": "NoExecute"}]}})
        assert not may({"spec": {"podCIDR": "10.1.0.0/24"}})


def test_a_cluster_autoscaler_leaves_sleeping_nodes_alone_until_their_wake(
    sleeping: SleepingLab,
) -> None:
    config_maps = "/api/v1/namespaces/kube-system/configmaps"
    status = {"metadata": {"name": "cluster-autoscaler-status"}}
    sleeping.kube.request("POST", config_maps, status)
    try:
        sleeping.run()
        asleep = sleeping.asleep()
        assert len(asleep) == 2
        for name in asleep:
            annotations = sleeping.node(name)["metadata"]["annotations"]
            assert annotations[SCALE_DOWN_DISABLED] == "true"
        # The mark is ours, so that it keeps no machine awake.
        assert sleeping.run()["transitions"] == []
        sleeping.run("off")
        for name in asleep:
            assert SCALE_DOWN_DISABLED not in sleeping.node(name)["metadata"]["annotations"]
    finally:
        sleeping.kube.request("DELETE", f"{config_maps}/cluster-autoscaler-status")


def test_standby_is_measured_and_counts_in_the_energy_saved(sleeping: SleepingLab) -> None:
    assumed = sleeping.run(standby_watts=0.0)["saved_watts"]
    for name in sleeping.asleep():
        record = {**(sleeping.record(name) or {}), "since": "2026-01-01T00:00:00Z"}
        annotations = {ANNOTATION: json.dumps(record)}
        sleeping.patch_node(name, {"metadata": {"annotations": annotations}})
    measured = sleeping.run(standby_watts=0.0)["saved_watts"]
    assert 0.0 < measured < assumed
    before = versions(sleeping)
    assert sleeping.run(standby_watts=0.0)["saved_watts"] == measured
    assert versions(sleeping) == before


def test_volumes_that_hang_on_a_sleeping_machine_are_detached_until_its_wake(
    sleeping: SleepingLab, namespace: str
) -> None:
    sleeping.run()
    name = sleeping.asleep()[0]
    attachments = "/apis/storage.k8s.io/v1/volumeattachments"
    body = {
        "metadata": {"name": namespace},
        "spec": {
            "attacher": "test.example.org",
            "nodeName": name,
            "source": {"persistentVolumeName": namespace},
        },
    }
    made = sleeping.kube.request("POST", attachments, body)
    attached = {**made, "status": {"attached": True}}
    sleeping.kube.request("PUT", f"{attachments}/{namespace}/status", attached)

    def is_out() -> bool:
        return OUT_OF_SERVICE in {one["key"] for one in sleeping.node(name)["spec"]["taints"]}

    try:
        sleeping.run(wait_timeout=0.0)
        assert not is_out()
        record = {**(sleeping.record(name) or {}), "since": "2026-01-01T00:00:00Z"}
        annotations = {ANNOTATION: json.dumps(record)}
        sleeping.patch_node(name, {"metadata": {"annotations": annotations}})
        wait_until(lambda: not sleeping.is_ready(name), 60.0, "the silence of the kubelet")
        result = sleeping.run(wait_timeout=0.0)
        assert is_out(), result
        assert sleeping.run(wait_timeout=0.0)["transitions"] == []
        sleeping.run("off")
        assert sleeping.phase(name) == "awake"
        assert OUT_OF_SERVICE not in str(sleeping.node(name)["spec"])
    finally:
        sleeping.kube.request("DELETE", f"{attachments}/{namespace}")


def test_two_runs_at_once_are_refused(sleeping: SleepingLab) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "wattwise-sleep"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 600},
    }
    if sleeping.kube.find(f"{lease}/wattwise-sleep"):
        sleeping.kube.request("DELETE", f"{lease}/wattwise-sleep")
    sleeping.kube.request("POST", lease, body)
    try:
        with pytest.raises(WattwiseError, match="other holds"):
            sleeping.run()
        assert set(sleeping.phases().values()) == {"awake"}
    finally:
        sleeping.kube.request("DELETE", f"{lease}/wattwise-sleep")


def sleep_of(sleeping: SleepingLab) -> Json:
    return {"mode": "on", "nodeSelector": f"{LABEL}={sleeping.namespace}"}


@pytest.fixture
def fleet(sleeping: SleepingLab, tmp_path: Path) -> Iterator[FleetOfMachines]:
    with FleetOfMachines(sleeping, tmp_path) as found:
        found.create(sleep=sleep_of(sleeping))
        yield found


@pytest.fixture
def older(sleeping: SleepingLab, tmp_path: Path) -> Iterator[FleetOfMachines]:
    """A fleet that is created before the other one, and has none of its machines."""
    with FleetOfMachines(sleeping, tmp_path, "earlier") as found:
        found.create("others", sleep=sleep_of(sleeping))
        yield found


def test_a_deleted_fleet_goes_when_its_machines_are_awake(
    sleeping: SleepingLab, fleet: FleetOfMachines
) -> None:
    fleet.run()
    assert fleet.kube.get(fleet.path)["metadata"]["finalizers"] == [RESOURCE_KIND.finalizer]
    sleeping.run()
    asleep = sleeping.asleep()
    assert len(asleep) == 2
    fleet.kube.request("DELETE", fleet.path)
    told = fleet.run()
    assert told["found"] and not told["ready"], told
    message = told["status"]["conditions"][-1]["message"]
    assert all(name in message for name in asleep), message
    assert all(map(sleeping.is_on, asleep))
    wait_until(lambda: not fleet.run()["found"], 90.0, "the end of the fleet", interval=0.2)
    assert set(sleeping.phases().values()) == {"awake"}
    assert all(map(sleeping.is_ready, sleeping.names))


def test_a_deleted_fleet_leaves_a_machine_with_a_hold(
    sleeping: SleepingLab, fleet: FleetOfMachines
) -> None:
    fleet.run()
    sleeping.run()
    for name in sleeping.asleep():
        sleeping.patch_node(name, {"metadata": {"annotations": {HOLD: "true"}}})
    fleet.kube.request("DELETE", fleet.path)
    fleet.run()
    assert fleet.kube.find(fleet.path) is None
    assert len(sleeping.asleep()) == 2


def _are_awake_after_a_run(sleeping: SleepingLab, fleet: FleetOfMachines) -> bool:
    fleet.run()
    return set(sleeping.phases().values()) == {"awake"}


@pytest.mark.parametrize(
    "spec",
    [{"sleep": {"mode": "dry_run"}}, {"nodeSelector": {"matchLabels": {LABEL: "others"}}}],
    ids=["dry run", "other nodes"],
)
def test_a_fleet_wakes_its_machines_that_no_fleet_handles_any_more(
    sleeping: SleepingLab, fleet: FleetOfMachines, spec: Json
) -> None:
    assert len(fleet.put_to_sleep()) == 2
    fleet.patch({"spec": spec})
    fleet.run()
    assert fleet.kube.get(fleet.path)["metadata"]["finalizers"] == [RESOURCE_KIND.finalizer]
    wait_until(lambda: _are_awake_after_a_run(sleeping, fleet), 90.0, "the wake", interval=0.2)
    events = fleet.kube.list(f"/api/v1/namespaces/{sleeping.namespace}/events")
    [told] = [one for one in events if one["reason"] == "MachinesWaking"]
    assert "Nothing lets it sleep any more" in told["message"]


def test_a_deleted_fleet_wakes_machines_that_an_older_fleet_in_dry_run_took_over(
    sleeping: SleepingLab, older: FleetOfMachines, fleet: FleetOfMachines
) -> None:
    asleep = fleet.put_to_sleep()
    taken_over = {"nodeSelector": {"matchLabels": {LABEL: sleeping.namespace}}}
    older.patch({"spec": {**taken_over, "sleep": {"mode": "dry_run"}}})
    fleet.kube.request("DELETE", fleet.path)
    told = fleet.run()
    assert told["found"] and not told["ready"], told
    assert all(map(sleeping.is_on, asleep))
    wait_until(lambda: not fleet.run()["found"], 90.0, "the end of the fleet", interval=0.2)
    assert set(sleeping.phases().values()) == {"awake"}
