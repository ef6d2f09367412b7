# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transitions of machines that sleep: whole cycles, kills at any moment, and hostile records."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.cluster_view import (
    Records,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.lifecycle import (
    Change,
    Intent,
    NodeView,
    Patience,
    next_change,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.node_changes import (
    EXCLUDED,
    OUT_OF_SERVICE,
    TAINT,
    awakened,
    patch_to_awake,
    patch_to_record,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    HOLD,
    NOT_REMEDIATED,
    PAUSES,
    NodeRecord,
    is_held,
    read_record,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase

NOW = 1_800_000_000.0
OWNER = "playbook"
PATIENCE = Patience()
OFF, WAKE, STAY = Intent("off", "not needed"), Intent("wake", "pods wait"), Intent()


def change(view: NodeView, intent: Intent = STAY, now: float = NOW) -> Change | None:
    return next_change(view, intent, PATIENCE, now, OWNER)


def in_phase(phase: Phase, **more: t.Any) -> NodeRecord:
    return NodeRecord(phase, **{"since": NOW - 10, "owner": OWNER, "deadline": NOW + 60, **more})


def view(
    phase: Phase = Phase.AWAKE, record: dict[str, t.Any] | None = None, **more: t.Any
) -> NodeView:
    found = None if phase is Phase.AWAKE else in_phase(phase, **(record or {}))
    return NodeView("n1", found, **{"power": "On", **more})


@dataclass
class World:
    """A machine that obeys, with what a run that was killed leaves behind."""

    record: NodeRecord | None = None
    power: str = "On"
    is_ready: bool = True
    answered_at: float = 0.0
    pods: list[str] = field(default_factory=lambda: ["a/b"])
    now: float = NOW

    def view(self) -> NodeView:
        pods = tuple(self.pods)
        return NodeView("n1", self.record, self.is_ready, self.answered_at, self.power, pods)

    def step(self, intent: Intent, writes: bool = True, acts: bool = True) -> Change | None:
        """One transition; a run may be killed before its write, or between write and action."""
        self.now += 20
        due = next_change(self.view(), intent, PATIENCE, self.now, OWNER)
        if due is None or not writes:
            return due
        self.record = due.record
        if not acts:
            return due
        if due.action == "evict":
            self.pods.clear()
        elif due.action == "switch_off":
            self.power, self.is_ready = "Off", False
        elif due.action in ("switch_on", "cycle"):
            self.power, self.is_ready, self.answered_at = "On", True, self.now + 1
        return due


def test_a_machine_sleeps_and_wakes() -> None:
    world = World()
    phases = []
    for intent in (OFF, OFF, OFF, OFF, STAY, WAKE, STAY, STAY):
        world.step(intent)
        phases.append(Phase.AWAKE if world.record is None else world.record.phase)
    assert phases == [
        *(Phase.DRAINING, Phase.DRAINING, Phase.GOING_OFF, Phase.ASLEEP, Phase.ASLEEP),
        *(Phase.WAKING, Phase.AWAKE, Phase.AWAKE),
    ]
    assert (world.power, world.pods) == ("On", [])


@given(st.lists(st.tuples(st.sampled_from("ow"), st.booleans(), st.booleans()), max_size=12))
def test_a_run_killed_anywhere_is_continued_by_the_next(kills: list[t.Any]) -> None:
    world = World()
    for letter, writes, acts in kills:
        world.step(OFF if letter == "o" else WAKE, writes, acts)
    # A shutdown that may have been asked for is waited for.
    for _ in range(20):
        world.step(WAKE)
    assert (world.view().phase, world.power) == (Phase.AWAKE, "On")
    for _ in range(12):
        world.step(OFF)
    assert (world.view().phase, world.power, world.pods) == (Phase.ASLEEP, "Off", [])


@given(st.sampled_from(list(Phase)), st.booleans(), st.sampled_from(["On", "Off", None]))
def test_a_machine_with_pods_is_never_asked_to_switch_off(
    phase: Phase, is_late: bool, power: str | None
) -> None:
    deadline = NOW - 1 if is_late else NOW + 1
    due = change(view(phase, {"deadline": deadline}, power=power, pods=("a/b",)), OFF)
    assert due is None or due.action != "switch_off"


@given(st.sampled_from(list(Phase)), st.sampled_from([OFF, WAKE, STAY]))
def test_a_machine_that_must_not_sleep_is_never_asked_to(phase: Phase, intent: Intent) -> None:
    due = change(view(phase, blocked="It belongs to the control plane."), intent)
    assert due is None or due.action not in ("switch_off", "evict")


class TestHands:
    """Machines that a person switches."""

    def test_one_that_was_switched_on_boots_and_is_awake(self) -> None:
        due = change(view(Phase.ASLEEP, is_ready=False))
        assert due is not None
        assert (due.phase, due.action, due.word) == (Phase.WAKING, "none", "by_hand")
        ready = view(Phase.ASLEEP, is_ready=True, answered_at=NOW - 1)
        due = change(ready)
        assert due is not None
        assert (due.phase, due.word) == (Phase.AWAKE, "by_hand")

    def test_one_that_was_switched_off_stays_off_unless_it_is_needed(self) -> None:
        off = view(power="Off", is_ready=False)
        assert change(off) is None
        due = change(off, WAKE)
        assert due is not None
        assert (due.phase, due.action) == (Phase.WAKING, "switch_on")

    def test_a_hold_keeps_it_as_it_is(self) -> None:
        assert change(view(held=True), OFF) is None
        assert change(view(Phase.ASLEEP, power="Off", is_ready=False, held=True), WAKE) is None
        due = change(view(Phase.DRAINING, held=True), OFF)
        assert due is not None
        assert due.phase is Phase.AWAKE


class TestFailures:
    """Machines that do not obey."""

    def test_a_boot_that_is_late_is_tried_again_then_quarantined(self) -> None:
        late = {"deadline": NOW - 1, "attempts": 1}
        due = change(view(Phase.WAKING, late, is_ready=False))
        assert due is not None
        assert (due.action, due.is_warning) == ("cycle", True)
        assert due.record is not None
        assert due.record.attempts == 2
        due = change(view(Phase.WAKING, {**late, "attempts": 3}, is_ready=False))
        assert due is not None
        assert (due.phase, due.action, due.is_warning) == (Phase.QUARANTINED, "none", True)

    def test_a_shutdown_that_never_ends_leaves_the_machine_awake(self) -> None:
        late = {"deadline": NOW - 1, "attempts": 3}
        due = change(view(Phase.GOING_OFF, late), OFF)
        assert due is not None
        assert (due.phase, due.word, due.is_warning) == (Phase.AWAKE, "not_off", True)

    def test_a_shutdown_is_not_late_before_its_request_was_accepted(self) -> None:
        late = {"deadline": NOW - 4, "attempts": 3}
        assert change(view(Phase.GOING_OFF, late, request_seconds=5.0, pods=("a/b",))) is None
        due = change(view(Phase.GOING_OFF, late, request_seconds=3.0), OFF)
        assert due is not None and due.word == "not_off"

    def test_a_quarantined_machine_that_was_repaired_is_awake(self) -> None:
        due = change(view(Phase.QUARANTINED, is_ready=True, answered_at=NOW - 1))
        assert due is not None
        assert (due.phase, due.word) == (Phase.AWAKE, "repaired")

    def test_readiness_from_before_the_boot_does_not_count(self) -> None:
        stale = view(Phase.WAKING, is_ready=True, answered_at=NOW - 1000)
        assert change(stale) is None
        due = change(stale, now=NOW + 130)
        assert due is not None

    def test_a_pod_that_came_is_waited_for_because_the_request_may_have_been_sent(self) -> None:
        busy = view(Phase.GOING_OFF, pods=("a/b",))
        assert change(busy, OFF) is None
        due = change(replace(busy, is_ready=True), OFF, NOW + 61)
        assert due is not None
        assert (due.phase, due.word, due.action) == (Phase.AWAKE, "pods", "none")

    def test_a_pod_that_came_before_the_first_request_keeps_its_machine_awake(self) -> None:
        due = change(view(Phase.GOING_OFF, came="Pod a/b", pods=("Pod a/b",)), OFF)
        assert due is not None
        assert (due.phase, due.word, due.is_warning) == (Phase.AWAKE, "pods", False)
        assert due.reason.startswith("Pod a/b came since the decision")

    def test_a_bmc_without_an_answer_quarantines_nothing(self) -> None:
        silent = view(Phase.GOING_OFF, power=None, is_ready=False)
        assert change(silent, OFF, NOW + 10_000) is None
        late = view(Phase.WAKING, {"attempts": 3}, power=None, is_ready=False)
        due = change(late, WAKE, NOW + 10_000)
        assert due is not None
        assert (due.phase, due.action, due.is_written) == (Phase.WAKING, "switch_on", False)


@pytest.mark.parametrize(
    ("given", "is_out"),
    [
        ({}, True),
        ({"has_volumes": False}, False),
        ({"power": None}, False),
        ({"held": True}, False),
        # A BMC that is wrong: the kubelet answers.
        ({"is_ready": True, "answered_at": NOW - 1000}, False),
        # The control plane still detaches them in its own way.
        ({"record": in_phase(Phase.ASLEEP, since=NOW - 60)}, False),
    ],
)
def test_volumes_are_detached_by_force_after_the_power_is_proven_off(
    given: dict[str, t.Any], is_out: bool
) -> None:
    asleep = in_phase(Phase.ASLEEP, since=NOW - 600, deadline=None)
    seen = {"record": asleep, "power": "Off", "is_ready": False, "has_volumes": True, **given}
    due = change(NodeView("n1", **seen))
    assert (due is not None and due.is_out_of_service) == is_out
    if due is not None:
        assert (due.record, due.action, due.word) == (asleep, "none", "volumes")


@pytest.mark.parametrize("options", [{"boot_timeout": 0}, {"max_attempts": 0}])
def test_impatience_is_refused(options: dict[str, t.Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        Patience(**options)


# --- records ---


def node(annotation: t.Any = None, **more: t.Any) -> dict[str, t.Any]:
    metadata: dict[str, t.Any] = {"name": "n1", "resourceVersion": "7", "annotations": {"a": "b"}}
    if annotation is not None:
        metadata["annotations"][ANNOTATION] = annotation
    return {"metadata": {**metadata, **more}, "spec": {}, "status": {}}


def test_a_record_is_read_as_it_was_written() -> None:
    record = NodeRecord(
        *(Phase.WAKING, NOW - 5, "team/fleet", NOW + 60, 2, True, False, "pods wait"),
        paused=tuple(PAUSES),
    )
    text = record.as_annotation()
    assert json.loads(text)["since"] == "2027-01-15T07:59:55Z"
    assert read_record(node(text), NOW) == record
    assert read_record(node(), NOW) is None


def test_a_record_promises_nothing_for_long() -> None:
    far = NodeRecord(Phase.WAKING, NOW + 1e6, "x", NOW + 1e6, 10**6)
    found = read_record(node(far.as_annotation()), NOW)
    assert found is not None
    assert (found.since, found.deadline, found.attempts) == (NOW, NOW + 7200, 100)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from([phase.value for phase in Phase]) | _JSON,
        "since": st.just("2027-01-15T08:00:00Z") | _JSON,
        "deadline": st.just("2027-01-15T08:00:00Z") | _JSON,
        "attempts": _JSON,
        "owner": _JSON,
        "cordoned": _JSON,
        "paused": _JSON | st.lists(st.sampled_from([*PAUSES, "x"])),
        "reason": _JSON,
    },
)


@given(st.text(max_size=40) | _JSON | _FIELDS.map(lambda one: json.dumps(one)))
def test_a_foreign_record_is_a_finding_of_its_own_machine(annotation: t.Any) -> None:
    try:
        read_record(node(annotation), NOW)
    except InvalidField as error:
        assert ANNOTATION in error.field
    other = {"metadata": {"name": "n2"}, "spec": {}, "status": {}}
    found = Records.of({"n1": node(annotation), "n2": other}, NOW)
    assert "n2" not in found.records
    assert {one.subject.name for one in found.findings} <= {"n1"}
    assert found.unreadable <= {"n1"}


def test_an_unreadable_record_keeps_the_machine_as_it_is() -> None:
    broken = node("{")
    found = Records.of({"n1": broken}, NOW).view(broken, t.cast("t.Any", _Power()), (), "")
    assert (found.held, found.record) == (True, None)


class _Power:
    state = "On"


def tainted(phase: str, annotation: t.Any) -> dict[str, t.Any]:
    taint = {"key": TAINT, "value": phase, "effect": "NoSchedule"}
    return {**node(annotation), "spec": {"taints": [taint]}}


@pytest.mark.parametrize("told", [None, "asleep", "draining"])
def test_a_record_without_the_taint_of_its_phase_switches_nothing_off(told: str | None) -> None:
    """A kubelet may write annotations of its Node, but no taints."""
    forged = in_phase(Phase.GOING_OFF, cordoned=True).as_annotation()
    found = node(forged) if told is None else tainted(told, forged)
    records = Records.of({"n1": found}, NOW)
    [record] = records.records.values()
    assert (record.phase, record.deadline, record.cordoned) == (Phase.ASLEEP, None, False)
    for is_ready in (False, True):
        seen = NodeView("n1", record, is_ready, NOW, "On", ("a/b",))
        due = change(seen, OFF)
        assert due is not None and due.action in ("none", "cycle", "switch_on")
        if is_ready:
            assert due.reason.startswith("Its Node is ready, though its annotation")
    assert [one.subject.name for one in records.findings] == ["n1"]


def test_a_record_with_its_taint_counts() -> None:
    written = in_phase(Phase.GOING_OFF)
    records = Records.of({"n1": tainted("going_off", written.as_annotation())}, NOW)
    assert records.records["n1"].phase is Phase.GOING_OFF


@pytest.mark.parametrize("annotation", ["{", None])
def test_a_tainted_node_without_a_record_can_be_woken(annotation: str | None) -> None:
    lost = tainted("asleep", annotation)
    if annotation is None:
        del lost["metadata"]["annotations"]
    records = Records.of({"n1": lost}, NOW)
    seen = records.view(lost, t.cast("t.Any", _Off()), (), "")
    assert not seen.held
    due = change(seen, WAKE)
    assert due is not None and due.action == "switch_on"
    # Nobody knows any more whose cordon it is.
    [record] = records.records.values()
    assert (record.cordoned, record.deadline, record.attempts) == (False, None, 0)
    assert [one.subject.name for one in records.findings] == ["n1"]


class _Off:
    state = "Off"


@pytest.mark.parametrize(
    ("value", "held"), [(None, False), ("", True), ("true", True), ("false", False)]
)
def test_a_hold_by_annotation(value: str | None, held: bool) -> None:
    annotations = {} if value is None else {HOLD: value}
    assert is_held({"metadata": {"annotations": annotations}}) is held


# --- patches ---


def applied(given: dict[str, t.Any], patch: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """The object after a JSON patch of this library's operations."""
    found = t.cast("dict[str, t.Any]", json.loads(json.dumps(given)))
    for operation in patch:
        *path, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/")
        ]
        holder = found
        for part in path:
            holder = holder[part]
        if operation["op"] == "test":
            assert holder[last] == operation["value"]
        elif operation["op"] == "remove":
            del holder[last]
        else:
            holder[last] = operation["value"]
    return found


@pytest.mark.parametrize("is_cordoned", [False, True])
@pytest.mark.parametrize("is_excluded", [False, True])
@pytest.mark.parametrize("pauses", [(), (NOT_REMEDIATED,), tuple(PAUSES)])
def test_a_wake_leaves_the_node_as_it_was(
    is_cordoned: bool, is_excluded: bool, pauses: tuple[str, ...]
) -> None:
    before = node(labels={"x": "y", **({EXCLUDED: "by hand"} if is_excluded else {})})
    before["spec"] = {"taints": [{"key": "own", "effect": "NoSchedule"}]}
    if is_cordoned:
        before["spec"]["unschedulable"] = True
    seen = NodeView(
        "n1", is_cordoned=is_cordoned, is_excluded=is_excluded, power="On", pauses=pauses
    )
    due = change(seen, OFF)
    assert due is not None
    assert due.record is not None
    first, *_others = patch = patch_to_record(before, due.record)
    assert first == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    drained = applied(before, patch)
    assert drained["spec"]["unschedulable"] is True
    marks = {**drained["metadata"]["annotations"], **drained["metadata"]["labels"]}
    assert {name: marks.get(name) == "true" for name in PAUSES} == {
        name: name in pauses for name in PAUSES
    }
    asleep_record = replace(due.record, phase=Phase.ASLEEP)
    asleep = applied(drained, patch_to_record(drained, asleep_record, is_out_of_service=True))
    assert {one["key"] for one in asleep["spec"]["taints"]} == {"own", TAINT, OUT_OF_SERVICE}
    waking = applied(asleep, patch_to_record(asleep, replace(due.record, phase=Phase.WAKING)))
    assert {one["key"] for one in waking["spec"]["taints"]} == {"own", TAINT}
    assert applied(waking, patch_to_awake(waking, due.record)) == before
    # The decision counts with the Node after that patch.
    counted = awakened(waking, due.record)
    assert counted["metadata"] == before["metadata"]
    assert counted["spec"] == {"unschedulable": False, **before["spec"]}


def test_a_node_without_annotations_and_labels_gets_them() -> None:
    bare = {"metadata": {"name": "n1", "resourceVersion": "7"}, "spec": {}, "status": {}}
    found = applied(bare, patch_to_record(bare, in_phase(Phase.DRAINING)))
    assert ANNOTATION in found["metadata"]["annotations"]
    assert found["metadata"]["labels"] == {EXCLUDED: "true"}
