# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The strategies by name: each a function from an Instance and Limits to an Allocation."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.devices import first_fit
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model import (
    Allocation,
    Instance,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits import Limits

Strategy = t.Callable[[Instance, Limits], Allocation]

STRATEGIES: t.Mapping[str, Strategy] = {"first_fit": first_fit.solve}
