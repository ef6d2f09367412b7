# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Intel RMD: workloads that get cache ways, memory bandwidth and P-states, on many machines.

Source: the REST API in the code of RMD v0.2 and v0.3.
"""
