# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Why a machine stays awake whatever the demand: its protection, its cycles, and floors."""

from __future__ import annotations

import typing as t

from ..base.fields.lenient import objects
from ..base.label_selector import LabelSelector, parse_selector_text
from ..base.libraries import numpy
from ..scheduling.pod_reader import identity

if t.TYPE_CHECKING:
    from ..base.json_types import Object
    from ..solving.arrays import Booleans
    from .fleet import Fleet
    from .rules import SleepRules

_SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
CONTROL_PLANE_LABELS = tuple(
    f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd")
)
_CONTROL_PLANE_COMPONENTS = ("etcd", "kube-apiserver")
# Daemons of distributed storage that hold data on the node, by a label of their pods.
_STORAGE = (
    ("app", "rook-ceph-osd", "Ceph"),
    ("app", "rook-ceph-mon", "Ceph"),
    ("longhorn.io/component", "instance-manager", "Longhorn"),
)

# One word, and one sentence.
Reason = tuple[str, str]


class Protections:
    """Why machines must stay awake, by the cluster's objects and the rules.

    Raises InvalidInput if the selector is not readable.
    """

    def __init__(self, rules: SleepRules) -> None:
        self._selector: LabelSelector | None = None
        if rules.select.strip():
            self._selector = parse_selector_text(rules.select, "sleep rules: select")

    def of(
        self,
        node: Object,
        labels: t.Mapping[str, str],
        pods: t.Iterable[Object],
        is_movable: t.Callable[[Object], bool],
    ) -> str:
        """One sentence, or nothing for a machine that may sleep. ``pods`` are those on the node."""
        if self._selector is None:
            return "The rules select no machine that may sleep."
        if not self._selector.matches(labels):
            return "The rules do not select it."
        if any(key in labels for key in CONTROL_PLANE_LABELS):
            return "It belongs to the control plane."
        annotations = (node.get("metadata") or {}).get("annotations") or {}
        if annotations.get(_SCALE_DOWN_DISABLED) == "true":
            return f"Its annotation {_SCALE_DOWN_DISABLED} is true."
        return next(filter(None, (_holder(pod, is_movable) for pod in pods)), "")


def _holder(pod: Object, is_movable: t.Callable[[Object], bool]) -> str:
    """Why a pod keeps its machine awake; empty if it does not."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    name = "/".join(identity(pod))
    if labels.get("component") in _CONTROL_PLANE_COMPONENTS:
        return f"Its pod {name} belongs to the control plane."
    for key, value, storage in _STORAGE:
        if labels.get(key) == value:
            return f"Its pod {name} holds data of {storage}."
    owners = objects((pod.get("metadata") or {}).get("ownerReferences"))
    controller = next((owner.get("kind") for owner in owners if owner.get("controller")), None)
    if controller in ("DaemonSet", "Node"):
        return ""
    volumes = objects((pod.get("spec") or {}).get("volumes"))
    if any(volume.get("hostPath") for volume in volumes):
        return f"Its pod {name} uses a directory of the machine."
    if controller is None:
        return f"Its pod {name} has no controller that would replace it."
    if not is_movable(pod):
        return f"Its pod {name} may not be moved."
    return ""


def obstacle(fleet: Fleet, node: int) -> Reason | None:
    """Why this awake machine may not be switched off now, apart from its pods; None if it may."""
    machine, rules = fleet.machines[node], fleet.rules
    if machine.protection:
        return "protected", machine.protection
    if fleet.cycles[node] >= rules.max_cycles_a_day:
        return "cycles", f"It was switched off {fleet.cycles[node]} times within a day."
    if fleet.awake_seconds[node] < rules.min_awake_seconds:
        return "rest", f"It stays awake for {rules.min_awake_seconds:.0f} s after a boot."
    return None


class Floors:
    """The numbers of machines that must stay awake, in the fleet, by zone and by rack."""

    def __init__(self, fleet: Fleet) -> None:
        rules = fleet.rules
        self._awake = fleet.open.copy()
        self._floors: list[tuple[str, Booleans, int]] = [
            ("the fleet", numpy.ones(len(fleet.machines), dtype=bool), rules.min_awake)
        ]
        for kind, floors in (("zone", rules.min_awake_by_zone), ("rack", rules.min_awake_by_rack)):
            for name, least in sorted(floors.items()):
                has = [getattr(machine, kind) == name for machine in fleet.machines]
                self._floors.append((f"{kind} {name}", numpy.array(has, dtype=bool), least))

    def all(self) -> list[tuple[str, Booleans, int]]:
        """Where each floor holds, its machines, and its number."""
        return self._floors

    def contradictions(self) -> list[str]:
        """Sentences about floors that no fleet of this size can keep."""
        return [
            f"The rules keep {least} machines of {where} awake, which has {int(members.sum())}; "
            "lower the floor."
            for where, members, least in self._floors
            if least > members.sum()
        ]

    def obstacle(self, node: int) -> Reason | None:
        """The floor that switching the machine off would break."""
        for where, members, least in self._floors:
            if members[node] and (members & self._awake).sum() - 1 < least:
                return "floor", f"At least {least} machines of {where} stay awake."
        return None

    def switched_off(self, node: int) -> None:
        """Count a machine as off."""
        self._awake[node] = False
