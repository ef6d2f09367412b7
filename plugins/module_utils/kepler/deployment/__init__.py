# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Deployment of Kepler: from a KeplerSystem and Nodes to manifests and a status.

Entry points are ``system.read_system``, ``nodes.judge_all``, ``groups.group`` and
``status.status_of``.
"""
