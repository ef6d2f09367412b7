# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rules of kube-scheduler for one pod and one node: their fields, feasibility, topology.

Entry points are ``feasibility.obstacle``, ``node_reader`` and ``pod_reader``.
"""
