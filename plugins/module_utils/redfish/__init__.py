# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Redfish: inlet temperature, power and machine learning models, from any vendor's tree.

Entry points are ``thermal.read_thermal``, ``models.read_models``, and ``bmc.read`` for both at
once. ``power_control`` switches and limits machines.
"""
