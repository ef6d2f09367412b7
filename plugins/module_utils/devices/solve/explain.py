# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Explanations why a node does or does not satisfy claims, in the form of the prototype's README.

For each node and claim: the pools that cannot help, each with its reason; sets of pools with the
devices from each; the best set; a score of 100 or 0. There are two differences from the prototype.
A claim sees the devices that other pods and earlier claims of its own pod leave free, and all parts
of a claim count.
"""

from __future__ import annotations

import itertools
import typing as t

from ...base.json_types import Object
from ...cel.values import identities
from ...solving.limits import Limits
from ..model.model import Allocation, ClaimAllocation, Unit
from ..model.task import Task
from .node_solver import solve_node
from .search import State

NO_DEVICES = "no available devices"
MATCH_FAILED = "claim MatchAttributes constraint failed"
# Limit of sets of pools, which grow exponentially.
_MAX_SETS = 64

Pool = tuple[str, str]


class _Offer(t.NamedTuple):
    """Devices of one pool for a claim on a node, by position, in published order."""

    pool: Pool
    devices: list[int]


class Explainer:
    """Explains nodes one by one, with all existing and new allocations of others."""

    def __init__(self, task: Task, allocation: Allocation, limits: Limits) -> None:
        self._task = task
        self._allocation = allocation
        self._state = State.of(task.instance)
        self._instance, self._usage = task.instance, self._state.usage
        self._limits = limits
        self._by_pool: dict[Pool, list[int]] = {}
        for index, device in enumerate(task.instance.devices):
            self._by_pool.setdefault((device.driver, device.pool), []).append(index)
        for claim, given in enumerate(allocation.claims):
            self._change(claim, given, taken=True)

    def nodes(self, unit: Unit) -> t.Iterator[Object]:
        """The results of all claims of a unit on each node, with the node's score."""
        own = [(claim, self._allocation.claims[claim]) for claim in unit.claims]
        for node in self._instance.nodes_of(unit):
            for claim, given in own:
                self._change(claim, given, taken=False)
            try:
                result = self._node(unit, node.name, dict(own))
            finally:
                for claim, given in own:
                    self._change(claim, given, taken=True)
            yield result

    def _change(self, claim: int, allocation: ClaimAllocation | None, *, taken: bool) -> None:
        self._usage.change(self._instance.claims[claim], allocation, taken=taken)

    def _node(self, unit: Unit, node: str, given: t.Mapping[int, ClaimAllocation | None]) -> Object:
        results: list[Object] = []
        scores: list[int] = []
        taken: list[tuple[int, ClaimAllocation | None]] = []
        for claim in unit.claims:
            offers, ignored = self._offers(claim, node)
            allocation = given[claim]
            if allocation is None or allocation.node != node:
                allocation = self._try(unit, claim, node)
            self._change(claim, allocation, taken=True)
            taken.append((claim, allocation))
            sets = self._pool_sets(claim, offers, allocation)
            best = next((index for index, one in enumerate(sets) if one["score"]), -1)
            scores.append(sets[best]["score"] if best >= 0 else 0)
            results.append(_claim_result(self._instance.claims[claim].name, best, sets, ignored))
        for claim, allocation in taken:
            self._change(claim, allocation, taken=False)
        score = sum(scores) // len(scores) if scores and all(scores) else 0
        return {"NodeName": node, "DeviceClaimResults": results, "score": score}

    def _try(self, unit: Unit, claim: int, node: str) -> ClaimAllocation | None:
        alone = Unit((claim,), unit.nodes)
        found = solve_node(self._state, alone, node, self._limits)
        return None if isinstance(found, str) else found[0]

    def _offers(self, claim: int, node: str) -> tuple[list[_Offer], list[Object]]:
        """The possible devices of the node's pools, and the pools that can give nothing."""
        offers: list[_Offer] = []
        ignored: list[Object] = []
        for driver, name, nodes in self._task.pools:
            if node not in nodes:
                continue
            matching, reason = self._matching(claim, self._by_pool.get((driver, name), []))
            if matching:
                offers.append(_Offer((driver, name), matching))
            else:
                ignored.append(_pool_result(name, 0, reason))
        return offers, ignored

    def _matching(self, claim: int, devices: list[int]) -> tuple[list[int], str]:
        """The devices of a pool that the claim may have, or the reason why it has none."""
        if all(map(self._usage.in_use, devices)):
            return [], NO_DEVICES
        choices = [
            (self._instance.matchers[alternative.matcher], alternative)
            for alternative in self._instance.claims[claim].alternatives
        ]
        matching = [
            device
            for device in devices
            if any(
                not matcher.why_not(device)
                and self._usage.portions(device, alternative) is not None
                for matcher, alternative in choices
            )
        ]
        reasons = dict.fromkeys(
            matcher.why_not(device) for matcher, _alternative in choices for device in devices
        )
        return matching, next((text for text in reversed(reasons) if text), NO_DEVICES)

    def _pool_sets(
        self, claim: int, offers: list[_Offer], allocation: ClaimAllocation | None
    ) -> list[Object]:
        """Sets of one pool, of two, …, up to the first size with a success.

        An answer without such a set is added as a set, which counts.
        """
        requests = self._instance.claims[claim].requests
        # The devices that the first choice of each request needs.
        required = sum(request.alternatives[0].count for request in requests)
        answer = self._used(allocation)
        sets: list[Object] = []
        for size in range(1, len(offers) + 1):
            combinations = itertools.islice(itertools.combinations(offers, size), _MAX_SETS)
            sets += [self._evaluate(claim, chosen, required, answer) for chosen in combinations]
            if any(one["score"] for one in sets) or len(sets) >= _MAX_SETS:
                break
        if answer and not any(one["score"] for one in sets):
            pools = [_pool_result(name, count) for (_driver, name), count in answer.items()]
            sets.append({"poolResults": pools, "score": 100})
        return sets

    def _used(self, allocation: ClaimAllocation | None) -> dict[Pool, int]:
        used: dict[Pool, int] = {}
        for chosen in allocation.chosen if allocation else ():
            device = self._instance.devices[chosen.device]
            key = device.driver, device.pool
            used[key] = used.get(key, 0) + 1
        return used

    def _evaluate(
        self, claim: int, offers: t.Sequence[_Offer], required: int, answer: dict[Pool, int]
    ) -> Object:
        """Devices that these pools give together, taken greedily; exact only for one request."""
        results: list[Object] = []
        left = required
        for offer in offers:
            if not self._agrees(claim, offers[0], offer):
                results.append(_pool_result(offer.pool[1], 0, MATCH_FAILED))
                continue
            count = min(len(offer.devices), left)
            left -= count
            results.append(_pool_result(offer.pool[1], count))
        pools = {offer.pool for offer in offers}
        if self._is_plain(claim):
            satisfied = left == 0 and bool(answer)
        else:
            satisfied = bool(answer) and answer.keys() <= pools
            if satisfied:
                results = [_pool_result(pool[1], answer.get(pool, 0)) for pool in sorted(pools)]
        if satisfied:
            return {"poolResults": results, "score": 100}
        unable = f"unable to satisfy {max(left, 1)} of {required} device requests"
        return {"poolResults": results, "score": 0, "failureReason": unable}

    def _is_plain(self, claim: int) -> bool:
        """Whether counting devices decides whether a claim is satisfied."""
        alternatives = self._instance.claims[claim].alternatives
        constraints = self._instance.claims[claim].constraints
        return (
            len(alternatives) == 1
            and not (alternatives[0].totals or alternatives[0].every_device)
            and all(constraint.kind == "match" for constraint in constraints)
            and not any(device.consumes for device in self._instance.devices)
        )

    def _agrees(self, claim: int, first: _Offer, offer: _Offer) -> bool:
        """Whether a pool shares the values that must match with the first pool of its set."""
        names = [
            constraint.attribute
            for constraint in self._instance.claims[claim].constraints
            if constraint.kind == "match"
        ]
        one, other = (self._instance.devices[item.devices[0]].attributes for item in (first, offer))
        return all(
            name in one and name in other and identities(one[name]) & identities(other[name])
            for name in names
        )


def _claim_result(name: str, best: int, sets: list[Object], ignored: list[Object]) -> Object:
    result: Object = {"claimName": name, "best": best, "poolSetResults": sets or None}
    return {**result, "ignoredPools": ignored} if ignored else result


def _pool_result(name: str, count: int, reason: str = "") -> Object:
    result: Object = {"poolName": name, "deviceCount": count}
    return {**result, "failureReason": reason} if reason else result
