# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Execution of a Provisioning: reserved hosts, the installer Job, agents, and the status.

Everything except the reservation is computed from values; ``reconcile`` reads and writes.
"""
