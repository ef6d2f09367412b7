# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ways to solve a Problem, by name. A strategy is one function; add it to STRATEGIES."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.power import greedy, optimal
from ansible_collections.wattwise.kube.plugins.module_utils.power.answer import Answer
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits
from ansible_collections.wattwise.kube.plugins.module_utils.power.problem import Problem

Strategy = t.Callable[[Problem, Limits], Answer]

STRATEGIES: t.Mapping[str, Strategy] = {"optimal": optimal.solve, "greedy": greedy.solve}
