# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Continuous mode: one run for a PowerFleet, the resource with the goals for some nodes.

Entry points are ``reconciliation.reconcile``, ``ownership.divide`` and ``resource.parse``.
"""
