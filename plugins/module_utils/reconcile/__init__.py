# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Several steps of the library in one task of a role, without documents between them.

Room ``reconcile`` imports the rooms of the steps and decides only their order.
"""
