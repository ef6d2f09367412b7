# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Switching of machines by their BMCs or by Metal3, and power limits.

Entry points are ``switching.switch_power``, ``info.read_power`` and ``limiting.limit_power``.
``planning`` decides on the next request without I/O; ``bmc`` and ``metal3`` carry it out.
"""
