# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Redfish: inlet temperature, power and machine learning models, from any vendor's tree."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal

__all__ = ["read_models", "read_thermal"]
