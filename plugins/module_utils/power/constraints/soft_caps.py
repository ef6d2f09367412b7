# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Soft caps: preferences between pods placed together, as caps on pods per domain.

A preferred even spread caps the pods of a domain. A preferred affinity term caps them at 0 until
the other pods are there, and a preferred anti-affinity term as soon as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.libraries import numpy
from ...solving.arrays import Integers
from .topology_counts import Counts, TopologyCount


@dataclass(frozen=True, eq=False)
class Company:
    """Condition on a cap: it is ``cap[d]`` in domains with ``least`` pods of the topology count."""

    topology_count: TopologyCount
    least: int
    cap: Integers


@dataclass(frozen=True, eq=False)
class SoftCap:
    """Each pod of a topology count beyond ``cap[d]`` in its domain is an unmet preference.

    Its cost is ``watts``. Both topology counts have the same domains.
    """

    topology_count: TopologyCount
    cap: Integers
    watts: float
    company: Company | None = None

    @property
    def topology_counts(self) -> list[TopologyCount]:
        """The topology counts that the cost depends on."""
        return [self.topology_count, *([self.company.topology_count] if self.company else [])]

    def unmet(self, counts: Counts, domains: Integers, group: int = 0, number: int = 0) -> Integers:
        """The pods beyond the cap in each of these domains, with further pods in it alone."""

        def there(of: TopologyCount) -> Integers:
            found: Integers = counts[of.index][domains] + number * int(of.members[group])
            return found

        cap = self.cap[domains]
        if self.company is not None:
            is_met = there(self.company.topology_count) >= self.company.least
            cap = numpy.where(is_met, self.company.cap[domains], cap)
        above = there(self.topology_count) - cap
        return numpy.where(domains < 0, 0, numpy.maximum(above, 0))

    def cost(self, counts: Counts) -> float:
        """Cost in W over all domains."""
        domains = numpy.arange(len(self.cap) - 1)
        return self.watts * float(self.unmet(counts, domains).sum())
