# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of the ``bind`` step on an API over a real socket."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.bind.binding import Bindings, Outcome
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import Placement
from support.binding_api import Cluster, Json, node, pod
from support.carried_out_plans import bind
from support.scripted_api import Asked, Reply, status_reply

NOW = datetime.datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=datetime.UTC)
CONTEXT = Context(now=lambda: NOW)
CHECK = Context(check_mode=True, now=lambda: NOW)


def to(node_name: str, *names: str, **more: t.Any) -> list[Json]:
    return [{"namespace": "shop", "pod": name, "node": node_name, **more} for name in names]


def run(cluster: Cluster, context: Context = CONTEXT, **parameters: t.Any) -> Json:
    with cluster.serve() as api:
        return bind({"host": api.url, **parameters}, context)


def carried_out(cluster: Cluster, folder: Path, context: Context = CONTEXT) -> Json:
    """A run that binds the plan in the folder."""
    with cluster.serve() as api:
        return reconcile_fleet(
            {"host": api.url, "steps": ["bind"], "run_dir": str(folder)}, context
        )


def reason(result: Json) -> str:
    (skipped,) = result["skipped"]
    assert (result["bound"], result["changed"], result["errors"]) == ([], False, [])
    return str(skipped["reason"])


def test_pods_are_bound_with_uid_and_version_and_a_second_run_changes_nothing() -> None:
    cluster = Cluster().add(node("n1"), node("n2"), pod("a"), pod("b"), pod("c"))
    placements = to("n1", "a", "b", uid=None) + to("n2", "c", uid="uid-c")
    with cluster.serve() as api:
        first = bind({"host": api.url, "placements": placements}, CONTEXT)
        bindings = [each for each in api.asked if each.path.endswith("/binding")]
        written = [each for each in api.asked if each.method != "GET"]
        second = bind({"host": api.url, "placements": placements}, CONTEXT)
        assert [each for each in api.asked if each.method != "GET"] == written
    assert [cluster.place_of(name) for name in "abc"] == ["n1", "n1", "n2"]
    assert {each.body["metadata"]["uid"] for each in bindings} == {"uid-a", "uid-b", "uid-c"}
    assert {each.body["metadata"]["resourceVersion"] for each in bindings} == {"1"}
    assert [entry["pod"] for entry in first["bound"]] == ["a", "b", "c"]
    assert first["changed"] and not second["changed"]
    [diff] = first["diff"]
    assert diff == {
        "before_header": "pods (before)",
        "after_header": "pods (after)",
        "before": {"shop/a": "", "shop/b": "", "shop/c": ""},
        "after": {"shop/a": "n1", "shop/b": "n1", "shop/c": "n2"},
    }
    assert [entry["pod"] for entry in second["unchanged"]] == ["a", "b", "c"]
    assert second["diff"] == []


def test_check_mode_writes_nothing_and_says_what_would_be() -> None:
    cluster = Cluster().add(node("n1", "2"), pod("a"), pod("b"), pod("c"))
    with cluster.serve() as api:
        result = bind({"host": api.url, "placements": to("n1", "a", "b", "c")}, CHECK)
        assert {each.method for each in api.asked} == {"GET"}
    assert [entry["pod"] for entry in result["bound"]] == ["a", "b"]
    assert result["skipped"][0]["reason"] == "node n1 is full: Insufficient cpu"
    assert result["changed"] and result["diff"][0]["after"] == {"shop/a": "n1", "shop/b": "n1"}


@pytest.mark.parametrize(
    ("target", "reason_text"),
    [
        (None, "node n1 is gone"),
        (node("n1", unschedulable=True), "node n1 is cordoned"),
        (node("n1", ready="Unknown"), "node n1 is not ready"),
        (
            node("n1", taints=[{"key": "gpu", "value": "x", "effect": "NoSchedule"}]),
            "node n1 had untolerated taint {gpu: x}",
        ),
        (
            node("n1", taints=[{"key": "bad", "effect": "NoExecute"}]),
            "node n1 had untolerated taint {bad: }",
        ),
        (node("n1", "500m"), "node n1 is full: Insufficient cpu"),
    ],
)
def test_a_node_that_is_no_longer_fit_gets_no_pod(target: Json | None, reason_text: str) -> None:
    cluster = Cluster().add(pod("a"), *([target] if target else []))
    assert reason(run(cluster, placements=to("n1", "a"))) == reason_text
    assert cluster.place_of("a") is None


def test_what_runs_on_the_node_counts_and_so_does_what_this_run_bound() -> None:
    old = pod("old", "2", nodeName="n1")
    cluster = Cluster().add(node("n1", "4"), old, pod("a"), pod("b"), pod("c"))
    result = run(cluster, placements=to("n1", "a", "b", "c"))
    assert [entry["pod"] for entry in result["bound"]] == ["a", "b"]
    assert [entry["pod"] for entry in result["skipped"]] == ["c"]


def test_a_port_of_the_node_is_given_once() -> None:
    open_port: Json = {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]}
    cluster = Cluster().add(node("n1"), pod("a", **open_port), pod("b", **open_port))
    result = run(cluster, placements=to("n1", "a", "b"))
    assert [entry["pod"] for entry in result["bound"]] == ["a"]
    assert result["skipped"][0]["reason"] == (
        "node n1 didn't have free ports for the requested pod ports"
    )


def test_the_anti_affinity_of_what_runs_on_the_node_is_respected() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    old = pod("old", nodeName="n1", affinity=affinity)
    cluster = Cluster().add(node("n1"), old, pod("a", labels={"app": "web"}))
    assert "anti-affinity" in reason(run(cluster, placements=to("n1", "a")))


@pytest.mark.parametrize(
    ("change", "reason_text"),
    [
        (lambda item: item["metadata"].update(uid="other"), "the pod was replaced"),
        (lambda item: item["spec"].update(nodeName="n9"), "the pod is bound to node n9 already"),
        (
            lambda item: item["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
            "the pod is being deleted",
        ),
        (lambda item: item["status"].update(phase="Failed"), "the pod has finished"),
        (
            lambda item: item["spec"].update(schedulingGates=[{"name": "wait"}]),
            "the pod has scheduling gates",
        ),
    ],
)
def test_a_pod_that_is_no_longer_the_planned_one_is_skipped(
    change: t.Callable[[Json], None], reason_text: str
) -> None:
    cluster = Cluster().add(node("n1"), pod("a"))
    change(cluster.pods["shop", "a"])
    result = run(cluster, placements=to("n1", "a", uid="uid-a"))
    assert reason(result).startswith(reason_text)
    assert not result["skipped"][0]["waits"]


def test_pods_that_were_skipped_or_failed_wait_and_have_a_reason() -> None:
    a, b, c, d = (Placement("shop", name, "n1") for name in "abcd")
    outcomes = (
        Outcome(a, "skipped", "full"),
        Outcome(b, "skipped", "gone", waits=False),
        Outcome(c, "failed", "no answer"),
        Outcome(d, "bound"),
    )
    unmarked = {"namespace": "shop", "pod": "e", "detail": "the condition was not written"}
    bindings = Bindings(outcomes, unmarked=[unmarked])
    assert bindings.still_waiting == {("shop", "a"): "full", ("shop", "c"): "no answer"}
    assert [error["pod"] for error in bindings.as_result()["errors"]] == ["c", "e"]


def test_a_pod_that_is_gone_is_skipped() -> None:
    assert reason(run(Cluster().add(node("n1")), placements=to("n1", "a"))) == "the pod is gone"


def once(action: t.Callable[[Cluster], Reply | None]) -> t.Callable[[Asked, Cluster], Reply | None]:
    """A hook that acts on the first binding only."""
    left = [action]

    def hook(asked: Asked, cluster: Cluster) -> Reply | None:
        if asked.method == "POST" and asked.path.endswith("/binding") and left:
            return left.pop()(cluster)
        return None

    return hook


def test_a_pod_that_changes_between_reading_and_binding_is_looked_at_again() -> None:
    cluster = Cluster().add(node("n1"), pod("a"))
    cluster.hook = once(lambda cluster: cluster.touch(cluster.pods["shop", "a"]))
    result = run(cluster, placements=to("n1", "a"))
    assert [entry["pod"] for entry in result["bound"]] == ["a"]


def test_a_pod_that_another_scheduler_binds_meanwhile_is_left_to_it() -> None:
    def taken(cluster: Cluster) -> None:
        cluster.pods["shop", "a"]["spec"]["nodeName"] = "n2"
        cluster.touch(cluster.pods["shop", "a"])

    cluster = Cluster().add(node("n1"), pod("a"))
    cluster.hook = once(taken)
    result = run(cluster, placements=to("n1", "a"))
    assert reason(result) == "the pod is bound to node n2 already"


def test_a_pod_that_vanishes_meanwhile_is_skipped() -> None:
    cluster = Cluster().add(node("n1"), pod("a"))

    def vanished(cluster: Cluster) -> Reply:
        del cluster.pods["shop", "a"]
        return status_reply(404, "pods a not found", reason="NotFound")

    cluster.hook = once(vanished)
    assert reason(run(cluster, placements=to("n1", "a"))) == "the pod is gone"


def test_a_binding_whose_answer_is_lost_counts_as_made() -> None:
    def bound_but_silent(cluster: Cluster) -> Reply:
        cluster.pods["shop", "a"]["spec"]["nodeName"] = "n1"
        return Reply(drop=True)

    cluster = Cluster().add(node("n1"), pod("a"))
    cluster.hook = once(bound_but_silent)
    result = run(cluster, placements=to("n1", "a"))
    assert [entry["pod"] for entry in result["bound"]] == ["a"]
    assert result["changed"]


def test_a_failed_binding_is_reported_and_the_others_go_on() -> None:
    def hook(asked: Asked, _cluster: Cluster) -> Reply | None:
        forbidden = asked.method == "POST" and "/pods/a/" in asked.path
        return status_reply(403, "pods/binding is forbidden") if forbidden else None

    cluster = Cluster(hook=hook).add(node("n1"), pod("a"), pod("b"))
    result = run(cluster, placements=to("n1", "a", "b"))
    assert [entry["pod"] for entry in result["bound"]] == ["b"]
    (error,) = result["errors"]
    assert (error["pod"], "forbidden" in error["detail"]) == ("a", True)


@pytest.mark.parametrize("broken", ["/api/v1/nodes/", "/binding"])
def test_when_no_binding_succeeds_the_task_fails_with_all_results(broken: str) -> None:
    def hook(asked: Asked, _cluster: Cluster) -> Reply | None:
        return status_reply(403, "not you") if broken in asked.path else None

    cluster = Cluster(hook=hook).add(node("n1"), pod("a"), pod("b"))
    with pytest.raises(WattwiseError, match="None of 2 bindings succeeded.*not you") as failure:
        run(cluster, placements=to("n1", "a", "b"))
    assert [error["pod"] for error in failure.value.fields["errors"]] == ["a", "b"]


def test_a_conflict_that_does_not_end_fails_in_the_end() -> None:
    def hook(asked: Asked, cluster: Cluster) -> Reply | None:
        if asked.path.endswith("/binding"):
            cluster.touch(cluster.pods["shop", "a"])
        return None

    cluster = Cluster(hook=hook).add(node("n1"), pod("a"))
    with pytest.raises(WattwiseError, match="Precondition failed: resourceVersion"):
        run(cluster, placements=to("n1", "a"))


def test_the_pods_of_a_node_are_bound_in_the_order_of_the_plan() -> None:
    names = [f"pod-{index}" for index in range(8)]
    cluster = Cluster().add(*(node(name, "64") for name in ("n1", "n2", "n3")), *map(pod, names))
    progress: list[tuple[int, int, int]] = []
    context = Context(progress=lambda done, total, failed: progress.append((done, total, failed)))
    with cluster.serve() as api:
        placements = [to(f"n{index % 3 + 1}", name)[0] for index, name in enumerate(names)]
        bind({"host": api.url, "placements": placements}, context)
        posted = [each.path.split("/")[-2] for each in api.asked if each.method == "POST"]
    for first in range(3):
        assert [name for name in posted if name in names[first::3]] == names[first::3]
    assert progress == [(done, 8, 0) for done in range(1, 9)]


MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."
UNPLACED = [{"namespace": "shop", "pod": "big", "uid": "uid-big", "message": MESSAGE}]


def test_a_pod_without_a_node_is_told_so_once() -> None:
    cluster = Cluster().add(pod("big", "99"))
    with cluster.serve() as api:
        parameters = {"host": api.url, "placements": [], "unplaced": UNPLACED}
        first, second = bind(parameters, CONTEXT), bind(parameters, CONTEXT)
    assert cluster.pods["shop", "big"]["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": MESSAGE,
            "lastTransitionTime": "2026-01-31T12:00:00Z",
        }
    ]
    (event,) = cluster.events
    assert (event["reason"], event["note"], event["type"]) == (
        "FailedScheduling",
        MESSAGE,
        "Warning",
    )
    assert event["regarding"]["uid"] == "uid-big"
    assert event["eventTime"] == "2026-01-31T12:00:00.005000Z"
    assert first["changed"] and first["marked"][0]["transition"]
    assert first["diff"][0]["after"] == {"shop/big": MESSAGE}
    assert (second["changed"], second["marked"]) == (False, [])


def test_another_message_alone_is_written_but_is_no_change() -> None:
    cluster = Cluster().add(pod("big", "99"))
    run(cluster, placements=[], unplaced=UNPLACED)
    other = [{**UNPLACED[0], "message": "0/2 nodes are available: 2 Insufficient cpu."}]
    result = run(cluster, placements=[], unplaced=other)
    assert not result["changed"]
    (condition,) = cluster.pods["shop", "big"]["status"]["conditions"]
    assert condition["message"].startswith("0/2")
    assert condition["lastTransitionTime"] == "2026-01-31T12:00:00Z"
    # Other numbers make the same Event, another reason makes a new one.
    another = "0/2 nodes are available: 2 Insufficient memory."
    run(cluster, placements=[], unplaced=[{**UNPLACED[0], "message": another}])
    assert [event["note"] for event in cluster.events] == [MESSAGE, another]


def test_pods_that_no_longer_wait_are_not_marked() -> None:
    cluster = Cluster().add(pod("big", nodeName="n1"), pod("twin"))
    cluster.pods["shop", "twin"]["metadata"]["uid"] = "another"
    unplaced = [
        *UNPLACED,
        {**UNPLACED[0], "pod": "gone"},
        {**UNPLACED[0], "pod": "twin", "uid": "uid-twin"},
    ]
    result = run(cluster, placements=[], unplaced=unplaced)
    assert (result["marked"], result["changed"], result["errors"]) == ([], False, [])


def test_a_pod_that_is_replaced_while_it_is_marked_is_left_alone() -> None:
    def hook(asked: Asked, cluster: Cluster) -> None:
        if asked.method == "PATCH":
            cluster.pods["shop", "big"]["metadata"]["uid"] = "another"

    cluster = Cluster(hook=hook).add(pod("big"))
    result = run(cluster, placements=[], unplaced=UNPLACED)
    assert (result["marked"], result["errors"]) == ([], [])
    assert "conditions" not in cluster.pods["shop", "big"]["status"]


def test_a_mark_that_is_not_allowed_is_reported() -> None:
    def hook(asked: Asked, _cluster: Cluster) -> Reply | None:
        return status_reply(403, "pods/status is forbidden") if asked.method == "PATCH" else None

    result = run(Cluster(hook=hook).add(pod("big")), placements=[], unplaced=UNPLACED)
    assert result["errors"][0]["pod"] == "big" and "forbidden" in result["errors"][0]["detail"]


def test_a_run_that_was_interrupted_before_the_condition_is_made_good_with_one_event() -> None:
    left = [status_reply(403, "not yet")]

    def hook(asked: Asked, _cluster: Cluster) -> Reply | None:
        return left.pop() if asked.method == "PATCH" and left else None

    cluster = Cluster(hook=hook).add(pod("big"))
    first, second = (run(cluster, placements=[], unplaced=UNPLACED) for _run in range(2))
    assert (len(first["errors"]), first["marked"]) == (1, [])
    assert (second["errors"], len(second["marked"]), len(cluster.events)) == ([], 1, 1)


def test_an_event_that_is_not_allowed_is_reported() -> None:
    def hook(asked: Asked, _cluster: Cluster) -> Reply | None:
        return status_reply(403, "events is forbidden") if "/events" in asked.path else None

    result = run(Cluster(hook=hook).add(pod("big")), placements=[], unplaced=UNPLACED)
    assert "forbidden" in result["errors"][0]["detail"]


def test_check_mode_does_not_mark() -> None:
    cluster = Cluster().add(pod("big"))
    result = run(cluster, CHECK, placements=[], unplaced=UNPLACED)
    assert result["changed"] and result["marked"][0]["pod"] == "big"
    assert cluster.events == [] and "conditions" not in cluster.pods["shop", "big"]["status"]


def plan_file(folder: Path) -> str:
    path = str(folder / "plan.json")
    watts = {"before": 1, "after": 2, "lower_bound": 2}
    body = {"placements": to("n1", "a", uid="uid-a"), "watts": watts, "unplaced": UNPLACED}
    documents.write(path, "plan", body)
    return path


@pytest.mark.parametrize("mark", [True, False])
def test_a_plan_document_is_carried_out(tmp_path: Path, mark: bool) -> None:
    cluster = Cluster().add(node("n1"), pod("a"), pod("big", "99"))
    result = run(cluster, plan=plan_file(tmp_path), mark_unplaced=mark)
    assert cluster.place_of("a") == "n1"
    assert [entry["pod"] for entry in result["marked"]] == (["big"] if mark else [])


def test_what_was_bound_is_recorded_with_its_time_and_documents(tmp_path: Path) -> None:
    cluster = Cluster().add(node("n1"), pod("a"))
    plan = plan_file(tmp_path)
    readings = tmp_path / "readings.json"
    documents.write(str(readings), "readings", {"readings": {}})
    path = tmp_path / "bound" / "bindings.json"
    carried_out(cluster, tmp_path, CHECK)
    assert not path.parent.exists()
    carried_out(cluster, tmp_path)
    written = documents.load(str(path), "bindings")
    assert written["time"] == "2026-01-31T12:00:00Z"
    assert written["plan_time"] == documents.load(plan, "plan")["time"]
    assert written["bound"] == [{"namespace": "shop", "pod": "a", "node": "n1"}]
    assert (written["skipped"], written["errors"]) == ([], [])
    kept = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}
    assert kept["plan.json"] == Path(plan).read_bytes()
    assert kept["readings.json"] == readings.read_bytes()
    before = path.stat()
    assert carried_out(cluster, tmp_path)["summary"]["bound"] == 0
    assert path.stat() == before, "a run that binds nothing leaves the record of the last one"
    path.unlink()
    cluster.add(pod("late"))
    carried_out(cluster, tmp_path)
    written = documents.load(str(path), "bindings")
    assert [entry["pod"] for entry in written["bound"]] == ["a"], "the run before was killed"


def test_a_plan_that_another_run_replaced_is_not_recorded_as_what_was_bound(
    tmp_path: Path,
) -> None:
    cluster = Cluster().add(node("n1"), pod("a"))
    plan = plan_file(tmp_path)
    content = documents.load(plan, "plan")
    documents.write(plan, "plan", content, documents.new_run())

    def replace(asked: Asked, _cluster: Cluster) -> Reply | None:
        if asked.path.endswith("/binding"):
            documents.write(plan, "plan", content, documents.new_run())
        return None

    cluster.hook = replace
    path = tmp_path / "bound" / "bindings.json"
    with pytest.raises(InvalidInput, match=r"Another run has replaced .*plan\.json") as failure:
        carried_out(cluster, tmp_path)
    assert [entry["pod"] for entry in failure.value.fields["bound"]] == ["a"]
    assert not path.exists()


def test_bad_input_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the pod shop/a is listed twice"):
        run(Cluster(), placements=to("n1", "a") + to("n2", "a"))
    with pytest.raises(InvalidInput, match="unplaced: message is missing"):
        run(Cluster(), placements=[], unplaced=[{"pod": "a"}])
    wrong = tmp_path / "plan.json"
    wrong.write_text(json.dumps({"document": "wattwise.kube/curves/v1"}))
    with pytest.raises(InvalidInput, match="is not a plan document"):
        carried_out(Cluster(), tmp_path)


def nominated(priority: int, **spec: t.Any) -> Json:
    """A pod of kube-scheduler that waits for n1, and takes most of it."""
    made = pod("urgent", cpu="3", priority=priority, **spec)
    made["spec"]["schedulerName"] = "default-scheduler"
    made["status"] = {"phase": "Pending", "nominatedNodeName": "n1"}
    return made


def test_the_room_of_a_nominated_pod_is_left_to_it() -> None:
    cluster = Cluster().add(node("n1"), pod("a", cpu="2"), nominated(0))
    assert reason(run(cluster, placements=to("n1", "a"))) == "node n1 is full: Insufficient cpu"


def test_a_pod_of_higher_priority_takes_the_room_of_a_nominated_one() -> None:
    cluster = Cluster().add(node("n1"), pod("a", cpu="2", priority=1), nominated(0))
    assert [each["pod"] for each in run(cluster, placements=to("n1", "a"))["bound"]] == ["a"]


def test_a_nominated_pod_that_is_bound_counts_once_and_for_itself_never() -> None:
    bound = nominated(0, nodeName="n1")
    cluster = Cluster().add(node("n1"), pod("a", cpu="1"), bound)
    assert [each["pod"] for each in run(cluster, placements=to("n1", "a"))["bound"]] == ["a"]
    alone = Cluster().add(node("n1"), nominated(0))
    assert [each["pod"] for each in run(alone, placements=to("n1", "urgent"))["bound"]] == [
        "urgent"
    ]


def test_an_infeasible_resize_leaves_room_at_bind_time_too() -> None:
    resized = pod("big", cpu="4", nodeName="n1")
    resized["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}],
    }
    cluster = Cluster().add(node("n1"), pod("a", cpu="2"), resized)
    assert [each["pod"] for each in run(cluster, placements=to("n1", "a"))["bound"]] == ["a"]
