# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Matching of existing volumes and claims: FindMatchingVolume of kube-scheduler.

Source: storage/volume/pv_helpers.go of k8s.io/component-helpers v0.34.
"""

from __future__ import annotations

import typing as t

from ...solving.matching import Matching
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
    """A separate volume for each claim; None if there is no such matching.

    ``asked`` has the number of claims by the volumes that can serve them, the best first.
    """
    names = list(dict.fromkeys(name for volumes in asked for name in volumes))
    if sum(asked.values()) > len(names):
        return None
    position = {name: index for index, name in enumerate(names)}
    matching = Matching(
        [range(number) for number in asked.values()],
        [[index] for index in range(len(names))],
        [[position[name] for name in volumes] for volumes in asked],
    )
    if any(matching.left_over):
        return None
    return [
        (volumes, name)
        for group, volumes in enumerate(asked)
        for name in volumes
        if matching.flow.get((group, position[name]))
    ]
