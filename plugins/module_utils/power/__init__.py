# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Where pods should run so that the fleet draws the fewest watts."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place

__all__ = ["place"]
