# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Matching of claims for one device each with devices over all nodes, or a conflict.

Claims that may use the same devices are one group, and devices that the same groups may use are one
class, so thousands of claims are a flow through a small graph.
"""

from __future__ import annotations

import typing as t

from ...solving.matching import Matching
from ..model.model import Claim, ConflictPart, Instance
from ..model.usage import Usage


def match_plain_claims(instance: Instance, usage: Usage) -> Matching:
    """The matching of all single claims of a unit for one plain device.

    Plain devices have no counters and are not shared. Other claims are left out, so a conflict
    holds regardless of them, but a matching may not.
    """
    candidates: dict[tuple[frozenset[int], frozenset[str] | None], list[int]] = {}
    for unit in instance.units:
        claim = instance.claims[unit.claims[0]]
        if len(unit.claims) == 1 and is_plain(claim):
            matchers = frozenset(one.matcher for one in claim.requests[0].alternatives)
            candidates.setdefault((matchers, unit.nodes), []).append(unit.claims[0])
    groups: list[list[int]] = []
    groups_of_device: dict[int, list[int]] = {}
    for (matchers, nodes), claims in candidates.items():
        devices = _devices(instance, usage, matchers, nodes)
        if devices is None:
            continue
        for device in devices:
            groups_of_device.setdefault(device, []).append(len(groups))
        groups.append(claims)
    classes: dict[tuple[int, ...], list[int]] = {}
    for device in sorted(groups_of_device):
        classes.setdefault(tuple(groups_of_device[device]), []).append(device)
    usable: list[list[int]] = [[] for _group in groups]
    for one, members in enumerate(classes):
        for group in members:
            usable[group].append(one)
    return Matching(groups, list(classes.values()), usable)


def conflict_of_plain_claims(instance: Instance) -> tuple[ConflictPart, ...]:
    """A minimal set of plain claims for which all nodes together have too few devices."""
    matching = match_plain_claims(instance, Usage(instance))
    return tuple(
        ConflictPart(tuple(matching.groups[group][:count]), 0, 1)
        for group, count in matching.conflict()
    )


def is_plain(claim: Claim) -> bool:
    """Whether a claim requests one device, or one of several kinds."""
    return (
        claim.is_for_one_device
        and not claim.constraints
        and not any(
            one.portions or one.totals or one.ceilings or one.access or one.admin
            for one in claim.alternatives
        )
    )


def _devices(
    instance: Instance, usage: Usage, matchers: t.Iterable[int], nodes: frozenset[str] | None
) -> list[int] | None:
    """Free devices for a group; None if one of them is not plain."""
    everywhere = {node.name for node in instance.nodes}
    reach = everywhere if nodes is None else nodes & everywhere
    found: set[int] = set()
    for matcher in matchers:
        for device in instance.matchers[matcher].devices:
            given = instance.devices[device]
            if given.nodes.isdisjoint(reach):
                continue
            if given.consumes or given.shareable:
                return None
            if not usage.in_use(device):
                found.add(device)
    return sorted(found)
