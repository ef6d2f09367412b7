# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Outputs of an assignment: inventories, SSH access, objects of the cluster.

Every name and address from hosts is checked where it is written.
"""
