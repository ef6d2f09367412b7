# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines that sleep in a living cluster: their states on Nodes, and the work of one run.

The entry points are ``step.run_sleep`` and ``step.wake_all``. ``lifecycle`` and ``guards`` decide
without I/O; ``node_changes`` writes each transition as one patch of the Node.
"""
