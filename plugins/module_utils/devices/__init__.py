# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Devices for claims: allocations, and the reasons of claims without devices.

Entry points are ``allocation.allocate`` and ``reconciliation.reconcile``.
"""
