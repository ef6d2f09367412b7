# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Solvers as the library uses them: limits of time and work, linear models, and matching.

The entry point for linear models is ``linear.solve``.
"""
