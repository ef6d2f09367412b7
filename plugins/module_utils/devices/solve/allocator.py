# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Strategies by name, each a function from an Instance and Limits to an Allocation.

Building blocks of a strategy: ``usage.Usage`` keeps the state of devices,
``constraints.Constraints`` checks match and distinct constraints, ``search.Search`` finds
upstream's first answer on a node, ``node_solver`` decides whether one node satisfies claims
together, by counting and by ``node_model.NodeModel`` in CP-SAT, ``matching`` matches claims for one
device each over all nodes, ``conflict`` and ``matching`` find a minimal set of requests that cannot
be satisfied. If a strategy leaves ``Allocation.conflict`` empty, these two fill it.
"""

from __future__ import annotations

import typing as t

from ...solving.limits import Limits
from ..model.model import Allocation, Instance
from . import first_fit, optimal

Strategy = t.Callable[[Instance, Limits], Allocation]

STRATEGIES: t.Mapping[str, Strategy] = {"optimal": optimal.solve, "first_fit": first_fit.solve}
