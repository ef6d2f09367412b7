# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Soft caps: preferences between pods placed together, as caps on pods per domain.

A preferred even spread caps the pods of a domain. A preferred affinity term caps them at 0 until
the other pods are there, and a preferred anti-affinity term as soon as they are.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...solving.arrays import Integers
from .topology_counts import Counts


@dataclass(frozen=True)
class Company:
    """Condition on a cap: it is ``cap[d]`` in domains with ``least`` pods of the topology count."""

    topology_count: int
    least: int
    cap: Integers


class More(t.NamedTuple):
    """Numbers of further pods of the capped topology count, and of the company's, in a domain."""

    held: int = 0
    company: int = 0


NO_MORE = More()


@dataclass(frozen=True)
class SoftCap:
    """Each pod of a topology count beyond ``cap[d]`` in its domain is an unmet preference.

    Its cost is ``watts``. Both topology counts have the same domains.
    """

    topology_count: int
    cap: Integers
    watts: float
    company: Company | None = None

    @property
    def topology_counts(self) -> tuple[int, ...]:
        """The topology counts that the cost depends on."""
        return (
            (self.topology_count,)
            if self.company is None
            else (self.topology_count, self.company.topology_count)
        )

    def unmet(self, counts: Counts, domains: Integers, more: More = NO_MORE) -> Integers:
        """The pods beyond the cap in each of these domains, with further pods in it alone."""
        cap = self.cap[domains]
        if self.company is not None:
            there = counts[self.company.topology_count][domains] + more.company
            cap = numpy.where(there >= self.company.least, self.company.cap[domains], cap)
        above = counts[self.topology_count][domains] + more.held - cap
        return numpy.where(domains < 0, 0, numpy.maximum(above, 0))

    def cost(self, counts: Counts) -> float:
        """Cost in W over all domains."""
        domains = numpy.arange(len(self.cap) - 1)
        return self.watts * float(self.unmet(counts, domains).sum())
