# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Machines that sleep: which ones, when, and why.

The entry point is ``decision.decide``: a function of the fleet's state, the demand that was
recorded, the rules and the time. Nothing here reads a clock, a cluster or a BMC.
"""
