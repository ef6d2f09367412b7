# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Matching of existing volumes and claims: FindMatchingVolume of kube-scheduler.

Source: storage/volume/pv_helpers.go of k8s.io/component-helpers v0.34.
"""

from __future__ import annotations

import collections
import typing as t

from .objects import Claim, Volume


def candidates(claim: Claim, volumes: t.Iterable[Volume]) -> list[Volume]:
    """Volumes that can serve the claim, apart from nodes, the best first.

    A volume that is pre-bound to the claim excludes all others; among others the smallest is the
    best.
    """
    fitting = [volume for volume in volumes if _can_serve(volume, claim)]
    for volume in fitting:
        if volume.is_for(claim):
            return [volume]
    found = [
        volume
        for volume in fitting
        if volume.is_available
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and claim.wanted.access_modes <= volume.offered.access_modes
    ]
    return sorted(found, key=lambda volume: (volume.offered.size, volume.name))


def _can_serve(volume: Volume, claim: Claim) -> bool:
    offered, wanted = volume.offered, claim.wanted
    return (
        offered.storage_class == wanted.storage_class
        and (volume.claim is None or volume.is_for(claim))
        and offered.size >= wanted.size
        and offered.volume_mode == wanted.volume_mode
        and offered.attributes_class == wanted.attributes_class
        and not volume.is_leaving
    )


def matched(asked: t.Mapping[tuple[str, ...], int]) -> list[tuple[tuple[str, ...], str]] | None:
    """A separate volume for each claim, by augmenting paths; None if there is no such matching.

    ``asked`` has the number of claims by the volumes that can serve them, the best first. A matched
    volume stays matched, but another claim may get it.
    """
    claims = [volumes for volumes, number in asked.items() for _each in range(number)]
    if len(claims) > len({volume for volumes in asked for volume in volumes}):
        return None
    holder: dict[str, int] = {}
    for index in range(len(claims)):
        if not _augment(index, claims, holder):
            return None
    volume_of = {index: volume for volume, index in holder.items()}
    return [(volumes, volume_of[index]) for index, volumes in enumerate(claims)]


def _augment(first: int, claims: t.Sequence[tuple[str, ...]], holder: dict[str, int]) -> bool:
    """Augment the matching by one claim, breadth first."""
    came_from: dict[str, int] = {}
    queue = collections.deque([first])
    while queue:
        index = queue.popleft()
        for volume in claims[index]:
            if volume in came_from:
                continue
            came_from[volume] = index
            if volume not in holder:
                _pass_on(volume, first, came_from, holder)
                return True
            queue.append(holder[volume])
    return False


def _pass_on(
    volume: str, first: int, came_from: t.Mapping[str, int], holder: dict[str, int]
) -> None:
    """Each claim of the path takes the volume that it reached, and releases its own."""
    held = {index: name for name, index in holder.items()}
    while True:
        index = came_from[volume]
        former = held.get(index)
        holder[volume] = index
        if index == first or former is None:
            return
        volume = former
