# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Solvers for claims: first fit, the optimum, conflicts and explanations.

A strategy is a function from an Instance and Limits to an Allocation, and knows neither API. Its
building blocks: ``usage`` keeps the state of devices and checks match and distinct constraints,
``search`` finds upstream's first answer on a node, ``node_solver`` decides whether one node
satisfies claims together, by counting and by ``node_model`` in CP-SAT, ``matching`` matches claims
for one device each over all nodes, ``conflict`` and ``matching`` find a minimal set of requests
that cannot be satisfied.
"""
