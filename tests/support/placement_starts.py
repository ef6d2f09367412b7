# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""WAO's PodSpread, restated: one pod of a ReplicaSet after another.

It shares no code with the solver. Areas are regions, or zones, or nodes. Until enough pods of the
ReplicaSet have a node, each one goes to an area that has the fewest of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from support.placement_rules import Json, Node, Placed, Pod

RATES = ("waok8s.github.io/podspread-rate", "wao.bitmedia.co.jp/podspread-rate")
AREAS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Starts:
    """Pods that start evenly. ``is_open`` says where a pod may run if no other pod were there."""

    def __init__(
        self,
        parameters: Json,
        nodes: Sequence[Node],
        pods: Iterable[Pod],
        is_open: Callable[[Node, Pod], bool],
    ) -> None:
        self._replica_sets = {
            given["metadata"]["uid"]: given for given in parameters.get("replica_sets", [])
        }
        self._sizes = Counter(pod.controller for pod in pods if not pod.is_over)
        self._nodes, self._is_open = nodes, is_open
        keys = (key for key in AREAS if len({node.labels.get(key) for node in nodes} - {None}) > 1)
        self._key = next(keys, None)
        self._known: dict[int, int] = {}

    def redundancy(self, pod: Pod) -> int:
        """Number of pods of its ReplicaSet that start evenly; 0 if the pod has no such rule."""
        if id(pod) not in self._known:
            self._known[id(pod)] = self._read(pod)
        return self._known[id(pod)]

    def _read(self, pod: Pod) -> int:
        kind, uid = pod.controller
        if kind != "ReplicaSet":
            return 0
        replica_set = self._replica_sets.get(uid, {"metadata": {}})
        rates = [rate(pod.annotations), rate(replica_set["metadata"].get("annotations", {}))]
        replicas: int = replica_set.get("spec", {}).get("replicas", self._sizes[pod.controller])
        chosen = next((each for each in rates if each is not None), Fraction(0))
        return math.floor(replicas * chosen)

    def accepts(self, pod: Pod, node: Node, others: Sequence[Placed]) -> bool:
        """Whether the pod may come to the node after these others."""
        siblings = [where for other, where in others if other.controller == pod.controller]
        if len(siblings) >= self.redundancy(pod):
            return True
        areas = {self._area(each) for each in self._nodes if self._is_open(each, pod)} - {None}
        there = Counter(self._area(where) for where in siblings)
        least = min((there[area] for area in areas), default=0)
        return self._area(node) in areas and there[self._area(node)] == least

    def _area(self, node: Node) -> str | None:
        return node.name if self._key is None else node.labels.get(self._key)


def rate(annotations: Mapping[str, str]) -> Fraction | None:
    """The first of the annotations, if it is a share from 0 to 1."""
    text = next((annotations[name] for name in RATES if name in annotations), "")
    if not re.fullmatch(r"\d*\.?\d+", text):
        return None
    return Fraction(text) if Fraction(text) <= 1 else None
