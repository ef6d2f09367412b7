# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readable pools of a cluster, and the numbers of their devices that are free."""

from __future__ import annotations

import typing as t

from ...base.json_types import MutableObject
from ..model.findings import ApiObject, Defect, Findings
from ..model.model import HeldDevice, Instance
from ..model.usage import Usage
from .claim_status import check_conditions
from .ledger import Ledger, check_reservations
from .pools import Pools
from .status import held_devices, held_for_safety

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Valid",
    "message": "the devices of the pool can be allocated",
}


def check_pool(obj: ApiObject) -> None:
    """Raise for a pool whose status cannot be read; PoolStates checks its devices."""
    check_reservations(obj)
    check_conditions(obj)


class PoolStates:
    """The readable pools, and by name the reasons why others are unreadable."""

    def __init__(self, pools: t.Iterable[MutableObject]) -> None:
        self.problems: dict[str, str] = {}
        self.valid: list[MutableObject] = []
        self._read = Pools(Findings(), frozenset())
        for pool in pools:
            problem = ApiObject(pool).attempt(self._add)
            if isinstance(problem, Defect):
                self.problems[pool["metadata"]["name"]] = str(problem)
            else:
                self.valid.append(pool)

    def _add(self, pool: ApiObject) -> None:
        # A defective pool must not leave half of its devices among the others.
        Pools(Findings(), frozenset()).add(pool)
        self._read.add(pool)

    def available(self, ledger: Ledger) -> dict[str, int]:
        """Number of devices that a claim could have, for each readable pool."""
        usage = Usage(self._instance(ledger))
        counts = {pool["metadata"]["name"]: 0 for pool in self.valid}
        for index, device in enumerate(self._read.devices):
            if usage.in_use(index) or not usage.counters_allow(index):
                continue
            left = [usage.left(index, name) > 0 for name in device.capacities]
            if not device.shareable or device.access or any(left):
                counts[device.pool] += 1
        return counts

    def _instance(self, ledger: Ledger) -> Instance:
        held: list[HeldDevice] = []
        taken: set[int] = set()
        for reservation in ledger.claims().values():
            claim = ApiObject(reservation.as_claim())
            found = claim.attempt(held_devices, self._read, taken)
            if isinstance(found, Defect):
                # The pool changed under its users; the claim's reader reports it.
                found = held_for_safety(claim, self._read, taken)
            held += found
            taken.update(one.device for one in found)
        devices, counters = tuple(self._read.devices), tuple(self._read.counters)
        return Instance((), devices, counters, (), (), (), tuple(held))

    def condition(self, name: str) -> t.Mapping[str, str]:
        """The pool's condition Ready."""
        if name not in self.problems:
            return READY
        return {**READY, "status": "False", "reason": "Invalid", "message": self.problems[name]}
