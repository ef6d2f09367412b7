# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moving running pods, one after another: evict one, wait for the pod that replaces it, bind that.

The Eviction API refuses, with status 429, what a PodDisruptionBudget forbids; the first refusal
ends the run. Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils import documents
from ansible_collections.wattwise.kube.plugins.module_utils.argspec import (
    KUBERNETES,
    PROGRESS,
    ArgumentSpec,
)
from ansible_collections.wattwise.kube.plugins.module_utils.binding import bind, check_target
from ansible_collections.wattwise.kube.plugins.module_utils.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.errors import (
    ApiError,
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Kube, Object
from ansible_collections.wattwise.kube.plugins.module_utils.power.peers import pod_facts
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import is_pending
from ansible_collections.wattwise.kube.plugins.module_utils.power.rebalance import is_movable

SPEC = KUBERNETES.merge(
    PROGRESS,
    ArgumentSpec(
        {
            "plan": {"type": "path"},
            "moves": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "namespace": {"type": "str", "default": "default"},
                    "pod": {"type": "str", "required": True},
                    "uid": {"type": "str"},
                    "from_node": {"type": "str", "required": True},
                    "to_node": {"type": "str", "required": True},
                    "gain_watts": {"type": "float"},
                },
            },
            "scheduler_name": {"type": "str", "default": "wattwise"},
            "timeout": {"type": "float", "default": 120.0},
        },
        mutually_exclusive=(("plan", "moves"),),
        required_one_of=(("plan", "moves"),),
    ),
)

_TOO_MANY_REQUESTS = 429
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Move:
    """One line of the plan. ``uid`` None stands for whichever pod has the name now."""

    namespace: str
    pod: str
    source: str
    target: str
    uid: str | None = None

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "from_node": self.source,
            "to_node": self.target,
        }


class _Stopped(Exception):
    """The run ends here; the text says why. ``evicted``: the pod is gone already."""

    def __init__(self, reason: str, evicted: bool = False) -> None:
        super().__init__(reason)
        self.evicted = evicted


class _Skipped(Exception):
    """This move is no longer the planned one; the text says why."""


def move_pods(parameters: Parameters, context: Context = Context()) -> Result:
    """Carry the moves of a plan out. Raises InvalidInput and ApiError where nothing was begun."""
    options = SPEC.complete(parameters)
    moves = _read_moves(options)
    mover = _Mover(options, context)
    result: Result = {"changed": False, "moved": [], "skipped": [], "stopped": None}
    for index, move in enumerate(moves):
        try:
            result["moved"].append({**move.as_dict(), "replacement": mover.carry_out(move)})
            result["changed"] = True
        except _Skipped as skipped:
            result["skipped"].append({**move.as_dict(), "reason": str(skipped)})
        except _Stopped as stopped:
            result["changed"] = result["changed"] or stopped.evicted
            result["stopped"] = {**move.as_dict(), "reason": str(stopped)}
            break
        context.progress(done=index + 1, total=len(moves), failed=len(result["skipped"]))
    result["left"] = len(moves) - len(result["moved"]) - len(result["skipped"])
    return {**result, "diff": _diff(result["moved"])}


def _read_moves(options: Parameters) -> list[Move]:
    if options["plan"]:
        listed = documents.load(options["plan"], "plan").get("moves", [])
    elif options["moves"] is None:
        raise InvalidInput("give plan, the file that power_placement wrote, or moves")
    else:
        listed = options["moves"]
    return [
        Move(item["namespace"], item["pod"], item["from_node"], item["to_node"], item.get("uid"))
        for item in listed
    ]


def _diff(moved: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, dict[str, str]]:
    names = [f"{item['namespace']}/{item['pod']}" for item in moved]
    return {
        "before": {name: item["from_node"] for name, item in zip(names, moved)},
        "after": {name: item["to_node"] for name, item in zip(names, moved)},
    }


class _Mover:
    """Carries out one move at a time."""

    def __init__(self, options: Parameters, context: Context) -> None:
        if options["timeout"] <= 0:
            raise InvalidInput(f"timeout: {options['timeout']} is not more than 0 seconds")
        self._options = options
        self._context = context
        self._kube = Kube.connect(options)
        # A refusal is an answer: it is not asked again until it changes.
        self._once = Kube.connect(options, patience_seconds=0.0)

    def carry_out(self, move: Move) -> str | None:
        """The name of the pod that took the place of the one that moved; None in check mode."""
        pod = self._kube.find(move.path)
        self._check(move, pod)
        pod = t.cast(Object, pod)
        siblings = {item["metadata"]["uid"] for item in self._waiting(move, pod)}
        self._evict(move, pod)
        if self._context.check_mode:
            return None
        replacement = self._replacement(move, pod, siblings)
        self._bind(move, replacement)
        return str(replacement["metadata"]["name"])

    def _check(self, move: Move, pod: Object | None) -> None:
        if pod is None:
            raise _Skipped("the pod is gone")
        if move.uid not in (None, "", pod["metadata"]["uid"]):
            raise _Skipped("the pod was replaced by another of the same name")
        if pod["spec"].get("nodeName") != move.source:
            raise _Skipped(f"the pod is not on node {move.source} any more")
        if not is_movable(pod, self._options["scheduler_name"]):
            raise _Skipped("the pod would not come back to this scheduler, or must not be evicted")
        reason = check_target(self._kube, move.target, pod)
        if reason is not None:
            raise _Skipped(reason)

    def _evict(self, move: Move, pod: Object) -> None:
        options: Object = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        if self._context.check_mode:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": move.namespace, "name": move.pod},
            "deleteOptions": options,
        }
        try:
            self._once.request("POST", f"{move.path}/eviction", body)
        except ApiError as error:
            refused = "a PodDisruptionBudget forbids the eviction: "
            words = refused if error.status == _TOO_MANY_REQUESTS else "the eviction failed: "
            raise _Stopped(f"{words}{error}") from error

    def _waiting(self, move: Move, pod: Object) -> list[Object]:
        """Pods of the same controller that wait for this scheduler."""
        controller = pod_facts(pod, "pods").controller
        listed = self._kube.list(
            f"/api/v1/namespaces/{move.namespace}/pods", {"fieldSelector": "spec.nodeName="}
        )
        return [
            item
            for item in listed
            if pod_facts(item, "pods").controller == controller
            and is_pending(item, self._options["scheduler_name"])
        ]

    def _replacement(self, move: Move, pod: Object, before: set[str]) -> Object:
        deadline = time.monotonic() + self._options["timeout"]
        while True:
            try:
                new = [
                    item
                    for item in self._waiting(move, pod)
                    if item["metadata"]["uid"] not in before
                ]
            except ApiError as error:
                raise _Stopped(f"the replacement was not found: {error}", evicted=True) from error
            if new:
                return min(new, key=lambda item: str(item["metadata"]["name"]))
            if time.monotonic() >= deadline:
                raise _Stopped(
                    f"the pod was evicted, but none took its place in {self._options['timeout']} s",
                    evicted=True,
                )
            time.sleep(_PAUSE_SECONDS)

    def _bind(self, move: Move, replacement: Object) -> None:
        """Bind the new pod; one that cannot be bound waits for the next plan."""
        metadata = replacement["metadata"]
        placement = {
            "namespace": move.namespace,
            "pod": metadata["name"],
            "node": move.target,
            "uid": metadata["uid"],
        }
        connection = {name: self._options[name] for name in KUBERNETES.options}
        try:
            bound = bind({**connection, "placements": [placement]})
        except WattwiseError as error:
            raise _Stopped(f"the pod was evicted, but: {error}", evicted=True) from error
        for item in bound["skipped"]:
            raise _Stopped(
                f"the pod was evicted, and {metadata['name']} waits: {item['reason']}",
                evicted=True,
            )
