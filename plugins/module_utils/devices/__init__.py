# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which claims get which devices, and why others do not."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate

__all__ = ["allocate"]
