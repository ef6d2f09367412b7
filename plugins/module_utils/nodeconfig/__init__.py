# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""NodeConfigs and their templates, their targets, their poll, and nodes as hosts of an inventory.

Entry points are ``reconciliation.reconcile``, ``targets.resolve`` and ``poll.poll``.
"""
