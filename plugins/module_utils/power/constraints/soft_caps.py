# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Preferences between pods that are placed at the same time, as pods too many in a domain.

A wish for an even spread caps the pods of a domain. One to be near others caps them at none until
the others are there, and one to be away from others does so once they are.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import require
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.topology_counts import Counts

if t.TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.int64]


@dataclass(frozen=True)
class Company:
    """What changes a cap: in domains with ``least`` pods of the tally it is ``cap[d]``."""

    tally: int
    least: int
    cap: Integers


class More(t.NamedTuple):
    """So many more pods of the capped tally, and of the company's, in a domain."""

    held: int = 0
    company: int = 0


NO_MORE = More()


@dataclass(frozen=True)
class SoftCap:
    """Each pod of a tally beyond ``cap[d]`` in its domain is an unmet preference.

    Its cost is ``watts``. Both tallies have the same domains.
    """

    tally: int
    cap: Integers
    watts: float
    company: Company | None = None

    @property
    def tallies(self) -> tuple[int, ...]:
        """The tallies that the cost depends on."""
        return (self.tally,) if self.company is None else (self.tally, self.company.tally)

    def unmet(self, counts: Counts, domains: Integers, more: More = NO_MORE) -> Integers:
        """The pods beyond the cap in each of these domains, with so many more in it alone."""
        numpy = require("numpy")
        cap = self.cap[domains]
        if self.company is not None:
            there = counts[self.company.tally][domains] + more.company
            cap = numpy.where(there >= self.company.least, self.company.cap[domains], cap)
        above = counts[self.tally][domains] + more.held - cap
        return t.cast("Integers", numpy.where(domains < 0, 0, numpy.maximum(above, 0)))

    def cost(self, counts: Counts) -> float:
        """In watts, over all domains."""
        domains = require("numpy").arange(len(self.cap) - 1)
        return self.watts * float(self.unmet(counts, domains).sum())
